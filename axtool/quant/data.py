"""Facts about each calibration sample  ->  warnings: too few, the same twice, constant, unlike the others."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import plural
from axtool.inputs.notice import Notice, warning

FEW = 32  # samples below this are few
_HASHED = 8192
MINORITY = 0.25  # of the samples: so few of another sign than the rest are most likely a mistake
ENOUGH = 64  # values of a sample, before its sign says how it was prepared
OUTLIER = 50.0  # times the median magnitude: no picture of the same preparation differs so much


@dataclass(frozen=True, slots=True)
class Fact:
    """One input of one sample: its finite extremes, a digest of its bytes, how many values it has."""

    low: float
    high: float
    digest: bytes
    size: int = 2


@dataclass
class DataFacts:
    """Facts by (sample, input): a few bytes a sample."""

    facts: dict[tuple[int, str], Fact] = field(default_factory=dict)
    count: int = 0

    def add(self, index: int, feeds: Mapping[str, NDArray[Any]]) -> None:
        """Note one sample."""
        self.count += 1
        for name, array in feeds.items():
            low, high = _extremes(array)
            self.facts[index, name] = Fact(low, high, _digest(array), 1 if array.dtype.kind == "O" else array.size)

    def renumber(self, indices: Sequence[int]) -> None:
        """Sample i of a part is sample indices[i] of the whole."""
        self.facts = {(indices[index], name): fact for (index, name), fact in self.facts.items()}

    def merge(self, other: DataFacts) -> None:
        """Fold in the facts of other samples."""
        self.facts |= other.facts
        self.count += other.count


def data_notices(facts: DataFacts, names: Sequence[str], method: str) -> tuple[Notice, ...]:
    """What the user should know about the calibration samples. `names` tell them apart in the messages."""
    notices = []
    if facts.count < FEW:
        what = f"only {plural(facts.count, 'calibration sample')}; {FEW} or more give steadier ranges"
        notices.append(warning("few-samples", what))
    inputs = sorted({name for _, name in facts.facts})
    samples = sorted({index for index, _ in facts.facts})
    notices += _duplicates(facts, inputs, samples, names)
    for name in inputs:
        column = {index: facts.facts[index, name] for index in samples}
        notices += _constant(name, column, names)
        notices += _outliers(name, column, names, method)
        notices += _signs(name, column, names)
    return tuple(notices)


def _extremes(array: NDArray[Any]) -> tuple[float, float]:
    """The extremes without the -Inf of masks; (0, 0) where nothing is left, and of text."""
    if array.dtype.kind == "O":
        return 0.0, 0.0
    if array.size and array.dtype.kind == "f" and not np.isfinite(array.min()):
        array = array[np.isfinite(array)]
    return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


def _digest(array: NDArray[Any]) -> bytes:
    """A hash of some thousand elements and the sum of all: a tenth of the time of hashing every byte."""
    if array.dtype.kind == "O":
        return hashlib.blake2b(repr(array.tolist()).encode("utf-8", "backslashreplace"), digest_size=12).digest()
    flat = np.ascontiguousarray(array).reshape(-1)
    some = np.ascontiguousarray(flat[:: max(1, flat.size // _HASHED)])
    total = np.asarray(flat.sum(dtype=flat.dtype if flat.dtype.kind == "f" else None))
    return hashlib.blake2b(some.tobytes() + total.tobytes(), digest_size=12).digest()


def _duplicates(facts: DataFacts, inputs: Sequence[str], samples: Sequence[int], names: Sequence[str]) -> list[Notice]:
    first: dict[tuple[bytes, ...], int] = {}
    pairs = []
    for index in samples:
        key = tuple(facts.facts[index, name].digest for name in inputs)
        if first.setdefault(key, index) != index:
            pairs.append(f"{_name(index, names)} = {_name(first[key], names)}")
    if not pairs:
        return []
    copies = plural(len(pairs), "calibration sample is a copy of another", "calibration samples are copies of others")
    return [warning("duplicate-samples", f"{copies}: {_some(pairs)}")]


def _constant(name: str, column: Mapping[int, Fact], names: Sequence[str]) -> list[Notice]:
    flat = [_name(index, names) for index, fact in column.items() if fact.low == fact.high and fact.size > 1]
    # An input that is constant everywhere is one by its nature: a size, a threshold, a scalar.
    if not flat or (len(flat) == len(column) and len({fact.digest for fact in column.values()}) == 1 < len(column)):
        return []
    what = f"{plural(len(flat), 'sample holds', 'samples hold')} one value only: {_some(flat)}"
    return [warning("constant-samples", what, f"input '{name}'")]


def _outliers(name: str, column: Mapping[int, Fact], names: Sequence[str], method: str) -> list[Notice]:
    """Samples whose magnitude is far from the median's: prepared in another way, most likely."""
    size = {index: max(abs(fact.low), abs(fact.high)) for index, fact in column.items()}
    middle = median(size.values()) if size else 0.0
    if not middle:
        return []
    notices = []
    for index, value in size.items():
        if value > OUTLIER * middle or 0 < value < middle / OUTLIER:
            harm = "; with minmax it would destroy accuracy" if method == "minmax" and value > middle else ""
            source = f" ({names[index]})" if index < len(names) else ""
            what = f"sample {index} range is {_times(value / middle)}x the median{source}{harm}"
            notices.append(warning("outlier-sample", what, f"input '{name}'"))
    return notices


def _signs(name: str, column: Mapping[int, Fact], names: Sequence[str]) -> list[Notice]:
    """A few samples with negative values where the others have none, or without where the others reach far below 0."""
    large = {index: fact for index, fact in column.items() if fact.size >= ENOUGH and fact.low < fact.high}
    if not large:
        return []
    depth = median(fact.low / max(abs(fact.low), abs(fact.high)) for fact in large.values())
    if depth >= 0:
        odd, what = [index for index, fact in large.items() if fact.low < 0], "negative values, the others none"
    elif depth < -0.5:
        odd, what = [index for index, fact in large.items() if fact.low >= 0], "no negative values, the others do"
    else:
        return []
    if not odd or len(odd) > MINORITY * len(large):
        return []
    who = f"{plural(len(odd), 'sample holds', 'samples hold')} {what}: {_some([_name(index, names) for index in odd])}"
    return [warning("unlike-samples", f"{who}; are all prepared in the same way?", f"input '{name}'")]


def _times(ratio: float) -> str:
    """A ratio in a few characters: 73, 0.01, and as a power of ten where no more is meant: 1e6."""
    if 0.001 < ratio < 10_000:
        return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"
    return f"1e{round(math.log10(ratio))}"


def _name(index: int, names: Sequence[str]) -> str:
    return f"{index} ({names[index]})" if index < len(names) else str(index)


def _some(items: Sequence[str], shown: int = 5) -> str:
    return ", ".join(items[:shown]) + (f" and {len(items) - shown} more" if len(items) > shown else "")
