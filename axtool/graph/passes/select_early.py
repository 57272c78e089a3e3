"""One layer's part of what is computed for all of them (Concat, ops, Gather)  ->  the ops on that part alone.

A decoder that is trained on every layer's output stacks them before its heads; who asks for the last one alone gets
heads on the last one alone. Fires where nothing else is read of the stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.cancel_transposes import BINARY, UNARY
from axtool.graph.passes.reshaping import set_target
from axtool.graph.passes.work import Work, constant, shape_of


@dataclass
class _Chain:
    """What lies between a stack and the picks from it."""

    axes: dict[ir.Value, int] = field(default_factory=dict)  # of the stacked layers, in each value
    stacks: set[ir.Node] = field(default_factory=set)
    nodes: set[ir.Node] = field(default_factory=set)


def select_early(work: Work) -> int:
    count = 0
    picks = [node for node in work.nodes("Gather") if _picked(work, node) is not None]
    while picks:
        number = _picked(work, picks[0])
        group = [node for node in picks if _picked(work, node) == number]
        chain = _Chain()
        traced = [node for node in group if _trace(work, chain, node.inputs[0], work.attrs(node)["axis"])]
        if (
            traced == group
            and number is not None
            and _closed(work, chain, group)
            and _select(work, chain, group, number)
        ):
            count += len(group)
            picks = [node for node in picks if node not in group]
        else:
            picks = picks[1:]
    return count


def _picked(work: Work, node: ir.Node) -> int | None:
    """Which element a Gather picks, counted from the front, if it is one."""
    index, shape, attrs = constant(node.inputs[1]), shape_of(node.inputs[0]), work.attrs(node)
    if index is None or index.size != 1 or shape is None or "axis" not in attrs:
        return None
    number = int(index.reshape(-1)[0])
    return number + shape[attrs["axis"]] if number < 0 else number


def _trace(work: Work, chain: _Chain, value: ir.Value | None, axis: int) -> bool:
    """Whether the value is made of a stack along this axis by ops that keep the layers apart. Fills the chain."""
    node, shape = (value.producer() if value is not None else None), shape_of(value)
    if value is None or node is None or shape is None or value in work.given:
        return False
    if value in chain.axes:
        return chain.axes[value] == axis
    chain.axes[value] = axis
    chain.nodes.add(node)
    attrs = work.attrs(node)
    if node.op_type == "Concat" and node.domain == "" and attrs.get("axis") == axis:
        chain.stacks.add(node)
        return all((shape_of(part) or shape)[axis] == 1 for part in node.inputs)
    if node.op_type == "Transpose" and node.domain == "" and "perm" in attrs:
        return _trace(work, chain, node.inputs[0], attrs["perm"][axis])
    if node.op_type == "MatMul" and node.domain == "":
        weight = constant(node.inputs[1])
        flat = weight is not None and weight.ndim == 2 and axis < len(shape) - 1
        return flat and _trace(work, chain, node.inputs[0], axis)
    if node.op_type in ("LayerNormalization", "Softmax"):
        return attrs.get("axis") == len(shape) - 1 != axis and _trace(work, chain, node.inputs[0], axis)
    if node.op_type in UNARY and len(node.outputs) == 1:
        return _trace(work, chain, node.inputs[0], axis)
    if node.op_type in BINARY and node.domain == "":
        return all(constant(one) is not None or _trace(work, chain, one, axis) for one in node.inputs)
    return False


def _closed(work: Work, chain: _Chain, picks: list[ir.Node]) -> bool:
    """Whether only the picks read what the chain makes."""
    inside = chain.nodes | set(picks)
    made = [value for node in chain.nodes for value in node.outputs]
    return all(not value.is_graph_output() and all(use.node in inside for use in value.uses()) for value in made)


def _select(work: Work, chain: _Chain, picks: list[ir.Node], number: int) -> bool:
    if any(shape_of(value) is None for value in chain.axes) or not chain.stacks:
        return False
    for node in chain.nodes - chain.stacks:
        value = node.outputs[0]
        shape, axis = shape_of(value) or (), chain.axes[value]
        if node.op_type in BINARY:
            _narrow_constants(work, node, len(shape) - axis, number)
        value.shape = ir.Shape((*shape[:axis], 1, *shape[axis + 1 :]))
    for stack in chain.stacks:
        part = stack.inputs[number]
        assert part is not None
        stack.outputs[0].replace_all_uses_with(part)
        work.graph.remove(stack, safe=True)
    for node in picks:
        work.become(node, "Reshape", [node.inputs[0]])
        set_target(work, node)
    return True


def _narrow_constants(work: Work, node: ir.Node, behind: int, number: int) -> None:
    """Constants with a part for each layer keep that of the picked one; `behind`: axes from that of the layers on."""
    for at, value in enumerate(node.inputs):
        array = constant(value)
        if value is not None and array is not None and array.ndim >= behind and array.shape[-behind] > 1:
            part = np.take(array, [number], axis=array.ndim - behind)
            node.replace_input_with(at, work.add_constant(part, f"{value.name}_selected"))
