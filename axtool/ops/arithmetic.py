"""The integer arithmetic of the device: scales as integers, one rounding, and the way in and out of int8.

Everything is exact: the same numbers on every CPU. Only `quantize_host` and `dequantize` touch floats, and they
do one float32 operation at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from axtool.types import QFormat

LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1)}
)
TABLE_STEP_BITS = 6  # an interpolation table has an entry every 64 steps of its int16 argument
TABLE_FRACTION_BITS = 7  # and its entries are output steps * 128
RESIDUAL_BITS = 16  # fraction bits in which the operands of an addition meet
SPLIT_BITS = 20  # where an accumulator of more than 32 bits is cut in two for its product


def bits(n: int) -> int:
    """0 for n = 0, else floor(log2 n) + 1."""
    return int(n).bit_length()


def qfp(scale: float) -> tuple[int, int]:
    """A real scale as (m, f): m = int(scale * 2^f), truncated; 0 <= m < 2^31. ValueError outside [0, 2^31)."""
    if not 0 <= scale < 2**31:
        raise ValueError(f"a scale must be in [0, 2^31), got {scale}")
    f = 31 - bits(int(scale))
    return int(math.ldexp(float(scale), f)), f


def qfps(scales: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`qfp` of each scale: (m, f). ValueError where one is outside [0, 2^31)."""
    if not ((scales >= 0) & (scales < 2**31)).all():
        raise ValueError(f"scales must be in [0, 2^31), got {scales.min()} to {scales.max()}")
    f = 31 - np.frexp(np.floor(scales))[1].astype(np.int64)  # frexp's exponent of a whole number is its bits
    return np.ldexp(scales, f).astype(np.int64), f


def requantize(acc: ArrayLike, m: ArrayLike, f: ArrayLike, zp: ArrayLike, lo: int, hi: int) -> NDArray[np.int64]:
    """clamp(floor(acc * m / 2^f + 1/2) + zp, lo, hi). m, f, zp broadcast over the last axis of acc."""
    wide = np.asarray(acc, np.int64)
    m, f, zp = np.asarray(m, np.int64), np.asarray(f, np.int64), np.asarray(zp, np.int64)
    half = np.where(f > 0, np.left_shift(np.int64(1), np.maximum(f - 1, 0)), 0)
    reach = max(int(wide.max()), -int(wide.min())) if wide.size else 0
    if reach <= 2**32:
        return _clamp(((wide * m + half) >> f) + zp, lo, hi)
    if reach < 2**51 and int(f.min()) >= SPLIT_BITS:  # the product leaves 64 bits: its two halves do not
        high, low = wide >> SPLIT_BITS, wide & (2**SPLIT_BITS - 1)
        total = high * m + ((low * m + half) >> SPLIT_BITS)
        return _clamp((total >> (f - SPLIT_BITS)) + zp, lo, hi)
    exact = np.asarray(wide, object) * np.asarray(m, object) + np.asarray(half, object)
    return np.asarray(np.clip((exact >> np.asarray(f, object)) + np.asarray(zp, object), lo, hi), np.int64)


def interpolate(
    table: NDArray[np.signedinteger], v: NDArray[np.int64], lo: int = -128, hi: int = 127
) -> NDArray[np.int64]:
    """Read a table of 1,025 entries at the int16 argument v, linearly between entries, rounded half up, clamped."""
    index = (v >> TABLE_STEP_BITS) + 512
    right = v & (2**TABLE_STEP_BITS - 1)
    entries = table.astype(np.int64)
    total = entries[index] * (2**TABLE_STEP_BITS - right) + entries[index + 1] * right
    shift = TABLE_STEP_BITS + TABLE_FRACTION_BITS
    return _clamp((total + (1 << (shift - 1))) >> shift, lo, hi)


def residual_term(q: NDArray[np.signedinteger], zp: int, m: int, f: int) -> NDArray[np.int64]:
    """((q - zp) * m) >> (f - 16), floored: an operand of an addition, in output steps with 16 fraction bits."""
    product: NDArray[np.int64] = (q.astype(np.int64) - zp) * m
    shift = f - RESIDUAL_BITS
    return product >> shift if shift >= 0 else product << -shift


def residual_sum(total: NDArray[np.int64], zp: int, lo: int, hi: int) -> NDArray[np.int64]:
    """A sum of residual terms, rounded half up, plus the zero point, clamped."""
    return _clamp(((total + (1 << (RESIDUAL_BITS - 1))) >> RESIDUAL_BITS) + zp, lo, hi)


def quantize_host(x: ArrayLike, fmt: QFormat) -> NDArray[np.signedinteger]:
    """clip(rint(x / scale + zp)) in float32, for int8, int16 and int32. NaN becomes the zero point: a real zero."""
    lo, hi = LIMITS[fmt.kind]
    scale, zp = _columns(fmt)
    with np.errstate(over="ignore", invalid="ignore"):
        steps: NDArray[np.float32] = np.asarray(np.asarray(x, np.float32) / scale)
        steps += zp
        np.rint(steps, out=steps)
    np.copyto(steps, zp, where=np.isnan(steps))
    # int32's upper limit is not a float32, so its clip is in float64, which holds every float32 exactly
    wide = steps.astype(np.float64) if fmt.kind == "int32" else steps
    clipped: NDArray[np.signedinteger] = np.clip(wide, lo, hi, out=wide).astype(fmt.kind)
    return clipped


def dequantize(q: ArrayLike, fmt: QFormat) -> NDArray[np.float32]:
    """(q - zp) * scale in float32: the difference in integers, then one product."""
    scale, _ = _columns(fmt)
    stored = np.asarray(q)
    exact = np.int32 if stored.dtype.itemsize < 4 else np.int64
    difference = np.subtract(stored, np.asarray(_one(fmt.zero_point), exact), dtype=exact)
    real: NDArray[np.float32] = np.multiply(difference.astype(np.float32), scale, dtype=np.float32)
    return real


def _clamp(q: NDArray[np.int64], lo: int, hi: int) -> NDArray[np.int64]:
    return np.minimum(np.maximum(q, lo), hi)


def _columns(fmt: QFormat) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scale and zero point as float32, each a scalar or one value for each entry of the last axis."""
    return np.asarray(_one(fmt.scale), np.float32), np.asarray(_one(fmt.zero_point), np.float32)


def _one(values: tuple[float, ...]) -> object:
    return values[0] if len(values) == 1 else values
