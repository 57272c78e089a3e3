"""Real numbers  <->  the numbers of a format, whatever it is: what the host writes into and reads from a device."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from axtool.ops.arithmetic import LIMITS, dequantize, quantize_host
from axtool.ops.fixed_point import from_fx, to_fx
from axtool.types import QFormat

DTYPES: Mapping[str, DTypeLike] = MappingProxyType(
    {
        "int8": np.int8, "int16": np.int16, "int32": np.int32, "fx32": np.int32, "fp16": np.float16,
        "float32": np.float32,
    }
)  # fmt: skip
LITTLE: Mapping[str, str] = MappingProxyType(  # as they lie in the memory of the device
    {"int8": "<i1", "int16": "<i2", "int32": "<i4", "fx32": "<i4", "fp16": "<f2", "float32": "<f4"}
)
LARGEST_FP16 = 65504.0


def to_numbers(x: ArrayLike, fmt: QFormat) -> NDArray[Any]:
    """float32 -> numbers of a format, rounded half to even and saturating. NaN becomes a zero."""
    if fmt.kind == "fx32":
        return to_fx(x, _bits(fmt))
    if fmt.kind == "fp16":
        real = np.nan_to_num(np.asarray(x, np.float32), nan=0.0, posinf=LARGEST_FP16, neginf=-LARGEST_FP16)
        return np.clip(real, -LARGEST_FP16, LARGEST_FP16).astype(np.float16)
    return quantize_host(x, fmt)


def to_reals(q: ArrayLike, fmt: QFormat) -> NDArray[Any]:
    """Numbers of a format -> float32, rounded once; of int32, which are whole numbers of the model, int64."""
    if fmt.kind == "int32":
        return np.asarray(q, np.int64)
    if fmt.kind == "fx32":
        return from_fx(q, _bits(fmt))
    if fmt.kind == "fp16":
        return np.asarray(q, np.float16).astype(np.float32)
    return dequantize(q, fmt)


def unit_of(fmt: QFormat) -> float:
    """The real size of what errors of a tensor are counted in: its step, or 1 where steps are finer than errors."""
    return fmt.scale[0] if fmt.scale else 1.0


def counted(q: NDArray[Any], fmt: QFormat) -> NDArray[Any]:
    """Numbers of a format in its units: integers as they are, those of fx32 and fp16 as real values."""
    return q if fmt.scale else to_reals(q, fmt)


def ends_of(fmt: QFormat) -> tuple[float, float]:
    """The smallest and the largest number of a format, in its units."""
    if fmt.kind == "fp16":
        return -LARGEST_FP16, LARGEST_FP16
    lo, hi = LIMITS["int32" if fmt.kind == "fx32" else fmt.kind]
    return (lo * 2.0 ** -_bits(fmt), hi * 2.0 ** -_bits(fmt)) if fmt.kind == "fx32" else (lo, hi)


def _bits(fmt: QFormat) -> int:
    if fmt.fraction_bits is None:
        raise ValueError("fx32 without a number of fraction bits")
    return fmt.fraction_bits
