"""Gather of one element, or of neighbours in order, along an axis  ->  Slice, and a Reshape where the axis goes.

A transformer's class token is picked so. Only in graphs that have blocks of transformers, and only where the axis is
not the first: what picks from a batch stays, and what decodes boxes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.reshaping import narrowed, set_target
from axtool.graph.passes.work import Work, constant, shape_of


def gather_to_slice(work: Work) -> int:
    blocks = any(node.op_type in ("Attention", "LayerNormalization") for node in work.graph)
    return sum(_rewrite(work, node) for node in work.nodes("Gather")) if blocks else 0


def _rewrite(work: Work, node: ir.Node) -> bool:
    source, picked, axis = node.inputs[0], constant(node.inputs[1]), work.attrs(node).get("axis")
    shape, out = shape_of(source), node.outputs[0]
    if source is None or shape is None or picked is None or not axis or out.dtype != ir.DataType.FLOAT:
        return False
    if constant(source) is not None or picked.ndim > 1 or not picked.size or source in work.given or out in work.given:
        return False
    numbers = picked.reshape(-1).astype(np.int64)
    numbers = np.where(numbers < 0, numbers + shape[axis], numbers)
    if np.any(np.diff(numbers) != 1) or numbers[0] < 0 or numbers[-1] >= shape[axis]:
        return False
    stem = out.name or "gathered"
    part = narrowed(work, source, axis, int(numbers[0]), int(numbers[-1]) + 1, node, stem)
    work.become(node, "Reshape", [part])
    set_target(work, node)
    return True
