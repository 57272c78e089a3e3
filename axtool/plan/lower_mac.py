"""Conv, ConvTranspose, Gemm, MatMul and per-channel scale-and-shift  ->  conv, depthwise, conv_transpose layers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.packing import fold_bias, pack_conv_weights, pack_depthwise, pack_params
from axtool.plan.layout import FIRST, LAST, axes_of
from axtool.plan.lower_activation import ending
from axtool.plan.lower_builder import Builder, multiplier
from axtool.types import Layout, QFormat, Site, Tensor, Weights

LOG = logging.getLogger("axtool")
INT32_MAX = 2**31 - 1
PLAIN: Mapping[str, Any] = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "group": 1}


@dataclass(frozen=True, slots=True)
class Filters:
    """The weights of one MAC layer, by output channel: `real = values * scale`."""

    values: NDArray[np.int8]  # (cout, cin / group, kh, kw); of a conv_transpose as well
    scale: NDArray[np.float64]  # (cout,)
    bias: NDArray[np.float64]  # (cout,), real units


def lower_conv(b: Builder, site: Site) -> None:
    """A conv layer, or a depthwise one where each group has one input channel."""
    x = b.read(site.inputs[0], FIRST)
    weights = _weights(b, site)
    values = _with_two_axes(weights.values)
    group = site.attrs["group"]
    op = "depthwise" if group > 1 and values.shape[1] == 1 else "conv"
    emit_mac(b, site, op, x, _filters(weights, values), _window(site), FIRST)


def lower_conv_transpose(b: Builder, site: Site) -> None:
    """A conv_transpose layer; its weights are turned to (cout, cin / group, kh, kw)."""
    x = b.read(site.inputs[0], FIRST)
    weights = _weights(b, site)
    values = _with_two_axes(weights.values)  # (cin, cout / group, kh, kw)
    cin, coutg, kh, kw = values.shape
    group = site.attrs["group"]
    turned = values.reshape(group, cin // group, coutg, kh, kw).swapaxes(1, 2).reshape(-1, cin // group, kh, kw)
    emit_mac(b, site, "conv_transpose", x, _filters(weights, turned), _window(site), FIRST)


def lower_matmul(b: Builder, site: Site) -> None:
    """A 1x1 conv over the tokens; over an image that was only flattened for it, a conv as large as the image."""
    weights = _weights(b, site)
    values = weights.values.reshape(weights.values.shape[-2:])
    columns = values if site.op == "Gemm" and site.attrs["transB"] else values.T  # (N, K)
    if site.inputs[0] in b.flat:
        _lower_flattened(b, site, weights, columns)
        return
    x = b.read(site.inputs[0], LAST)
    emit_mac(b, site, "conv", x, _filters(weights, columns[:, :, None, None]), PLAIN, LAST)


def _lower_flattened(b: Builder, site: Site, weights: Weights, columns: NDArray[np.int8]) -> None:
    """Rows of the weights follow ONNX's order of the image; here they are put into the order in which it is stored."""
    held = b.held[b.flat[site.inputs[0]]]
    axes = axes_of(len(held.shape), held.layout)
    assert held.shape[0] == 1
    cube = columns.reshape(len(columns), *held.shape[1:])  # (N, the ONNX axes after the batch)
    order = [axis for axis in (axes[2], axes[0], axes[1]) if axis is not None]
    _, h, w, c = b.tensors[held.tensor].shape
    filters = _filters(weights, cube.transpose(0, *order).reshape(-1, c, h, w))
    if max(h, w) <= b.target.limits.get("max_kernel", max(h, w)):
        emit_mac(b, site, "conv", held.tensor, filters, {**PLAIN, "kernel": (h, w)}, LAST)
        return
    flat = site.inputs[0]
    source = b.tensors[held.tensor]
    made = Tensor(b.free_name(f"{flat}/flat"), (1, 1, 1, h * w * c), source.format, LAST, (1, h * w * c))
    x = b.layer("reshape", (held.tensor,), made, {})
    rows = filters.values.transpose(0, 2, 3, 1).reshape(len(columns), -1, 1, 1)
    emit_mac(b, site, "conv", x, replace(filters, values=rows), PLAIN, LAST)


