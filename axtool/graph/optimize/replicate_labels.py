"""ArgMax(linear Resize(x))  ->  ArgMax(nearest Resize(x)): each label of the small map stands for a block of pixels.

Approximate, and off unless asked for: borders between classes follow the blocks. The device then finds the labels of
the small map and repeats them.
"""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.optimize.resizes import Lift, add_resize, lifted
from axtool.graph.passes.work import Work, feeds_only
from axtool.target import Target


def replicate_labels(work: Work, target: Target) -> int:
    """How many label maps are made small."""
    return sum(_replicate(work, node) for node in work.nodes("ArgMax"))


def _replicate(work: Work, node: ir.Node) -> bool:
    if work.attrs(node).get("axis") != 1:
        return False
    value, last, factors = node.inputs[0], None, (1, 1)
    while (found := lifted(work, value)) is not None and found[1].mode == "linear":
        resize, lift = found
        if not feeds_only(resize.outputs[0], last if last is not None else node):
            break
        last, value = resize, resize.inputs[0]
        factors = (factors[0] * lift.factors[0], factors[1] * lift.factors[1])
    if last is None or value is None:
        return False
    nearest = Lift("nearest", "asymmetric", "floor", factors)
    small = node.inputs[0]
    assert small is not None
    node.replace_input_with(0, add_resize(work, node, value, nearest, f"{small.name}/repeated"))
    return True
