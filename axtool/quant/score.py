"""Float outputs and those of a trial  ->  one figure: the mean SQNR of the outputs, each part of a Concat apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.parts import Part

BEST_DB, WORST_DB = 45.0, -10.0  # beyond these a better figure is no better result


class Score:
    """Signal and noise of each part, summed over samples."""

    def __init__(self, parts: Mapping[str, Sequence[Part]]) -> None:
        self._parts = parts
        self._sums: dict[str, NDArray[np.float64]] = {}

    def add(self, wanted: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]) -> None:
        """Fold in one sample; outputs that are not float are left out."""
        for name, right in wanted.items():
            if right.dtype.kind != "f":
                continue
            pieces = [(p.name, p.axis, slice(p.start, p.stop)) for p in self._parts.get(name, ())] or [
                ("", 0, slice(None))
            ]
            for part, axis, span in pieces:
                at = (slice(None),) * axis + (span,) if right.ndim else ()
                self._fold(f"{name}/{part}", right[at], np.asarray(found[name])[at])

    def _fold(self, key: str, right: NDArray[Any], got: NDArray[Any]) -> None:
        signal = right.astype(np.float64)
        noise = signal - got
        finite = np.isfinite(signal)
        noise = np.where(finite & np.isfinite(noise), noise, 0.0) if not finite.all() else noise
        sums = self._sums.setdefault(key, np.zeros(2))
        with np.errstate(over="ignore"):  # noise without bounds is the worst there is
            sums += (np.square(np.where(finite, signal, 0.0)).sum(), np.square(noise).sum())

    def decibels(self) -> float | None:
        """The mean over the parts that are not all zero; None where there is none."""
        figures = [_decibels(*sums.tolist()) for sums in self._sums.values() if sums[0] > 0]
        return sum(figures) / len(figures) if figures else None


def _decibels(signal: float, noise: float) -> float:
    if not math.isfinite(noise):
        return WORST_DB
    if noise == 0:
        return BEST_DB
    return min(max(10 * (math.log10(signal) - math.log10(noise)), WORST_DB), BEST_DB)
