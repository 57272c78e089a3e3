"""(x - mean) / sqrt(variance + eps) * gamma + beta along the channels  ->  LayerNormalization.

Models from before opset 17 have no op for it and write nine. From opset 17 on it is ONNX's own op, before that
`ax::LayerNormalization` with the same attributes. Both work along the last axis: the channels of an image
[1, C, H, W] are moved there and back, which moves nothing on a device that keeps them there.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.functions import DOMAIN
from axtool.graph.passes.reshaping import typed
from axtool.graph.passes.work import (
    Work,
    constant,
    made_by,
    only_reader,
    per_channel,
    rank_of,
    remove_unused,
    scalar,
    shape_of,
)  # fmt: skip


def fuse_layer_norm(work: Work) -> int:
    count = sum(_fuse(work, node) for node in work.nodes("Div", "Mul"))
    if count:
        remove_unused(work)
    return count


def _fuse(work: Work, node: ir.Node) -> bool:
    found = _normalized(work, node)
    if found is None:
        return False
    x, eps, axis = found
    shape = shape_of(x)
    if shape is None or node.outputs[0].dtype != ir.DataType.FLOAT or shape != shape_of(node.outputs[0]):
        return False
    last, gamma = _affine(work, node, "Mul", shape, axis)
    last, beta = _affine(work, last, "Add", shape, axis)
    scale = np.ones(shape[axis], np.float32) if gamma is None else gamma
    constants = [work.add_constant(scale, "layer_norm_scale")]
    if beta is not None:
        constants.append(work.add_constant(beta, "layer_norm_bias"))
    if axis == len(shape) - 1:
        _become(work, last, [x, *constants], eps)
        return True
    name = last.outputs[0].name or "layer_norm"
    moved = work.insert(last, "Transpose", [x], f"{name}/channels_last", perm=(0, 2, 3, 1)).outputs[0]
    norm = work.insert(last, "LayerNormalization", [], f"{name}/normalized")
    for value in (moved, norm.outputs[0]):
        typed(value, (shape[0], *shape[2:], shape[1]))
    _become(work, norm, [moved, *constants], eps)
    work.become(last, "Transpose", [norm.outputs[0]], perm=(0, 3, 1, 2))
    return True


def _become(work: Work, node: ir.Node, inputs: list[ir.Value], eps: float) -> None:
    if work.opset >= 17:
        work.become(node, "LayerNormalization", inputs, axis=-1, epsilon=eps)
    else:
        work.become(node, "LayerNormalization", inputs, DOMAIN, axis=-1, epsilon=eps)
        node.overload = f"{eps:.9g}{' biased' if len(inputs) == 3 else ''}"


def _normalized(work: Work, node: ir.Node) -> tuple[ir.Value, float, int] | None:
    """x, eps and the axis, if the node makes (x - mean) / sqrt(variance + eps) of x and alone reads what is between."""
    for at in (0, 1) if node.op_type == "Mul" else (0,):
        centred, spread = node.inputs[at], node.inputs[1 - at]
        x, axis = _centred(work, centred)
        root = _root(spread, divided=node.op_type == "Div")
        if x is None or root is None or centred is None:
            continue
        sum_, eps = _plus_number(root.inputs[0])
        mean = made_by(sum_, "ReduceMean")
        square = _square_of(mean.inputs[0]) if mean is not None else None
        if mean is None or square is None or _channels(work, mean, x) != axis or not eps or eps <= 0:
            continue
        if square is not centred and _centred(work, square) != (x, axis):
            continue
        inner = [root.outputs[0], root.inputs[0], sum_, mean.inputs[0], spread]
        if all(value is not None and only_reader(value) is not None for value in inner) and not _rounded(
            work, [*inner, centred, square]
        ):
            return x, eps, axis
    return None


def _centred(work: Work, value: ir.Value | None) -> tuple[ir.Value | None, int]:
    """x and the axis, if the value is x less its mean along the channels."""
    node = made_by(value, "Sub")
    mean = made_by(node.inputs[1], "ReduceMean") if node is not None else None
    if node is None or mean is None or node.inputs[0] is None or mean.inputs[0] is not node.inputs[0]:
        return None, -1
    axis = _channels(work, mean, node.inputs[0])
    return (None, -1) if axis is None else (node.inputs[0], axis)


def _channels(work: Work, node: ir.Node, x: ir.Value) -> int | None:
    """The axis of a mean along the last axis, or along the channels of an image [N, C, H, W]."""
    attrs, rank = work.attrs(node), rank_of(x)
    if rank is None or attrs.get("keepdims") != 1:
        return None
    return next((axis for axis in (rank - 1, *([1] if rank == 4 else [])) if attrs.get("axes") == (axis,)), None)


def _root(value: ir.Value | None, *, divided: bool) -> ir.Node | None:
    """The square root that is divided by: Div by Sqrt or Pow 0.5; Mul by the reciprocal of it, or Pow -0.5."""
    node = value.producer() if value is not None else None
    if node is None or node.domain != "":
        return None
    if not divided and node.op_type == "Reciprocal":
        return _root(node.inputs[0], divided=True)
    if not divided and node.op_type == "Div" and scalar(node.inputs[0]) == 1.0:
        return _root(node.inputs[1], divided=True)
    if divided and node.op_type == "Sqrt":
        return node
    power = scalar(node.inputs[1]) if node.op_type == "Pow" else None
    return node if power == (0.5 if divided else -0.5) else None


def _plus_number(value: ir.Value | None) -> tuple[ir.Value | None, float | None]:
    node = made_by(value, "Add")
    if node is None:
        return None, None
    at = 0 if scalar(node.inputs[1]) is not None else 1
    return node.inputs[at], scalar(node.inputs[1 - at])


def _square_of(value: ir.Value | None) -> ir.Value | None:
    node = made_by(value, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Pow":
        return node.inputs[0] if scalar(node.inputs[1]) == 2.0 else None
    return node.inputs[0] if node.inputs[0] is node.inputs[1] else None


def _affine(
    work: Work, node: ir.Node, op: str, shape: tuple[int, ...], axis: int
) -> tuple[ir.Node, NDArray[np.float32] | None]:
    """The op that follows with one constant for each channel, and the constant; the node itself if none follows."""
    value = node.outputs[0]
    after = only_reader(value)
    if after is None or after.op_type != op or after.domain != "" or value in work.given:
        return node, None
    at = 0 if constant(after.inputs[1]) is not None else 1
    array = constant(after.inputs[1 - at])
    if array is None or after.inputs[at] is not value or shape_of(after.outputs[0]) != shape:
        return node, None
    vector = per_channel(array, len(shape), shape[axis], axis)
    if vector is None or not all(math.isfinite(v) for v in vector):
        return node, None
    return after, vector.astype(np.float32)


def _rounded(work: Work, values: list[ir.Value | None]) -> bool:
    """True if a quantized file rounds one of these: then each op stays as it is."""
    return any(value in work.given for value in values if value is not None)
