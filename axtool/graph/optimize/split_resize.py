"""Linear Resize by 4 or 8  ->  two or three by 2: neighbours inside the array, constant weights 1/4 and 3/4.

Other numbers: twice by 2 weighs three pixels an axis where once by 4 weighs two. Inside flat areas and along ramps both
are the same.
"""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.optimize.resizes import LINEAR_RULES, add_resize, lift_of
from axtool.graph.passes.work import Work
from axtool.target import Target

FACTORS = {4: 2, 8: 3}  # factor -> how many by 2 it takes


def split_resize(work: Work, target: Target) -> int:
    """How many resizes were split."""
    return sum(_split(work, node) for node in work.nodes("Resize"))


def _split(work: Work, node: ir.Node) -> bool:
    lift, value = lift_of(work, node), node.inputs[0]
    if lift is None or value is None or lift.mode != "linear" or lift.coordinate not in LINEAR_RULES:
        return False
    steps = FACTORS.get(lift.factors[0])
    if steps is None or lift.factors[0] != lift.factors[1] or node.outputs[0] in work.given:
        return False
    twice = lift._replace(factors=(2, 2))
    stem = f"{node.outputs[0].name}/by2"
    for _ in range(steps - 1):
        value = add_resize(work, node, value, twice, stem)
    last = add_resize(work, node, value, twice, stem)
    maker = last.producer()
    assert maker is not None
    work.take_over(maker, node)
    return True
