"""Nodes that a user's pattern describes  ->  one node of the user's op, which carries what it means as a function."""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.passes.pattern import Found, Pattern, find, read_pattern
from axtool.graph.passes.work import Work, constant, remove_unused
from axtool.ops.custom import DOMAIN, MOST_INPUTS, CustomOp, known


def match_custom(work: Work) -> int:
    """Replace each occurrence of the ops that are loaded, the largest pattern first."""
    count = 0
    for op in sorted(known().values(), key=lambda op: -len(read_pattern(op).function.node)):
        pattern = read_pattern(op)
        for node in tuple(work.graph):
            if node.graph is work.graph and (found := find(pattern, node)) is not None and _fits(work, op, found):
                work.become(node, op.name, _inputs(pattern, found), DOMAIN)
                remove_unused(work)
                count += 1
    return count


def _inputs(pattern: Pattern, found: Found) -> list[ir.Value]:
    return [found.inputs[name] for name in pattern.inputs]


def _fits(work: Work, op: CustomOp, found: Found) -> bool:
    """Whether an occurrence may become one op: float32, few enough inputs, nothing inside that a quantized file
    rounds.
    """
    last = found.nodes[0].outputs[0]
    running = [value for value in found.inputs.values() if constant(value) is None]
    floats = all(value.dtype == ir.DataType.FLOAT for value in (last, *running))
    if not floats or any(value in work.given for node in found.nodes[1:] for value in node.outputs):
        return False
    if not 1 <= len(running) <= MOST_INPUTS:
        work.note(f"'{op.name}' at '{last.name}' has {len(running)} inputs, more than {MOST_INPUTS}: left as is")
        return False
    return True
