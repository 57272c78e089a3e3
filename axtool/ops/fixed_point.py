"""fx32: int32 with a number of fraction bits. The fit of a range, and the way from and to int8 and float32."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from axtool.ops.arithmetic import LIMITS, bits, qfp

FP16_MATMUL_BITS = 15  # fraction bits that a plain FP16 MatMul writes
SIGMOID_BITS = 31  # what a Sigmoid writes; 1.0 saturates
FP16_OP_MOST_BITS = 24
FP16_OP_HEADROOM = 2


def fit(lo: float, hi: float) -> int:
    """Fraction bits of a range: 31 - integer bits. ValueError for a range that 31 integer bits do not hold.

    Integer bits: ceil(log2 |lo|) where |lo| > |hi|, else ceil(log2(|hi| + 1)); 0 below 1.
    """
    low, high = abs(float(lo)), abs(float(hi))
    if not math.isfinite(low + high):
        raise ValueError(f"the range [{lo}, {hi}] is not finite")
    if max(low, high) < 1:
        return 31
    integer_bits = _ceil_log2(low if low > high else high + 1.0)
    if integer_bits > 31:
        raise ValueError(f"the range [{lo}, {hi}] needs {integer_bits} integer bits; fx32 has 31")
    return 31 - integer_bits


def residual_add_bits(lo: float, hi: float, *inputs: int) -> int:
    """Fraction bits of a residual Add: its own fit, or its coarsest input's."""
    return min(fit(lo, hi), *inputs)


def fp16_op_bits(lo: float, hi: float) -> int:
    """Fraction bits that a custom FP16 op writes: two bits of headroom, at most 24."""
    return min(FP16_OP_MOST_BITS, fit(lo, hi) - FP16_OP_HEADROOM)


def to_fx(x: ArrayLike, fraction_bits: int) -> NDArray[np.int32]:
    """float32 -> fx32: half to even, saturating. NaN becomes 0."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        steps = np.rint(np.ldexp(np.asarray(x, np.float32).astype(np.float64), fraction_bits))
    return np.asarray(np.clip(np.nan_to_num(steps, posinf=np.inf, neginf=-np.inf), *LIMITS["int32"]), np.int32)


def from_fx(q: ArrayLike, fraction_bits: int) -> NDArray[np.float32]:
    """fx32 -> float32, rounded once."""
    return np.ldexp(np.asarray(q, np.int32).astype(np.float64), -fraction_bits).astype(np.float32)


@dataclass(frozen=True, slots=True)
class FxQuantize:
    """fx32 -> int8: p = (x * inverse) >> shift, rounded half up from `rest` fraction bits, + zp, clamped."""

    inverse: int
    shift: int
    rest: int
    zero_point: int

    def __call__(self, x: NDArray[np.int32]) -> NDArray[np.int8]:
        p = (x.astype(np.int64) * self.inverse) >> self.shift
        q = ((p + (1 << self.rest >> 1)) >> self.rest) + self.zero_point
        return np.asarray(np.clip(q, -128, 127), np.int8)


@dataclass(frozen=True, slots=True)
class FxDequantize:
    """int8 -> fx32 of `fraction_bits`: ((q - zp) * scale) >> shift."""

    fraction_bits: int
    shift: int
    scale: int
    zero_point: int

    def __call__(self, q: NDArray[np.int8]) -> NDArray[np.int32]:
        return ((q.astype(np.int64) - self.zero_point) * self.scale >> self.shift).astype(np.int32)


def fx_quantize(scale: float, zero_point: int, x_bits: int) -> FxQuantize:
    """How fx32 of `x_bits` becomes int8 of `scale`: shift = min(31, invF + xF - 2), rest = invF + xF - shift."""
    inverse, inverse_bits = inverse_qfp(scale)
    shift = max(0, min(31, inverse_bits + x_bits - 2))
    return FxQuantize(inverse, shift, inverse_bits + x_bits - shift, zero_point)


def fx_dequantize(scale: float, zero_point: int, kind: str = "int8") -> FxDequantize:
    """How int8 (or int16) becomes fx32: in the fit of [(-128 - zp) * scale, (127 - zp) * scale]."""
    lo, hi = LIMITS[kind]
    m, m_bits = qfp(scale)
    out_bits = fit((lo - zero_point) * scale, (hi - zero_point) * scale)
    return FxDequantize(out_bits, m_bits - out_bits, m, zero_point)


def inverse_qfp(scale: float) -> tuple[int, int]:
    """1 / scale as (m, f), f as in `qfp`. Unlike a scale, which is truncated, an inverse is rounded to the nearest."""
    if not scale > 2.0**-31:
        raise ValueError(f"the inverse of the scale {scale} is not below 2^31")
    inverse = 1.0 / float(scale)
    f = 31 - bits(int(inverse))
    return min(math.floor(math.ldexp(inverse, f) + 0.5), 2**31 - 1), f


def _ceil_log2(x: float) -> int:
    """ceil(log2 x), exactly, for x >= 1."""
    mantissa, exponent = math.frexp(x)  # x = mantissa * 2^exponent, 1/2 <= mantissa < 1
    return exponent - 1 if mantissa == 0.5 else exponent
