"""Clamp(Concat(layers))  ->  Concat(Clamp(each)): a clamp becomes part of the layers, and no range holds what it drops.

Face detectors join three convolutions and clamp what they joined. Behind the Concat the clamp is a layer of its own,
and half of the numbers of the layers in front stand for values that it drops.
"""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.passes.scale_mac import MACS
from axtool.graph.passes.work import Work, feeds_only, made_by


def push_clamps(work: Work) -> int:
    """How many clamps moved in front of a Concat of MAC ops, all of which only it reads."""
    return sum(_push(work, node) for node in work.nodes("Relu", "Clip"))


def _push(work: Work, node: ir.Node) -> bool:
    joined, made = node.inputs[0], node.outputs[0]
    concat = made_by(joined, "Concat")
    if concat is None or joined is None or not feeds_only(joined, node):
        return False
    parts = [part for part in concat.inputs if part is not None]
    if len(set(parts)) < len(concat.inputs) or {joined, made, *parts} & set(work.given):
        return False  # a file that rounds in between means it
    if not all(made_by(part, *MACS) is not None and feeds_only(part, concat) for part in parts):
        return False
    attributes = {name: attr.value for name, attr in node.attributes.items()}
    for at, part in enumerate(parts):
        clamp = work.insert(concat, node.op_type, [part, *node.inputs[1:]], f"{part.name}_clamped", **attributes)
        clamp.outputs[0].type, clamp.outputs[0].shape = part.type, part.shape
        concat.replace_input_with(at, clamp.outputs[0])
    work.bypass(made, joined)  # never refused: nothing here is rounded, and the Concat is no output
    work.graph.remove(node, safe=True)
    return True
