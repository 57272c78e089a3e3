"""A published figure beside ours, what must hold of a set of them, and errors of figures left out of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `tolerance` is a fraction of what is published, or so many units where `absolute`; None asks nothing.

    `fixed` figures follow from shapes alone: no constant of a chip could change them, so none is counted against them.
    `kept_back` figures were not looked at when constants were chosen.
    """

    set: str
    name: str
    unit: str
    published: float
    ours: float
    tolerance: float | None = None
    absolute: bool = False
    kept_back: bool = False
    fixed: bool = False
    note: str = ""

    @property
    def error(self) -> float:
        """Ours against published: a signed fraction, or a difference in units where `absolute`."""
        return self.ours - self.published if self.absolute else relative(self.ours, self.published)

    @property
    def holds(self) -> bool | None:
        """Whether the error is within the tolerance; None for a figure for orientation."""
        return None if self.tolerance is None else abs(self.error) <= self.tolerance + 1e-12


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a set as a whole: `figure` is at most, or at least, `bound`."""

    set: str
    what: str
    figure: float
    bound: float
    sense: Literal["at most", "at least"] = "at most"
    unit: str = ""  # "%" for a fraction that is shown as per cent

    @property
    def holds(self) -> bool:
        return self.figure <= self.bound + 1e-12 if self.sense == "at most" else self.figure >= self.bound - 1e-12


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the model says of a figure when the constants are fitted to the others."""

    name: str
    unit: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        return relative(self.predicted, self.published)


def relative(ours: float, published: float) -> float:
    """ours / published - 1. Raises ValueError where nothing is published."""
    if published == 0:
        raise ValueError(f"no relative error against 0 (ours is {ours:g})")
    return ours / published - 1


def median_error(rows: Iterable[Row | LeftOut]) -> float:
    """The median of the sizes of the errors; 0 without rows."""
    errors = [abs(row.error) for row in rows]
    return median(errors) if errors else 0.0


def total_error(rows: Iterable[Row]) -> float:
    """The signed error of the sum of ours against the sum of what is published."""
    rows = list(rows)
    return relative(sum(row.ours for row in rows), sum(row.published for row in rows))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: Pearson's correlation of the ranks, ties sharing their mean rank.

    Raises ValueError for fewer than two values, unequal lengths, or values that are all the same.
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"want two equally long lists of at least 2 values, found {len(first)} and {len(second)}")
    a, b = _ranks(first), _ranks(second)
    middle = (len(a) + 1) / 2
    spread = [sum((rank - middle) ** 2 for rank in ranks) for ranks in (a, b)]
    if not all(spread):
        raise ValueError("no rank where all values are the same")
    together = sum((p - middle) * (q - middle) for p, q in zip(a, b, strict=True))
    return together / math.sqrt(spread[0] * spread[1])


def leave_one_out(
    published: Mapping[str, float], refit: Callable[[Mapping[str, float], str], float], unit: str
) -> list[LeftOut]:
    """Each figure as predicted from the others: `refit(rest, name)` fits to `rest` and predicts `name`."""
    return [
        LeftOut(name, unit, value, refit({other: v for other, v in published.items() if other != name}, name))
        for name, value in published.items()
    ]


def fit_line(points: Iterable[tuple[float, float, float]]) -> float:
    """The x for which `base + slope * x` meets what is published best, by the squares of relative errors.

    `points` are (published, base, slope). Raises ValueError where no point depends on x.
    """
    scaled = [(1 - base / published, slope / published) for published, base, slope in points]
    weight = sum(slope**2 for _, slope in scaled)
    if not weight:
        raise ValueError("no point depends on the constant")
    return sum(missing * slope for missing, slope in scaled) / weight


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda at: values[at])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for at in order[start:end]:
            ranks[at] = (start + 1 + end) / 2
        start = end
    return ranks
