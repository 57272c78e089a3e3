"""(x - mean) / sqrt(variance + eps) * gamma + beta along the last axis  ->  LayerNormalization.

Models from before opset 17 have no op for it and write nine. From opset 17 on it is ONNX's own op, before that
`ax::LayerNormalization` with the same attributes.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.functions import DOMAIN
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
    x, eps = found
    shape = shape_of(x)
    if shape is None or node.outputs[0].dtype != ir.DataType.FLOAT or shape != shape_of(node.outputs[0]):
        return False
    last, gamma = _affine(work, node, "Mul", shape)
    last, beta = _affine(work, last, "Add", shape)
    inputs = [x, work.add_constant(np.ones(shape[-1], np.float32) if gamma is None else gamma, "layer_norm_scale")]
    if beta is not None:
        inputs.append(work.add_constant(beta, "layer_norm_bias"))
    if work.opset >= 17:
        work.become(last, "LayerNormalization", inputs, axis=-1, epsilon=eps)
    else:
        work.become(last, "LayerNormalization", inputs, DOMAIN, axis=-1, epsilon=eps)
        last.overload = f"{eps:.9g}{'' if beta is None else ' biased'}"
    return True


def _normalized(work: Work, node: ir.Node) -> tuple[ir.Value, float] | None:
    """x and eps, if the node makes (x - mean) / sqrt(variance + eps) of it, and nothing else needs what is between."""
    for at in (0, 1) if node.op_type == "Mul" else (0,):
        centred, spread = node.inputs[at], node.inputs[1 - at]
        x = _centred(work, centred)
        root = _root(spread, divided=node.op_type == "Div")
        if x is None or root is None or centred is None:
            continue
        sum_, eps = _plus_number(root.inputs[0])
        mean = made_by(sum_, "ReduceMean")
        square = _square_of(mean.inputs[0]) if mean is not None else None
        if mean is None or square is None or not _along_last(work, mean, x) or not eps or eps <= 0:
            continue
        if square is not centred and _centred(work, square) is not x:
            continue
        inner = [root.outputs[0], root.inputs[0], sum_, mean.inputs[0], spread]
        if all(value is not None and only_reader(value) is not None for value in inner) and not _rounded(
            work, [*inner, centred, square]
        ):
            return x, eps
    return None


def _centred(work: Work, value: ir.Value | None) -> ir.Value | None:
    """x, if the value is x less its mean along the last axis."""
    node = made_by(value, "Sub")
    mean = made_by(node.inputs[1], "ReduceMean") if node is not None else None
    if node is None or mean is None or node.inputs[0] is None or mean.inputs[0] is not node.inputs[0]:
        return None
    return node.inputs[0] if _along_last(work, mean, node.inputs[0]) else None


def _along_last(work: Work, node: ir.Node, x: ir.Value) -> bool:
    attrs, rank = work.attrs(node), rank_of(x)
    return rank is not None and attrs.get("axes") == (rank - 1,) and attrs.get("keepdims") == 1


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


def _affine(work: Work, node: ir.Node, op: str, shape: tuple[int, ...]) -> tuple[ir.Node, NDArray[np.float32] | None]:
    """The op that follows with one constant for each channel, and the constant; the node itself if none follows."""
    value = node.outputs[0]
    after = only_reader(value)
    if after is None or after.op_type != op or after.domain != "" or value in work.given:
        return node, None
    at = 0 if constant(after.inputs[1]) is not None else 1
    array = constant(after.inputs[1 - at])
    if array is None or after.inputs[at] is not value or shape_of(after.outputs[0]) != shape:
        return node, None
    vector = per_channel(array, len(shape), shape[-1], axis=len(shape) - 1)
    if vector is None or not all(math.isfinite(v) for v in vector):
        return node, None
    return after, vector.astype(np.float32)


def _rounded(work: Work, values: list[ir.Value | None]) -> bool:
    """True if a quantized file rounds one of these: then each op stays as it is."""
    return any(value in work.given for value in values if value is not None)
