"""Sizes of pools and transposed convolutions as onnxruntime makes them, where onnx's inference says another.

They differ where `ceil_mode` would start the last window in the padding (onnxruntime makes no such window), where SAME
meets dilations or output_padding, and for an `output_shape` below what onnx holds possible. The node that inference
sees gets explicit pads that lead to the right size; the model keeps its node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.graph.sites import site_of
from axtool.types import Site

if TYPE_CHECKING:
    import onnx

_POOLS = ("MaxPool", "AveragePool", "LpPool")
_CHANGED = ("auto_pad", "pads", "ceil_mode", "output_shape", "output_padding")


def correct_windows(model: ir.Model, proto: onnx.ModelProto) -> bool:
    """Rewrite in `proto` the first node whose inferred size is not onnxruntime's; False where all agree.

    One at a time, in graph order: what comes after it was inferred from its wrong size.
    """
    if len(proto.graph.node) != len(model.graph):
        return False
    for index, node in enumerate(model.graph):
        if node.domain != "" or node.op_type not in (*_POOLS, "ConvTranspose"):
            continue
        site = site_of(model, node, index)
        seen = site.shapes.get(site.inputs[0])
        made = made_size(site)
        if seen is None or made is None or min(made) < 1:
            continue
        if site.shapes.get(site.outputs[0], ())[2:] != made:
            return _rewrite(proto.graph.node[index], site, seen[2:], made)
    return False


def made_size(site: Site) -> tuple[int, ...] | None:
    """The spatial extents of the output as onnxruntime makes them; None where an attribute or shape is not known."""
    shape = site.shapes.get(site.inputs[0])
    if shape is None or "kernel" not in site.attrs or len(shape) < 3:
        return None
    axes = _axes(site, len(shape) - 2)
    if len(axes) != len(shape) - 2:
        return None
    made = []
    for extent, (kernel, stride, dilation, before, after) in zip(shape[2:], axes, strict=True):
        span = (kernel - 1) * dilation + 1
        if site.op == "ConvTranspose":
            made.append((extent - 1) * stride + span - before - after)
            continue
        room = extent + before + after - span
        if not site.attrs["ceil_mode"]:
            made.append(int(room / stride) + 1)  # rounds toward zero
            continue
        count = -(-room // stride) + 1
        made.append(count - 1 if (count - 1) * stride >= extent + before else count)
    return tuple(made)


def _axes(site: Site, count: int) -> list[tuple[int, int, int, int, int]]:
    """(kernel, stride, dilation, pad before, pad after) of the last `count` axes."""
    a = site.attrs
    half = len(a["kernel"])
    rows = list(zip(a["kernel"], a["strides"], a["dilations"], a["pads"][:half], a["pads"][half:], strict=True))
    return rows[-count:]


def _rewrite(node: onnx.NodeProto, site: Site, seen: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Explicit pads that give `made` by the plain rule. False where the node says that already."""
    from onnx import helper

    before, after, extra = [], [], []
    for extent, size, (kernel, stride, dilation, start, _) in zip(seen, made, _axes(site, len(seen)), strict=True):
        span = (kernel - 1) * dilation + 1
        if site.op == "ConvTranspose":
            over = (extent - 1) * stride + span - size
            before.append(0)
            after.append(max(0, over))
            extra.append(max(0, -over))
        else:
            before.append(start)
            after.append(max(0, (size - 1) * stride + span - extent - start))
    old = node.SerializeToString(deterministic=True)
    for at in reversed([i for i, attribute in enumerate(node.attribute) if attribute.name in _CHANGED]):
        del node.attribute[at]
    node.attribute.append(helper.make_attribute("pads", [*before, *after]))
    if any(extra):
        node.attribute.append(helper.make_attribute("output_padding", extra))
    return bool(node.SerializeToString(deterministic=True) != old)
