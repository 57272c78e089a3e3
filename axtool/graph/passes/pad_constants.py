"""Concat of a constant and one tensor  ->  Pad with zeros, and the constant added: x + 0 and 0 + c are exact.

So a class token joins the tokens of a picture, and the positions that are added next are one sum with it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, only_reader, shape_of


def pad_constants(work: Work) -> int:
    return sum(_rewrite(work, node) for node in work.nodes("Concat")) if work.opset >= 11 else 0


def _rewrite(work: Work, node: ir.Node) -> bool:
    out, axis = node.outputs[0], work.attrs(node).get("axis")
    shape = shape_of(out)
    arrays = [constant(value) for value in node.inputs]
    data = [at for at, array in enumerate(arrays) if array is None]
    if shape is None or axis is None or len(data) != 1 or len(arrays) == 1 or out.dtype != ir.DataType.FLOAT:
        return False
    source = node.inputs[data[0]]
    known = shape_of(source)
    if source is None or known is None or len(shape) != 3 or axis != 1 or out in work.given or source in work.given:
        return False
    if any(array is not None and not np.isfinite(array).all() for array in arrays):
        return False
    parts = [np.zeros(known, np.float32) if array is None else array.astype(np.float32) for array in arrays]
    before = sum(part.shape[axis] for part in parts[: data[0]])
    pads = np.zeros(2 * len(shape), np.int64)
    pads[axis], pads[len(shape) + axis] = before, shape[axis] - before - known[axis]
    padded = work.insert(node, "Pad", [source, work.add_constant(pads, f"{out.name}/pads")], f"{out.name}/padded")
    padded.outputs[0].type, padded.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(shape)
    added = np.concatenate(parts, axis)
    after = only_reader(out)
    at = 0 if after is not None and after.op_type == "Add" and after.inputs[1] is out else 1
    further = constant(after.inputs[at]) if after is not None and after.op_type == "Add" else None
    if after is not None and further is not None and shape_of(after.outputs[0]) == shape:
        total = work.add_constant(np.asarray(added + further, np.float32), f"{out.name}/constants")
        work.become(after, "Add", [padded.outputs[0], total])
    else:
        work.become(node, "Add", [padded.outputs[0], work.add_constant(added, f"{out.name}/constants")])
    return True
