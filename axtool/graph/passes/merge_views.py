"""Reshapes, Transposes, Squeezes one behind the other that leave the order of the elements  ->  one Reshape."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.reshaping import set_target
from axtool.graph.passes.views import SHAPES, views_of
from axtool.graph.passes.work import Work

MOVING = (*SHAPES, "Transpose")


def merge_views(work: Work) -> int:
    return sum(_merge(work, node) for node in work.nodes(*MOVING) if node.inputs[0] is not None)


def _merge(work: Work, node: ir.Node) -> bool:
    value = node.outputs[0]
    behind = [use.node for use in value.uses()]
    if len(behind) == 1 and behind[0].op_type in MOVING and behind[0].domain == "" and not value.is_graph_output():
        return False  # the last one of a row becomes the Reshape
    source = _source(work, value)
    if source is None:
        return False
    work.become(node, "Reshape", [source])
    set_target(work, node)
    return True


def _source(work: Work, value: ir.Value) -> ir.Value | None:
    """The furthest value that holds the same elements in the same order, two moves away or more."""
    for view in views_of(work, value):
        moving = all(node.op_type in MOVING for node in view.path)
        rounded = any(out in work.given for node in view.path for out in node.outputs)
        flat = view.index.reshape(-1)
        if len(view.path) > 1 and moving and not rounded and np.array_equal(flat, np.arange(flat.size)):
            return view.source
    return None
