"""A function of one value as integers: 256 entries for an int8 argument, 1,025 points for one of 16 bits.

Entries are output steps, rounded half up and clamped. What is not finite is clamped too: infinities to the end of the
range on their side; where a function has no value (the logarithm of a negative number) the real zero's entry stands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from axtool.ops.arithmetic import LIMITS, TABLE_FRACTION_BITS, TABLE_STEP_BITS
from axtool.types import QFormat

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]

INTERP_ENTRIES = 1025
FX_INTERVAL_BITS = 12  # of the intervals of a table of an fx32 argument
FX_POINTS = 2**FX_INTERVAL_BITS + 1
FX_MOST_INTERVAL = 32 - FX_INTERVAL_BITS  # the intervals then cover every int32
MIDDLE = 512  # the entry of argument 0


def lut256(fn: Function, in_fmt: QFormat, out_fmt: QFormat) -> NDArray[np.int8]:
    """Entry q + 128 is clip(floor(fn((q - zp) * scale) / scale_out + 1/2) + zp_out): int8 (256,)."""
    return np.asarray(_entries(fn, in_fmt, out_fmt), np.int8)


def lut256_wide(fn: Function, in_fmt: QFormat, out_fmt: QFormat) -> NDArray[np.int16]:
    """As `lut256`, for an output of 16 bits: int16 (256,)."""
    return np.asarray(_entries(fn, in_fmt, out_fmt), np.int16)


def prelu_luts(slopes: ArrayLike, in_fmt: QFormat, out_fmt: QFormat) -> NDArray[np.int8]:
    """x, or slope * x below 0; one slope and one table a channel: int8 (channels * 256,)."""
    flat = np.asarray(slopes, np.float64).reshape(-1, 1)
    q = np.arange(-128, 128, dtype=np.float64)
    x = (q - in_fmt.zero_point[0]) * in_fmt.scale[0]  # (256,)
    steps = np.floor(np.where(x >= 0, x, flat * x) / out_fmt.scale[0] + 0.5) + out_fmt.zero_point[0]
    return np.asarray(np.clip(steps, *LIMITS["int8"]), np.int8).reshape(-1)


def interp_table(fn: Function, scale16: float, out_fmt: QFormat) -> NDArray[np.int16]:
    """Entry i is fn((i - 512) * 64 * scale16) in output steps with 7 fraction bits, zero point included: int16 (1025,).

    `scale16` is the scale of the 16-bit argument that the accumulator is requantized to, zero point 0.
    """
    return np.asarray(np.clip(_points(fn, scale16, out_fmt), *LIMITS["int16"]), np.int16)


def interp_table_wide(fn: Function, scale16: float, out_fmt: QFormat) -> NDArray[np.int32]:
    """As `interp_table`, with room for outputs of 16 bits: int32 (1025,)."""
    return np.asarray(np.clip(_points(fn, scale16, out_fmt), *LIMITS["int32"]), np.int32)


def fx_table(
    fn: Function, seen: tuple[float, float], in_bits: int, out_bits: int
) -> tuple[NDArray[np.int32], int, int]:
    """Points of an fx32 argument: int32 (4097,), the number of the first one, and log2 of the numbers between two.

    They cover at least twice the range that was seen (or every int32) around its middle; beyond them a function is held
    at its value at the end. Between points h apart a line is within h^2 / 8 * max|fn''| of the function: h is at most
    2^-10 of the range seen (and no less than one number).
    """
    lo, hi = (int(np.clip(np.rint(np.ldexp(end, in_bits)), *LIMITS["int32"])) for end in seen)
    width = max(2 * (hi - lo), 1)
    interval = min(max((width - 1).bit_length() - FX_INTERVAL_BITS, 0), FX_MOST_INTERVAL)
    reach = 1 << (FX_INTERVAL_BITS + interval)
    first = min(max((lo + hi - reach) // 2, LIMITS["int32"][0]), LIMITS["int32"][1] + 1 - reach)
    at = first + (np.arange(FX_POINTS, dtype=np.int64) << interval)
    steps = np.floor(np.ldexp(_values(fn, np.ldexp(at.astype(np.float64), -in_bits)), out_bits) + 0.5)
    return np.asarray(np.clip(steps, *LIMITS["int32"]), np.int32), first, interval


def _entries(fn: Function, in_fmt: QFormat, out_fmt: QFormat) -> NDArray[np.float64]:
    q = np.arange(-128, 128, dtype=np.float64)
    y = _values(fn, (q - in_fmt.zero_point[0]) * in_fmt.scale[0])
    steps = np.floor(y / out_fmt.scale[0] + 0.5) + out_fmt.zero_point[0]
    entries: NDArray[np.float64] = np.clip(steps, *LIMITS[out_fmt.kind])
    return entries


def _points(fn: Function, scale16: float, out_fmt: QFormat) -> NDArray[np.float64]:
    x = (np.arange(INTERP_ENTRIES, dtype=np.float64) - MIDDLE) * (2**TABLE_STEP_BITS * scale16)
    steps = (_values(fn, x) / out_fmt.scale[0] + out_fmt.zero_point[0]) * 2**TABLE_FRACTION_BITS
    points: NDArray[np.float64] = np.floor(steps + 0.5)
    return points


def _values(fn: Function, x: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.asarray(fn(x), np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
