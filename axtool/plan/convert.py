"""Two formats of the same real numbers  ->  the layers that lead from one to the other, every scale an integer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.ops.arithmetic import LIMITS, qfp, qfps
from axtool.ops.fixed_point import fit, fx_dequantize, fx_quantize
from axtool.plan.lower_wide import sized
from axtool.types import BYTES, QFormat

LARGEST_RATIO = 2.0**30  # any accumulator of one already leaves int8: a larger constant gives the same results
Conversion = tuple[str, dict[str, int], QFormat]  # op, attributes, the format that it makes


def conversion(have: QFormat, want: QFormat) -> tuple[Conversion, ...]:
    """The layers in their order: none for the same format, two by way of fx32 between int8 and fp16."""
    if have == want:
        return ()
    integers = ("int8", "int16")
    if have.kind in integers and want.kind in integers:
        op, attrs = requantizing(have, want)
        return ((op, attrs, want),)
    match have.kind, want.kind:
        case ("fx32", "fx32"):
            return (_shift(have, want),)
        case ("fx32", "fp16"):
            return (("fp16_from_fx", {"f": _bits(have), **_sizes(have, want)}, want),)
        case ("fp16", "fx32"):
            return (("fx_from_fp16", {"f": _bits(want), **_sizes(have, want)}, want),)
        case ("fx32", _) if want.kind in integers:
            return (_quantize(have, want),)
        case (_, "fx32") if have.kind in integers:
            first = _dequantize(have)
            return (first, *conversion(first[2], want))
        case ("fp16", _) if want.kind in integers:
            lo, hi = LIMITS[want.kind]
            zero, scale = want.zero_point[0], want.scale[0]
            between = QFormat("fx32", fraction_bits=fit((lo - zero) * scale, (hi - zero) * scale))
        case (_, "fp16") if have.kind in integers:
            between = as_fx32(have)
        case _:
            raise ValueError(f"no layer makes {want.kind} of {have.kind}")
    return (*conversion(have, between), *conversion(between, want))


def as_fx32(have: QFormat, span: tuple[float, float] | None = None) -> QFormat:
    """The fx32 in which numbers of a format are seen: of the integers' own steps, or of the `span` of fp16."""
    if have.kind == "fx32":
        return have
    if have.kind == "fp16":
        return QFormat("fx32", fraction_bits=fit(*(span or (-65504.0, 65504.0))))
    return QFormat("fx32", fraction_bits=fx_dequantize(have.scale[0], have.zero_point[0], have.kind).fraction_bits)


def multiplier(scale: float) -> tuple[int, int]:
    """The mantissa and shift of a real scale (of one so small that it rounds to nothing: the smallest there is)."""
    m, f = qfp(min(scale, LARGEST_RATIO))
    return max(m, 1), f


def multipliers(scales: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`multiplier` of each scale: mantissas and shifts."""
    m, f = qfps(np.minimum(scales, LARGEST_RATIO))
    return np.maximum(m, 1), f


def requantizing(have: QFormat, want: QFormat) -> tuple[str, dict[str, Any]]:
    """The op and the attributes of a change of integer format."""
    m, f = multiplier(have.scale[0] / want.scale[0])
    lo, hi = LIMITS[want.kind]
    attrs = {"zp": have.zero_point[0], "m": m, "f": f, "out_zp": want.zero_point[0], "lo": lo, "hi": hi}
    return sized("requantize", attrs, x=have, out=want)


def _shift(have: QFormat, want: QFormat) -> Conversion:
    lo, hi = LIMITS["int32"]
    attrs = {"shift": _bits(have) - _bits(want), "lo": lo, "hi": hi, **_sizes(have, want)}
    return "fx_requantize", attrs, want


def _quantize(have: QFormat, want: QFormat) -> Conversion:
    try:
        rule = fx_quantize(want.scale[0], want.zero_point[0], _bits(have))
    except ValueError as error:
        raise UsageError(
            f"what is in fx32 cannot be rounded to {want.kind}: {error}",
            code="not-fx32",
            hint="its range is too small for a fixed point: leave its nodes in int8",
        ) from error
    lo, hi = LIMITS[want.kind]
    steps = {"inverse": rule.inverse, "shift": rule.shift, "rest": rule.rest, "out_zp": rule.zero_point}
    return "fx_quantize", {**steps, "lo": lo, "hi": hi, **_sizes(have, want)}, want


def _dequantize(have: QFormat) -> Conversion:
    rule = fx_dequantize(have.scale[0], have.zero_point[0], have.kind)
    want = QFormat("fx32", fraction_bits=rule.fraction_bits)
    attrs = {"zp": rule.zero_point, "scale": rule.scale, "shift": rule.shift, **_sizes(have, want)}
    return "fx_dequantize", attrs, want


def _bits(fmt: QFormat) -> int:
    assert fmt.fraction_bits is not None
    return fmt.fraction_bits


def _sizes(have: QFormat, want: QFormat) -> dict[str, int]:
    return {"x_bytes": BYTES[have.kind], "out_bytes": BYTES[want.kind]}
