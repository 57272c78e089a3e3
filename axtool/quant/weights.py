"""A MAC site with float weights  ->  int8 weights with one scale for each output channel, safe in int32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import NumericsError, plural
from axtool.ops.arithmetic import LIMITS
from axtool.types import QFormat, Site, Weights

MAC = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
# Ops whose constants become numbers of the device. -Inf and Inf in an addend may be a mask, NaN never is.
AFFINE = frozenset({"Add", "Sub", "Mul", "Div", "PRelu", "BatchNormalization"})
LIMIT = 127
INT32_MAX = 2**31 - 1
# The multiplier weight_scale * input_scale / output_scale has 31 fraction bits: from 2^-20 up, 11 of them are its own.
FINEST_MULTIPLIER = 2.0**-20
# Of an input of int16 the multiplier itself is made a whole number of 2^-31, unless it has as many steps anyway.
MANY_STEPS = 1 << 18
# Scales are kept as float32. A channel of zeros, or between ranges of extreme ratio, could ask for 0 or infinity.
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-126, 2.0**127
PIECE = 1 << 17  # weights rounded at a time: what stands between them and int8 stays in the cache


def weight_name(site: Site) -> str | None:
    """The name of the constant weights of a MAC site, or None for other sites."""
    has = site.op in MAC and len(site.inputs) > 1 and site.inputs[1] in site.constants
    return site.inputs[1] if has and site.inputs[0] not in site.constants else None


def check_constants(sites: Sequence[Site]) -> None:
    """Raises NumericsError listing every constant that makes no numbers: NaN, Inf, a variance without a square root.

    Each with its node, and how many values of how many.
    """
    problems = {}
    for site in sites:
        for name, array in site.constants.items():
            if array.dtype.kind == "f" and site.op in MAC | AFFINE and (found := _not_numbers(site, name, array)):
                problems[site.index, name] = f"'{name}' of {site}: {found} of {array.size}"
        for key, value in site.attrs.items():  # the bounds of a Clip, too, are attributes by now
            if isinstance(value, float) and math.isnan(value):
                problems[site.index, key] = f"{key} of {site}: NaN"
    if problems:
        details = tuple(problems.values())
        raise NumericsError(
            "weights are not finite: " + "; ".join(details),
            code="non-finite-weights",
            hint="export the model again from a checkpoint without NaN",
            details=details,
        )


def _not_numbers(site: Site, name: str, array: NDArray[Any]) -> str:
    """What a constant holds that makes no numbers, counted, or ""."""
    if np.isfinite(array.sum(dtype=np.float64)):
        if site.op != "BatchNormalization" or name != site.inputs[4]:
            return ""
        bad = int((array.astype(np.float64) + site.attrs.get("epsilon", 0.0) <= 0).sum())
        return plural(bad, "variance that is not", "variances that are not") + " above -epsilon" if bad else ""
    nan, inf = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    if nan or (inf and site.op in MAC):
        return ", ".join(f"{count} {kind}" for count, kind in ((nan, "NaN"), (inf, "Inf")) if count)
    return ""


def quantize_weights(
    site: Site, source: QFormat, out: QFormat, given: QFormat | None = None, *, per_tensor: bool = False
) -> tuple[Weights, tuple[str, ...]]:
    """int8 weights of a MAC site whose input has the format `source` and its output `out`, and notes.

    The scale of a channel is its largest weight / 127, raised where a finer one would say nothing: where the multiplier
    to the output, or the bias or the worst sum in int32, would leave its bits; it is a normal
    float32 number. `given`: symmetric weights that the model brings, whose scale is kept. `per_tensor`: one scale
    for all channels.

    Sums over an input of int16 have 64 bits. Its steps are so fine that multipliers of good weights are small numbers;
    scales are chosen then that make them whole ones.
    """
    channels = channel_weights(site)
    bias = _bias(site, len(channels))
    scale_in, scale_out = source.scale[0], out.scale[0]
    kept = given is not None and given.kind == "int8" and not any(given.zero_point)
    if kept:
        assert given is not None
        wanted = np.broadcast_to(np.asarray(given.scale, np.float64), (len(channels),)).copy()
    else:
        wanted = np.maximum(channels.max(axis=1, initial=0.0), -channels.min(axis=1, initial=0.0)) / LIMIT
        if source.kind == "int16":
            wanted = _whole_multipliers(wanted, scale_in / scale_out)
        else:
            wanted = np.maximum(wanted, FINEST_MULTIPLIER * scale_out / scale_in)
        wanted = np.clip(wanted, SMALLEST_SCALE, LARGEST_SCALE)
        if per_tensor:
            wanted[:] = wanted.max(initial=SMALLEST_SCALE)
    reach = max(127 - source.zero_point[0], 128 + source.zero_point[0])  # the largest |q - zero point|
    reach = 0 if source.kind == "int16" else reach
    scale = wanted.astype(np.float32).astype(np.float64)
    raised = np.zeros(len(channels), bool)
    while True:
        values, sums = _rounded(channels, scale, -128 if kept else -LIMIT)
        worst = sums * reach + np.abs(bias) / (scale_in * scale) + 1
        over = worst > INT32_MAX
        if not over.any():
            break
        over |= per_tensor and not kept
        raised |= over
        scale[over] *= 2  # still a float32
        if (scale > LARGEST_SCALE).any():
            raise _bias_too_large(site, bias, scale_in)
    if raised.any():
        raised &= counts(site, source, out)
    notes = (f"{site}: weight scale raised against int32 overflow in channels {_list(raised)}",) if raised.any() else ()
    return Weights(from_channels(site, values), scale.astype(np.float32), bias.astype(np.float32)), notes


def _rounded(
    channels: NDArray[np.float64], scale: NDArray[np.float64], low: int
) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """(cout, k): the nearest int8 steps of each channel's scale; (cout,): the sum of their sizes."""
    values, sums = np.empty(channels.shape, np.int8), np.empty(len(channels))
    rows = max(1, PIECE // max(1, channels.shape[1]))
    for start in range(0, len(channels), rows):
        part = slice(start, start + rows)
        steps = channels[part] / scale[part, None]
        np.clip(np.rint(steps, out=steps), low, LIMIT, out=steps)
        values[part] = steps
        sums[part] = np.abs(steps, out=steps).sum(axis=1)
    return values, sums


def counts(site: Site, source: QFormat, out: QFormat) -> NDArray[np.bool_]:
    """(cout,): whether the weights of a channel can move its output by half a step, whatever the input."""
    low, high = LIMITS[source.kind]
    reach = max(high - source.zero_point[0], source.zero_point[0] - low) * source.scale[0]
    moved = np.abs(channel_weights(site)).sum(axis=1) * reach
    return np.asarray(moved > out.scale[0] / 2)


def _whole_multipliers(scale: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """Scales no smaller, at which scale * ratio * 2^31 is truncated from just above a whole number, if it is small."""
    steps = np.maximum(scale * ratio * 2.0**31, 1.0)
    whole = np.ceil(steps) * (1 + 2.0**-20)  # above: a float32 scale is a little off
    return np.where(steps < MANY_STEPS, whole, steps) / (ratio * 2.0**31)


def _bias_too_large(site: Site, bias: NDArray[np.float64], scale_in: float) -> NumericsError:
    """No weight scale of float32 brings the bias into int32: only where the steps of the input are next to nothing."""
    return NumericsError(
        f"a bias of {np.abs(bias).max():g} in {site} does not fit int32 where the input has steps of {scale_in:g}",
        code="bias-too-large",
        hint=f"check the bias and the range of '{site.inputs[0]}'",
    )


def channel_weights(site: Site, values: NDArray[np.int8] | None = None) -> NDArray[np.float64]:
    """(cout, k): what each output channel multiplies with, the float weights or `values` in their layout.

    k runs over the inputs of a group, then over the taps. The alpha of a Gemm is in the float weights.
    """
    if values is not None:
        return _to_channels(site, values.astype(np.float64))
    channels = _to_channels(site, np.asarray(site.constants[site.inputs[1]], np.float64))
    alpha = site.attrs.get("alpha", 1.0) if site.op == "Gemm" else 1.0
    return channels * alpha if alpha != 1.0 else channels


def _bias(site: Site, count: int) -> NDArray[np.float64]:
    """(cout,), zeros where the node has none; beta of a Gemm is in it."""
    name = site.inputs[2] if len(site.inputs) > 2 else ""
    if not name or site.op == "MatMul":
        return np.zeros(count)
    bias = np.asarray(site.constants[name], np.float64).reshape(-1)
    return np.broadcast_to(bias, (count,)) * (site.attrs.get("beta", 1.0) if site.op == "Gemm" else 1.0)


def _to_channels(site: Site, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """ONNX layout -> (cout, everything one output channel reads)."""
    if site.op == "ConvTranspose":  # (cin, cout / group, …): cin is group after group
        group = site.attrs["group"]
        split = weights.reshape(group, weights.shape[0] // group, weights.shape[1], -1)
        return split.transpose(0, 2, 1, 3).reshape(group * weights.shape[1], -1)
    if _columns_last(site):
        return weights.reshape(-1, weights.shape[-1]).T
    return weights.reshape(weights.shape[0], -1)


def from_channels(site: Site, values: NDArray[Any]) -> NDArray[Any]:
    """(cout, k) -> the layout of `Weights.values`: the inverse of `channel_weights`.

    Leading ones of MatMul weights are gone: (k, n).
    """
    shape = np.shape(site.constants[site.inputs[1]])
    if site.op == "ConvTranspose":
        group = site.attrs["group"]
        split = values.reshape(group, shape[1], shape[0] // group, -1)
        return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(shape)
    if _columns_last(site):
        return np.ascontiguousarray(values.T)
    return values.reshape(shape)


def _columns_last(site: Site) -> bool:
    return site.op == "MatMul" or (site.op == "Gemm" and not site.attrs.get("transB", 0))


def _list(mask: NDArray[Any]) -> str:
    found = [str(int(i)) for i in np.flatnonzero(mask)]
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
