"""Filters of one MAC op  ->  the layer: its constants, and what it does for those who alone read its result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.packing import LANES, fold_bias, pack_conv_weights, pack_depthwise, pack_params
from axtool.plan.convert import multipliers
from axtool.plan.layout import axes_of
from axtool.plan.lower_activation import Ending, ending
from axtool.plan.lower_builder import Builder, Sums
from axtool.plan.lower_wide import sized
from axtool.types import Layout, QFormat, Site

LOG = logging.getLogger("axtool")
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Filters:
    """The weights of one MAC layer, by output channel: `real = values * scale`."""

    values: NDArray[np.int8]  # (cout, cin / group, kh, kw); of a conv_transpose as well
    scale: NDArray[np.float64]  # (cout,)
    bias: NDArray[np.float64]  # (cout,), real units


@dataclass(frozen=True, slots=True)
class Part:
    """Output channels [start, stop) of the filters, and the tensor that they make."""

    out: str
    origin: tuple[Site, ...]
    start: int
    stop: int


def emit_mac(
    b: Builder, site: Site, op: str, x: str, filters: Filters, window: Mapping[str, Any], layout: Layout
) -> None:
    """The layer of a site, with the bias, the activation or the split behind it."""
    sites, filters = _absorb_bias(b, site, filters, layout)
    end = ending(b, *sites, mac=True)
    fmt, out_fmt = b.tensors[x].format, end.format
    filters, bias = fit_accumulator(filters, fmt, str(site))
    channel = axes_of(len(site.shapes[site.outputs[0]]), layout)[2]
    assert channel is not None
    b.sums[site.outputs[0]] = Sums(fmt.scale[0], filters.scale, bias, channel)
    step = end.scale16 if end.table is not None else out_fmt.scale[0]
    params = _Params(bias, *multipliers(fmt.scale[0] * filters.scale / step))
    table = [] if end.table is None else [b.constant(f"{end.out}/table", end.table, QFormat("int16", (1.0,)))]
    numbers = {"x_zp": fmt.zero_point[0], "out_zp": out_fmt.zero_point[0], "lo": end.lo, "hi": end.hi}
    attrs = {**window, **numbers, "act": len(table)}
    name, attrs = sized(op, attrs, x=fmt, out=out_fmt)
    whole = Part(end.out, end.origin, 0, len(filters.values))
    splits = op != "depthwise" and window["group"] == 1
    for part in (_parts(b, end, layout) if splits else ()) or (whole,):
        constants = _constants(b, op, part, filters, params, attrs)
        b.make(name, [x, *constants, *table], site, attrs, layout, part.out, part.origin, out_fmt)


@dataclass(frozen=True, slots=True)
class _Params:
    bias: NDArray[np.int64]  # (cout,), before the zero point of the input is folded in
    mantissas: NDArray[np.int64]  # (cout,)
    shifts: NDArray[np.int64]  # (cout,)


def _constants(
    b: Builder, op: str, part: Part, filters: Filters, params: _Params, attrs: Mapping[str, Any]
) -> list[str]:
    """Packed weights and params of some output channels."""
    chosen = slice(part.start, part.stop)
    values = filters.values[chosen]
    wsum = values.reshape(len(values), -1).sum(axis=1, dtype=np.int64)
    bias = fold_bias(params.bias[chosen], attrs["x_zp"], wsum)
    packed_params = pack_params(
        bias, params.mantissas[chosen], params.shifts[chosen], wsum, 1 if op == "depthwise" else attrs["group"]
    )
    packed = pack_depthwise(values) if op == "depthwise" else pack_conv_weights(values, attrs["group"])
    fmt = QFormat("int8", tuple(float(scale) for scale in filters.scale[chosen]))
    return [b.constant(f"{part.out}/weights", packed, fmt), b.constant(f"{part.out}/params", packed_params)]


def _parts(b: Builder, end: Ending, layout: Layout) -> tuple[Part, ...]:
    """One part for each output of a Split along the channels that alone reads the result: no slice is needed then.

    Only where each part is whole blocks of channels, so that no part multiplies padding.
    """
    split = b.only_reader(end.out)
    if split is None or split.op != "Split":
        return ()
    channel = axes_of(len(split.shapes[end.out]), layout)[2]
    sizes = split.attrs["sizes"]
    same = all(b.format(name) == b.format(end.out) for name in split.outputs if b.is_used(name))
    if split.attrs["axis"] != channel or not same or any(size % LANES for size in sizes):
        return ()
    b.fused.add(split.index)
    stops = np.cumsum(sizes).tolist()
    named = zip(split.outputs, stops, sizes, strict=True)
    return tuple(
        Part(name, (*end.origin, split), stop - size, stop) for name, stop, size in named if name and b.is_used(name)
    )


def _absorb_bias(b: Builder, site: Site, filters: Filters, layout: Layout) -> tuple[tuple[Site, ...], Filters]:
    """An addition of one constant a channel that alone reads the result becomes part of the bias (MatMul has none)."""
    y = site.outputs[0]
    after = b.only_reader(y)
    if after is None or after.op != "Add" or after.shapes[after.outputs[0]] != site.shapes[y]:
        return (site,), filters
    fixed = [after.constants[name] for name in after.inputs if name in after.constants]
    rank = len(site.shapes[y])
    if not fixed or not is_per_channel(np.asarray(fixed[0]), rank, layout):
        return (site,), filters
    b.fused.add(after.index)
    return (site, after), replace(filters, bias=filters.bias + np.asarray(fixed[0], np.float64).reshape(-1))


def is_per_channel(values: NDArray[Any], rank: int, layout: Layout) -> bool:
    """Whether a constant that broadcasts to `rank` dimensions varies along the channels only."""
    channel = axes_of(rank, layout)[2]
    shape = (1,) * (rank - values.ndim) + values.shape
    return all(n == 1 for axis, n in enumerate(shape) if axis != channel)


def fit_accumulator(filters: Filters, fmt: QFormat, where: str) -> tuple[Filters, NDArray[np.int64]]:
    """Filters and int32 biases whose sums cannot leave int32: where they could, a channel gets coarser weights.

    Sums over an input of 16 bits have 64; their biases have 32 as well.
    """
    values, scale = filters.values.astype(np.int8), filters.scale.astype(np.float64)
    bias = _bias(filters.bias, fmt, scale)
    raised = np.zeros(len(scale), bool)
    while (over := _reach(values, bias, fmt) > INT32_MAX).any():
        raised |= over
        scale = np.where(over, scale * 2, scale)
        values[over] = np.rint(filters.values[over] * (filters.scale[over] / scale[over])[:, None, None, None])
        bias = _bias(filters.bias, fmt, scale)
    if raised.any():
        count, channels = int(raised.sum()), len(scale)
        LOG.warning("%s: coarser weights in %d of %d channels, their sums would overflow int32", where, count, channels)
    return Filters(values, scale, filters.bias), bias.astype(np.int64)


def _reach(values: NDArray[np.int8], bias: NDArray[np.float64], fmt: QFormat) -> NDArray[np.float64]:
    """The largest |sum(x * w) + bias| of each channel over every int8 input, in float64: exact below 2^53.

    Of an int16 input the bias alone.
    """
    if fmt.kind == "int16":
        return np.abs(bias)
    rows = values.reshape(len(values), -1)
    up = np.maximum(rows, 0).sum(axis=1, dtype=np.int64).astype(np.float64)
    down = rows.sum(axis=1, dtype=np.int64) - up
    low, high = -128 - fmt.zero_point[0], 127 - fmt.zero_point[0]
    most, least = up * high + down * low + bias, up * low + down * high + bias
    reach: NDArray[np.float64] = np.maximum(np.maximum(most, -least), np.abs(bias))
    return reach


def _bias(bias: NDArray[np.float64], fmt: QFormat, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    quantized: NDArray[np.float64] = np.rint(bias.astype(np.float64) / (fmt.scale[0] * scale))
    return quantized
