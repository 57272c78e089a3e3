"""A mean or maximum over all of space  ->  the global pool; Concat with a border of one number  ->  Pad."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, rank_of, shape_of

USUAL_STRIDE = 15  # what every target takes; a larger pool has to become a global one


def simplify_pools(work: Work) -> int:
    count = 0
    for node in work.nodes("ReduceMean", "ReduceMax"):
        count += _to_global(work, node)
    for node in work.nodes("AveragePool", "MaxPool"):
        count += _whole_window(work, node)
    for node in work.nodes("Concat"):
        count += _to_pad(work, node)
    return count


def _to_global(work: Work, node: ir.Node) -> bool:
    attrs, rank = work.attrs(node), rank_of(node.inputs[0])
    if rank != 4 or attrs.get("axes") != (2, 3) or attrs.get("keepdims") != 1:
        return False
    if node.inputs[0] is None or node.inputs[0].dtype != ir.DataType.FLOAT:
        return False
    op = {"ReduceMean": "GlobalAveragePool", "ReduceMax": "GlobalMaxPool"}[node.op_type]
    work.become(node, op, [node.inputs[0]])
    return True


def _whole_window(work: Work, node: ir.Node) -> bool:
    """A single window that covers the input exactly."""
    attrs, shape = work.attrs(node), shape_of(node.inputs[0])
    if shape is None or len(shape) != 4 or attrs.get("kernel") != shape[2:] or any(attrs.get("pads", (1,))):
        return False
    if any(d != 1 for d in attrs.get("dilations", (1, 1))) or len(node.outputs) > 1:
        return False
    if shape_of(node.outputs[0]) != (*shape[:2], 1, 1):
        return False
    if node.outputs[0] in work.given and max(attrs["strides"]) <= USUAL_STRIDE:
        return False  # the file rounds the mean; many fall on a tie, and the global pool sums in another order
    op = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool"}[node.op_type]
    work.become(node, op, [node.inputs[0]])
    return True


def _to_pad(work: Work, node: ir.Node) -> bool:
    """Two parts, one of them a constant that holds a single number throughout (channels of zeros, in residuals)."""
    if len(node.inputs) != 2 or work.opset < 11:
        return False
    for at in (0, 1):
        array, value = constant(node.inputs[at]), node.inputs[1 - at]
        shape, axis = shape_of(value), work.attrs(node).get("axis")
        if array is None or array.dtype != np.float32 or not array.size or shape is None or axis is None:
            continue
        number = array.reshape(-1)[0]
        if not np.all(array == number):
            continue
        pads = [0] * (2 * len(shape))
        pads[axis if at == 0 else len(shape) + axis] = array.shape[axis]
        name = node.outputs[0].name
        inputs = [value, work.add_constant(np.array(pads, np.int64), f"{name}_pads")]
        if number != 0:
            inputs.append(work.add_constant(np.array(number, np.float32), f"{name}_value"))
        work.become(node, "Pad", inputs, mode="constant")
        return True
    return False
