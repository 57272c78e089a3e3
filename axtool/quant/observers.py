"""Arrays, one after the other  ->  what calibration keeps of a tensor: counts, extremes, a histogram, never values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF = 4096  # bins on each side of zero; the largest magnitude lies in the upper half of them
_BLOCK = 1 << 16  # elements binned at a time: the buffers stay in the cache


@dataclass
class MinMax:
    """Extremes of the finite values, and how many values there were. Any order of arrays gives the same bits."""

    low: float = math.inf
    high: float = -math.inf
    count: int = 0
    nan: int = 0
    inf: int = 0

    def observe(self, array: NDArray[Any]) -> None:
        """Fold one array in; NaN and infinities are counted and left out."""
        self._fold(array)

    def merge(self, other: MinMax) -> None:
        """Fold in what another observer of the same tensor saw."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.count, self.nan, self.inf = self.count + other.count, self.nan + other.nan, self.inf + other.inf

    @property
    def finite(self) -> int:
        """How many values were finite."""
        return self.count - self.nan - self.inf

    def range(self) -> tuple[float, float]:
        """The smallest and the largest finite value; (0, 0) where there is none."""
        return (self.low, self.high) if self.finite else (0.0, 0.0)

    def _fold(self, array: NDArray[Any]) -> NDArray[np.float32]:
        """Counts and extremes; gives the finite values as one float32 row."""
        values = _row(array)
        self.count += values.size
        if not values.size:
            return values
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):  # NaN shows in both
            nan, finite = np.isnan(values), np.isfinite(values)
            self.nan += int(nan.sum())
            self.inf += int(values.size - finite.sum() - nan.sum())
            values = values[finite]
            if not values.size:
                return values
            low, high = float(values.min()), float(values.max())
        # Adding 0 turns -0 into 0: which of the two a minimum gives depends on the order.
        self.low, self.high = min(self.low, low + 0.0), max(self.high, high + 0.0)
        return values


@dataclass
class Histogram(MinMax):
    """Counts in bins of width 2^exponent around zero; the exponent follows from the largest magnitude alone.

    Bin i holds the values with trunc(x / 2^exponent) = i, so the middle one is two widths wide, and i = -HALF + 1 …
    HALF - 1. When the range grows, bin i becomes bin trunc(i / 2^k): exactly where the values would have gone, so any
    order of arrays and any split over processes give the same counts.
    """

    exponent: int | None = None  # None until a value other than zero is seen
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * HALF - 1, np.int64))

    def observe(self, array: NDArray[Any]) -> None:
        """Fold one array in; NaN and infinities are counted and left out."""
        values = _row(array)
        if self.exponent is not None and self._observe_native(values):
            return
        values = self._fold(values)
        if not values.size:
            return
        self._grow(_exponent(max(abs(self.low), abs(self.high))))
        if self.exponent is None:
            self.counts[HALF - 1] += values.size
        elif (native := _native()) is not None:
            native(values, self.exponent, self.counts)  # each has a bin now
        else:
            self.counts += bins_of(values, self.exponent)

    def _observe_native(self, values: NDArray[np.float32]) -> bool:
        """Fold in one pass of native code, where there is one; False, and nothing done, where a value has no bin."""
        native = _native()
        if native is None or self.exponent is None or not values.size:
            return False
        homeless, low, high = native(values, self.exponent, self.counts)
        if homeless:
            return False
        self.count += values.size
        self.low, self.high = min(self.low, low + 0.0), max(self.high, high + 0.0)
        return True

    def merge(self, other: MinMax) -> None:
        """Fold in the histogram of another process."""
        super().merge(other)
        assert isinstance(other, Histogram)
        self._grow(other.exponent)
        counts = other.counts
        if self.exponent is not None and other.exponent is not None:
            counts = _coarser(counts, self.exponent - other.exponent)
        self.counts += counts

    def percentile(self, percent: float) -> tuple[float, float]:
        """The range without the outer (100 - percent) % of the values at each end, within one bin of the exact one."""
        if not self.finite or self.exponent is None:
            return self.range()
        left_out = math.floor(self.finite * (100 - percent) / 100)
        upward = int(np.searchsorted(np.cumsum(self.counts), left_out, side="right"))
        downward = 2 * HALF - 2 - int(np.searchsorted(np.cumsum(self.counts[::-1]), left_out, side="right"))
        low, high = self._edges(upward)[0], self._edges(downward)[1]
        return max(low, self.low), min(high, self.high)

    def occupied(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The middle of each bin that holds something, within the extremes, and how many values it holds."""
        if self.exponent is None:
            return np.zeros(1), np.array([float(self.finite)])
        places = np.flatnonzero(self.counts)
        index = places - (HALF - 1)
        middle = np.where(index == 0, 0.0, index + 0.5 * np.sign(index)) * math.ldexp(1.0, self.exponent)
        return np.clip(middle, self.low, self.high), self.counts[places].astype(np.float64)

    def _edges(self, bin_: int) -> tuple[float, float]:
        assert self.exponent is not None
        index = bin_ - (HALF - 1)
        return (
            math.ldexp(index - (index <= 0), self.exponent),
            math.ldexp(index + (index >= 0), self.exponent),
        )

    def _grow(self, exponent: int | None) -> None:
        """Make room for magnitudes of this exponent by merging bins."""
        if exponent is None:
            return
        if self.exponent is not None and exponent > self.exponent:
            self.counts = _coarser(self.counts, exponent - self.exponent)
        self.exponent = exponent if self.exponent is None else max(self.exponent, exponent)


def _row(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, np.float32).reshape(-1)


def _exponent(magnitude: float) -> int | None:
    """The smallest e with magnitude < HALF * 2^e; None for zero."""
    return math.frexp(magnitude)[1] - (HALF.bit_length() - 1) if magnitude else None


def _coarser(counts: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Counts in bins 2^steps as wide: trunc(trunc(x) / 2^steps) = trunc(x / 2^steps)."""
    if steps <= 0:
        return counts
    index = np.arange(-HALF + 1, HALF)
    target = np.sign(index) * (np.abs(index) >> min(steps, 62)) + (HALF - 1)
    merged = np.zeros_like(counts)
    np.add.at(merged, target, counts)
    return merged


def bins_of(values: NDArray[np.float32], exponent: int) -> NDArray[np.int64]:
    """Counts of trunc(x * 2^-exponent), exact: a power of two only moves the exponent of a float.

    The factor is split in two where it is no float32 itself; what underflows belongs to the middle bin anyway.
    """
    first = max(min(-exponent, 126), -126)
    factor, rest = np.float32(math.ldexp(1.0, first)), np.float32(math.ldexp(1.0, -exponent - first))
    counts = np.zeros(2 * HALF - 1, np.int64)
    size = min(values.size, _BLOCK)
    scaled, narrow, index = np.empty(size, np.float32), np.empty(size, np.int32), np.empty(size, np.intp)
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        part, near, place = scaled[: block.size], narrow[: block.size], index[: block.size]
        np.multiply(block, factor, out=part)
        if rest != 1:
            np.multiply(part, rest, out=part)
        # By way of int32: there is a vector instruction for that cast, which truncates towards zero.
        np.copyto(near, part, casting="unsafe")
        np.add(near, HALF - 1, out=near)
        np.copyto(place, near)
        counts += np.bincount(place, minlength=2 * HALF - 1)
    return counts


@cache
def _native() -> Callable[[NDArray[np.float32], int, NDArray[np.int64]], tuple[int, float, float]] | None:
    try:
        from axtool.native._native import histogram_f32
    except ImportError:  # not built, or built before there was one
        return None
    return histogram_f32
