"""Float outputs and those of a trial  ->  one figure: the mean SQNR of the outputs, each part of a Concat apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.parts import Part

Sums = dict[str, NDArray[np.float64]]  # (signal, noise) by part
BEST_DB, WORST_DB = 45.0, -10.0  # beyond these a better figure is no better result


class Score:
    """Signal and noise of each part of each sample."""

    def __init__(self, parts: Mapping[str, Sequence[Part]]) -> None:
        self._parts = parts
        self._samples: list[Sums] = []

    def add(self, wanted: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]) -> None:
        """One sample; outputs that are not float are left out."""
        sums: Sums = {}
        for name, right in wanted.items():
            if right.dtype.kind != "f":
                continue
            pieces = [(p.name, p.axis, slice(p.start, p.stop)) for p in self._parts.get(name, ())] or [
                ("", 0, slice(None))
            ]
            for part, axis, span in pieces:
                at = (slice(None),) * axis + (span,) if right.ndim else ()
                key = f"{name}/{part}"
                sums[key] = sums.get(key, 0) + _energies(right[at], np.asarray(found[name])[at])
        self._samples.append(sums)

    def decibels(self) -> float | None:
        """The mean over the parts that are not all zero, of all samples together; None where there is none."""
        total: Sums = {}
        for sums in self._samples:
            for key, pair in sums.items():
                total[key] = total.get(key, 0) + pair
        return _mean(total)

    def each(self) -> tuple[float, ...]:
        """The same of each sample that has a figure."""
        return tuple(figure for sums in self._samples if (figure := _mean(sums)) is not None)


def _energies(right: NDArray[Any], got: NDArray[Any]) -> NDArray[np.float64]:
    """(signal, noise): sums of squares."""
    signal = right.astype(np.float64)
    noise = signal - got
    finite = np.isfinite(signal)
    noise = np.where(finite & np.isfinite(noise), noise, 0.0) if not finite.all() else noise
    with np.errstate(over="ignore"):  # noise without bounds is the worst there is
        return np.array((np.square(np.where(finite, signal, 0.0)).sum(), np.square(noise).sum()))


def _mean(sums: Sums) -> float | None:
    figures = [_decibels(*pair.tolist()) for pair in sums.values() if pair[0] > 0]
    return sum(figures) / len(figures) if figures else None


def _decibels(signal: float, noise: float) -> float:
    if not math.isfinite(noise):
        return WORST_DB
    if noise == 0:
        return BEST_DB
    return min(max(10 * (math.log10(signal) - math.log10(noise)), WORST_DB), BEST_DB)
