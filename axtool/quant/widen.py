"""What to keep in a wider format: by what each is worth on samples that were held back, and what it costs in cycles.

Each candidate is tried alone; then they are taken in the order of their worth, as long as the figure rises and the
cycles allow it. What two tensors are worth together is measured, not added up: errors may cancel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from axtool.errors import NumericsError, UsageError, plural
from axtool.quant.observers import Histogram, MinMax

MOST_DB, MOST_CYCLES = 120.0, 100.0  # of a budget
LEAST_GAIN_DB = 0.05  # of a further tensor: less is noise
Scored = Callable[[frozenset[str]], float | None]
Costed = Callable[[frozenset[str]], int]


@dataclass(frozen=True, slots=True)
class Budget:
    """`sqnr_db`: widen until the figure reaches it. `cycles`: by which share the modelled cycles may grow. `formats`:
    what it may be spent on, of int16 (tensors), fp16 and fx32 (nodes), and float, on the host (the ends of the model).
    """

    sqnr_db: float | None = None
    cycles: float | None = None
    formats: tuple[str, ...] = ("int16",)

    def __bool__(self) -> bool:
        return self.sqnr_db is not None or self.cycles is not None


@dataclass(frozen=True, slots=True)
class Step:
    """One tensor that became int16, or `nodes` (their first outputs, behind the first one's name) that became another
    `format`: the figure in dB and the share of cycles added, with all before it.
    """

    tensor: str
    sqnr_db: float
    cycles: float
    format: str = "int16"
    nodes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Plain values: hundredths of a decibel, cycles in ten-thousandths of those in int8."""
        figures = {"sqnr_db": round(self.sqnr_db, 2), "cycles_added": round(self.cycles, 4)}
        if not self.nodes:
            return {"tensor": self.tensor, **figures}
        return {"format": self.format, "node": self.tensor, "outputs": list(self.nodes), **figures}

    def __str__(self) -> str:
        more = f" and {len(self.nodes) - 1} more" if len(self.nodes) > 1 else ""
        return f"'{self.tensor}'{more} in {self.format}: {self.sqnr_db:.2f} dB, {100 * self.cycles:+.2f}% of cycles"


def budget_of(sqnr_db: float | None, cycles: str | None) -> Budget:
    """The budget of two options, `30` and `+5%`. Raises UsageError for what is neither."""
    if sqnr_db is not None and not 0 < sqnr_db <= MOST_DB:
        raise UsageError(f"--budget-sqnr {sqnr_db:g}: want decibels between 0 and {MOST_DB:g}", code="bad-option")
    if cycles is None:
        return Budget(sqnr_db)
    match = re.fullmatch(r"\+?([0-9]{1,4}(?:\.[0-9]{1,4})?)\s*%", cycles.strip())
    if match is None:
        raise UsageError(f"--budget-cycles '{cycles}': want a share of the cycles such as +5%", code="bad-option")
    return Budget(sqnr_db, float(match[1]) / 100)


def widen(
    names: Sequence[str],
    score: Scored,
    cycles: Costed,
    budget: Budget,
    count: Callable[[int, int], None],
    last: Sequence[str] = (),
) -> tuple[Step, ...]:
    """What to widen, one step each. `score` and `cycles` are of the model with such a set of names widened.

    Those of `last` are tried only where all others leave the figure short of what the budget asks for. `count` hears
    how many of all trials are done. Raises NumericsError with the best that was reached where that is
    less than the budget asks for.
    """
    narrow = _figure(score(frozenset()))
    if budget.sqnr_db is not None and narrow >= budget.sqnr_db:
        return ()
    base = max(cycles(frozenset()), 1)
    steps: list[Step] = []
    for group in (names, last if budget.sqnr_db is not None else ()):
        before = frozenset(step.tensor for step in steps)
        if steps and budget.sqnr_db is not None and steps[-1].sqnr_db >= budget.sqnr_db:
            break
        for name in _ranked(group, before, steps[-1].sqnr_db if steps else narrow, score, count):
            figure = steps[-1].sqnr_db if steps else narrow
            if budget.sqnr_db is not None and figure >= budget.sqnr_db:
                break
            wide = frozenset((name, *(step.tensor for step in steps)))
            if (found := _figure(score(wide))) < figure + LEAST_GAIN_DB:
                continue
            added = cycles(wide) / base - 1
            if budget.cycles is None or added <= budget.cycles:
                steps.append(Step(name, found, added))
    reached = steps[-1].sqnr_db if steps else narrow
    if budget.sqnr_db is not None and reached < budget.sqnr_db:
        raise _missed(budget, steps, reached)
    return tuple(steps)


def noisiest(names: Sequence[str], seen: Mapping[str, MinMax], most: int) -> tuple[str, ...]:
    """At most so many of the names, in their order: those of which int8 over all that was seen takes the largest share.

    Of a tensor that nothing is known of, a natural range say, the share is that of evenly spread values.
    """
    if len(names) <= most:
        return tuple(names)
    loud = sorted(names, key=lambda name: -_noise_share(seen.get(name)))[:most]
    return tuple(name for name in names if name in loud)


def _noise_share(seen: MinMax | None) -> float:
    """The noise of rounding to 255 steps, step * step / 12, as a share of the mean square."""
    if not isinstance(seen, Histogram):
        return 1 / 255**2 / 4
    values, counts = seen.occupied()
    power = float((counts * np.square(values)).sum() / max(counts.sum(), 1.0))
    step = (max(seen.high, 0.0) - min(seen.low, 0.0)) / 255
    return step * step / 12 / power if power else 0.0


def _ranked(
    names: Sequence[str], before: frozenset[str], figure: float, score: Scored, count: Callable[[int, int], None]
) -> Iterator[str]:
    """The names that are worth something alone, beside what is there before, the most first."""
    worth = {}
    for done, name in enumerate(names, 1):
        worth[name] = _figure(score(before | {name})) - figure
        count(done, len(names))
    return iter(sorted((name for name in names if worth[name] > 0), key=lambda name: -worth[name]))


def _figure(decibels: float | None) -> float:
    return float("-inf") if decibels is None else decibels


def _missed(budget: Budget, steps: Sequence[Step], reached: float) -> NumericsError:
    if reached == float("-inf"):
        return NumericsError(
            f"an SQNR of {budget.sqnr_db:g} dB cannot be measured: "
            "on the samples held back the float model has no outputs but zeros and integers",
            hint="calibrate with samples that it answers to, or leave out --budget-sqnr",
            code="budget-not-met",
        )
    mixed = any(step.nodes for step in steps)
    changed = plural(len(steps), "change of format") if mixed else f"{plural(len(steps), 'tensor')} in int16"
    within = "" if budget.cycles is None else f" within {budget.cycles:+.1%} of cycles"
    cost = f" for {steps[-1].cycles:+.1%} of cycles" if steps else ""
    return NumericsError(
        f"an SQNR of {budget.sqnr_db:g} dB is out of reach{within}: the best is {reached:.1f} dB with {changed}{cost}",
        hint=f"ask for less (--budget-sqnr {max(int(reached), 1)}), try -O 2, or calibrate with more samples",
        code="budget-not-met",
        details=[str(step) for step in steps],
    )