def lower_affine(b: Builder, site: Site, factor: NDArray[Any], shift: NDArray[Any], layout: Layout) -> None:
    """x * factor + shift, one of each for a channel: a 1x1 depthwise layer whose weights are +-127 or 0."""
    x = b.read(site.inputs[0] if site.inputs[0] not in site.constants else site.inputs[1], layout)
    channels = b.tensors[x].shape[3]
    factors = np.broadcast_to(np.asarray(factor, np.float64).reshape(-1), channels)
    shifts = np.broadcast_to(np.asarray(shift, np.float64).reshape(-1), channels)
    scale = np.abs(factors) / 127
    scale = np.where(scale > 0, scale, 1 / 127)
    values = np.rint(factors / scale).astype(np.int8)
    window = {**PLAIN, "group": channels}
    emit_mac(b, site, "depthwise", x, Filters(values[:, None, None, None], scale, shifts), window, layout)


def emit_mac(
    b: Builder, site: Site, op: str, x: str, filters: Filters, window: Mapping[str, Any], layout: Layout
) -> None:
    """The layer, its constants, and what it does for its only reader: a bias, an activation."""
    sites, filters = _absorb_bias(b, site, filters, layout)
    end = ending(b, *sites, mac=True)
    fmt, out_fmt = b.tensors[x].format, b.format(end.out)
    step = end.scale16 if end.table is not None else out_fmt.scale[0]
    filters, bias = fit_accumulator(filters, fmt, str(site))
    group = int(window["group"])
    constants = [multiplier(fmt.scale[0] * float(scale) / step) for scale in filters.scale]
    wsum = filters.values.reshape(len(filters.values), -1).sum(axis=1, dtype=np.int64)
    params = pack_params(
        fold_bias(bias, fmt.zero_point[0], wsum),
        [m for m, _ in constants],
        [f for _, f in constants],
        wsum,
        1 if op == "depthwise" else group,
    )
    packed = pack_depthwise(filters.values) if op == "depthwise" else pack_conv_weights(filters.values, group)
    out = end.out
    reads = [x, b.constant(f"{out}/weights", packed, _weight_format(filters)), b.constant(f"{out}/params", params)]
    if end.table is not None:
        reads.append(b.constant(f"{out}/table", end.table, QFormat("int16", (1.0,))))
    numbers = {"x_zp": fmt.zero_point[0], "out_zp": out_fmt.zero_point[0], "lo": end.lo, "hi": end.hi}
    attrs = {**window, **numbers, "act": int(end.table is not None)}
    b.make(op, reads, site, attrs, layout, out, end.origin)


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
    """Filters and int32 biases whose sums cannot leave int32: where they could, a channel gets coarser weights."""
    values, scale = filters.values.astype(np.int64), filters.scale.astype(np.float64)
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
    return Filters(values.astype(np.int8), scale, filters.bias), bias.astype(np.int64)


def _reach(values: NDArray[np.int64], bias: NDArray[np.float64], fmt: QFormat) -> NDArray[np.float64]:
    """The largest |sum(x * w) + bias| of each channel over every input, in float64: exact below 2^53."""
    rows = values.reshape(len(values), -1)
    up = np.where(rows > 0, rows, 0).sum(axis=1).astype(np.float64)
    down = rows.sum(axis=1) - up
    low, high = -128 - fmt.zero_point[0], 127 - fmt.zero_point[0]
    most, least = up * high + down * low + bias, up * low + down * high + bias
    reach: NDArray[np.float64] = np.maximum(np.maximum(most, -least), np.abs(bias))
    return reach


def _bias(bias: NDArray[np.float64], fmt: QFormat, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    quantized: NDArray[np.float64] = np.rint(bias.astype(np.float64) / (fmt.scale[0] * scale))
    return quantized


def _weights(b: Builder, site: Site) -> Weights:
    weights = b.quantization.weights.get(site.outputs[0])
    if weights is None:
        raise ValueError(f"{site} has no quantized weights")
    return weights


def _filters(weights: Weights, values: NDArray[np.int8]) -> Filters:
    cout = len(values)
    scale = np.broadcast_to(np.asarray(weights.scale, np.float64).reshape(-1), cout)
    if not (scale > 0).all():
        raise ValueError(f"weight scales must be positive, got {scale.min()}")
    return Filters(values, scale, np.broadcast_to(np.asarray(weights.bias, np.float64).reshape(-1), cout))


def _with_two_axes(values: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights of a 1-D convolution with a kernel of height 1."""
    return values[:, :, None, :] if values.ndim == 3 else values


def _window(site: Site) -> dict[str, Any]:
    a = site.attrs
    top_left = (a["pads"][0], a["pads"][1])
    return {
        "kernel": a["kernel"], "stride": a["strides"], "dilation": a["dilations"], "pad": top_left, "group": a["group"],
    }  # fmt: skip


def _weight_format(filters: Filters) -> QFormat:
    return QFormat("int8", tuple(float(s) for s in filters.scale))
