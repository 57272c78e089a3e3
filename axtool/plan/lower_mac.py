"""Conv, ConvTranspose, Gemm, MatMul and per-channel scale-and-shift  ->  conv, depthwise, conv_transpose layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.packing import outputs_first
from axtool.plan.layout import FIRST, LAST, axes_of
from axtool.plan.lower_builder import Builder
from axtool.plan.lower_mac_layer import Filters, emit_mac
from axtool.types import Layout, Site, Tensor, Weights

PLAIN: Mapping[str, Any] = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "group": 1}


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
    turned = outputs_first(_with_two_axes(weights.values), site.attrs["group"])
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
    h, w, c = b.tensors[held.tensor].numbers
    filters = _filters(weights, cube.transpose(0, *order).reshape(-1, c, h, w))
    if max(h, w) <= b.target.limits.get("max_kernel", max(h, w)):
        emit_mac(b, site, "conv", held.tensor, filters, {**PLAIN, "kernel": (h, w)}, LAST)
        return
    flat = site.inputs[0]
    source = b.tensors[held.tensor]
    size = (1, 1, 1, h * w * c * source.number_bytes)
    made = Tensor(b.free_name(f"{flat}/flat"), size, source.format, LAST, (1, h * w * c))
    x = b.layer("reshape", (held.tensor,), made, {})
    rows = filters.values.transpose(0, 2, 3, 1).reshape(len(columns), -1, 1, 1)
    emit_mac(b, site, "conv", x, replace(filters, values=rows), PLAIN, LAST)


def lower_affine(b: Builder, site: Site, factor: NDArray[Any], shift: NDArray[Any], layout: Layout) -> None:
    """x * factor + shift, one of each for a channel: a 1x1 depthwise layer whose weights are +-127 or 0."""
    x = b.read(site.inputs[0] if site.inputs[0] not in site.constants else site.inputs[1], layout)
    channels = b.tensors[x].numbers[2]
    factors = np.broadcast_to(np.asarray(factor, np.float64).reshape(-1), channels)
    shifts = np.broadcast_to(np.asarray(shift, np.float64).reshape(-1), channels)
    scale = np.abs(factors) / 127
    scale = np.where(scale > 0, scale, 1 / 127)
    values = np.rint(factors / scale).astype(np.int8)
    window = {**PLAIN, "group": channels}
    emit_mac(b, site, "depthwise", x, Filters(values[:, None, None, None], scale, shifts), window, layout)


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
