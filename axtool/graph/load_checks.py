"""Nodes whose inputs do not fit together, found before onnxruntime would: each with both sides of the contradiction.

Errors: `channel-mismatch`, `index-out-of-range`, `reshape-mismatch` (exit 2), `batchnorm-spatial` (exit 3).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from axtool.errors import UnsupportedError, UsageError, plural
from axtool.graph.load_header import Log
from axtool.graph.sites import constant_of


def check_channels(model: ir.Model, log: Log) -> None:
    """Raise for a Conv, ConvTranspose or BatchNormalization whose input has another channel count than its weights."""
    lines = []
    for index, node in enumerate(model.graph):
        rule = _CHANNELS.get(node.op_type) if node.domain == "" else None
        text = rule(node) if rule else ""
        if text:
            lines.append(f"{node.name}: {text} ({node.op_type}, node {index}, input '{_name(node, 0)}')")
    if lines:
        hint = "give the input in the layout that the weights were trained for"
        if any("NHWC" in line for line in lines):
            hint = "the model computes on NCHW: transpose the input to (n, c, h, w), or export the model again"
        raise UsageError(lines[0], where=log.file, hint=hint, code="channel-mismatch", details=lines)


def check_batch_norms(model: ir.Model, log: Log) -> None:
    """Raise for a BatchNormalization of opset 7 or 8 that has its numbers for each value and not for each channel."""
    lines = [
        f"{node.op_type} '{node.name}' (node {index}) has spatial=0: a scale, bias, mean and variance for each value"
        for index, node in enumerate(model.graph)
        if (node.domain, node.op_type) == ("", "BatchNormalization")
        and node.attributes.get_int("spatial", 1) == 0
        and len(_shape(node, 0) or (0, 0)) != 2  # of (n, c) the two are the same
    ]
    if lines:
        raise UnsupportedError(
            f"{lines[0]}; want one for each channel",
            where=log.file,
            hint="export it with spatial=1, or write it as a Mul and an Add",
            code="batchnorm-spatial",
            details=lines,
        )


def _shape(node: ir.Node, at: int) -> tuple[int, ...] | None:
    value = node.inputs[at] if at < len(node.inputs) else None
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(d) for d in value.shape.numpy())


def _name(node: ir.Node, at: int) -> str:
    value = node.inputs[at]
    return (value.name or "") if value is not None else ""


def _conv(node: ir.Node) -> str:
    x, w = _shape(node, 0), _shape(node, 1)
    if x is None or w is None or len(x) < 3 or len(w) < 3:
        return ""
    group = node.attributes.get_int("group", 1)
    if len(x) != len(w):
        return f"input has {plural(len(x), 'axis', 'axes')}, weight needs {len(w)}"
    transposed = node.op_type == "ConvTranspose"
    want, out = (w[0], w[1] * group) if transposed else (w[1] * group, w[0])
    if x[1] != want:
        looks = "; input looks NHWC" if x[-1] == want else ""
        return f"input has {plural(x[1], 'channel')}, weight needs {want}{looks}"
    if group < 1 or want % group or out % group:
        return f"{want} input and {out} output channels cannot be split into {plural(group, 'group')}"
    bias = _shape(node, 2)
    return f"bias has shape {list(bias)}, weight needs [{out}]" if bias is not None and bias != (out,) else ""


def _batch_norm(node: ir.Node) -> str:
    x = _shape(node, 0)
    if x is None or len(x) < 2:
        return ""
    for at, role in ((1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")):
        shape = _shape(node, at)
        if shape is not None and shape != (x[1],):
            return f"input has {plural(x[1], 'channel')}, {role} has shape {list(shape)}"
    return ""


_CHANNELS = {"Conv": _conv, "ConvTranspose": _conv, "BatchNormalization": _batch_norm}


def check_indices(model: ir.Model, log: Log) -> None:
    """Raise for a Gather whose constant index lies outside its axis."""
    lines = []
    for index, node in enumerate(model.graph):
        if node.domain != "" or node.op_type not in ("Gather", "GatherElements", "GatherND"):
            continue
        text = _bad_index(node)
        if text:
            lines.append(f"{node.op_type} '{node.name}' (node {index}): {text}")
    if lines:
        hint = "an index must lie in [-size, size - 1] of its axis; check the input shape"
        raise UsageError(lines[0], where=log.file, hint=hint, code="index-out-of-range", details=lines)


def _bad_index(node: ir.Node) -> str:
    shape, value = _shape(node, 0), node.inputs[1]
    overridable = value is None or value.is_graph_input()
    indices = None if overridable else constant_of(value)  # type: ignore[arg-type]
    if shape is None or indices is None or not indices.size or indices.dtype.kind not in "iu":
        return ""
    if node.op_type == "GatherND":
        batch = node.attributes.get_int("batch_dims", 0)
        depth = indices.shape[-1] if indices.ndim else 0
        columns = [(batch + at, indices[..., at]) for at in range(depth) if batch + at < len(shape)]
    else:
        axis = node.attributes.get_int("axis", 0)
        axis += len(shape) if axis < 0 else 0
        columns = [(axis, indices)] if 0 <= axis < len(shape) else []
    for axis, column in columns:
        wrong = np.unique(column[(column < -shape[axis]) | (column >= shape[axis])])
        if wrong.size:
            shown = ", ".join(str(int(v)) for v in wrong[:8])
            return f"index {shown} is out of range, axis {axis} of '{_name(node, 0)}' has size {shape[axis]}"
    return ""


def check_reshapes(model: ir.Model, log: Log) -> None:
    """Raise for a Reshape to a constant shape that holds another number of elements than its input."""
    lines = []
    for index, node in enumerate(model.graph):
        if node.domain != "" or node.op_type != "Reshape":
            continue
        shape, value = _shape(node, 0), node.inputs[1] if len(node.inputs) > 1 else None
        want = None if value is None or value.is_graph_input() else constant_of(value)
        if shape is None or want is None or want.ndim != 1 or want.dtype.kind not in "iu":
            continue
        text = _bad_reshape(shape, [int(d) for d in want], node.attributes.get_int("allowzero", 0) != 0)
        if text:
            lines.append(f"Reshape '{node.name}' (node {index}): {text} ('{_name(node, 0)}')")
    if lines:
        hint = "the shape was written for another batch or input size: give the one the model was exported for"
        raise UsageError(lines[0], where=log.file, hint=hint, code="reshape-mismatch", details=lines)


def _bad_reshape(shape: tuple[int, ...], want: list[int], allow_zero: bool) -> str:
    text = f"cannot make {want} of {list(shape)}, which has {plural(math.prod(shape), 'element')}"
    if any(d < -1 for d in want) or want.count(-1) > 1:
        return text
    if not allow_zero:
        if any(d == 0 and at >= len(shape) for at, d in enumerate(want)):
            return text
        want = [shape[at] if d == 0 else d for at, d in enumerate(want)]
    known = math.prod(d for d in want if d != -1)
    fits = math.prod(shape) == known if -1 not in want else known == 0 or math.prod(shape) % known == 0
    return "" if fits else text
