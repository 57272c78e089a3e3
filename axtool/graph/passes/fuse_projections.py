"""Projections of the same tokens for one attention block  ->  one linear: Q|K|V, K|V; positions go into its bias.

(x + P) W + b is x W + (P W + b): constants P that are added to queries and keys alone, position embeddings, become a
bias with a row for each token. Then what differed by the positions alone reads the same x, and one product with the
weights side by side makes all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.functions import DOMAIN
from axtool.graph.passes.reshaping import narrowed, typed
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, remove_unused, shape_of


@dataclass(frozen=True)
class Linear:
    """source (+ position) times weight (+ bias), which one attention block reads."""

    out: ir.Value
    product: ir.Node
    add: ir.Node | None
    source: ir.Value
    position: NDArray[np.float32] | None  # (1, tokens or 1, channels in)
    weight: NDArray[np.float32]  # (channels in, channels out)
    bias: NDArray[np.float32] | None  # of the shape of the product, or one that broadcasts to it


def fuse_projections(work: Work, wanted: Callable[[ir.Node], bool] = lambda node: True) -> int:
    """`wanted` says of a MatMul whether it may be fused; a group is fused as a whole. Returns the groups."""
    count = 0
    for node in tuple(work.graph):
        if node.op_type == "Attention" and node.domain == DOMAIN:
            for group in groups_of(work, node):
                if all(wanted(linear.product) for linear in group):
                    _fuse(work, group)
                    count += 1
    if count:
        remove_unused(work)
    return count


def groups_of(work: Work, attention: ir.Node) -> list[list[Linear]]:
    """The projections that an attention block reads, by what they read, where there is something to fuse."""
    groups: dict[ir.Value, list[Linear]] = {}
    for value in dict.fromkeys(attention.inputs[:3]):
        linear = _linear(work, value, attention) if value is not None else None
        if linear is not None:
            groups.setdefault(linear.source, []).append(linear)
    return [group for group in groups.values() if len(group) > 1 or group[0].position is not None]


def _linear(work: Work, value: ir.Value, attention: ir.Node) -> Linear | None:
    if not feeds_only(value, attention):
        return None
    add = made_by(value, "Add")
    at = 0 if add is not None and constant(add.inputs[1]) is not None else 1
    bias = constant(add.inputs[1 - at]) if add is not None else None
    product = made_by(add.inputs[at] if add is not None else value, "MatMul")
    shape = shape_of(value)
    if product is None or (add is not None and bias is None) or shape is None or len(shape) != 3:
        return None
    made, source, weight = product.outputs[0], product.inputs[0], constant(product.inputs[1])
    if source is None or weight is None or weight.ndim != 2 or shape_of(made) != shape:
        return None
    if (add is not None and not feeds_only(made, add)) or any(one in work.given for one in (value, made, source)):
        return None
    moved = made_by(source, "Add")
    at = 0 if moved is not None and constant(moved.inputs[1]) is not None else 1
    position = constant(moved.inputs[1 - at]) if moved is not None else None
    below = moved.inputs[at] if moved is not None else None
    if position is None or below is None or shape_of(below) != shape_of(source):
        return Linear(value, product, add, source, None, weight, bias)
    return Linear(value, product, add, below, position, weight, bias)


def _fuse(work: Work, group: list[Linear]) -> None:
    first = group[0]
    shape = shape_of(first.out)
    assert shape is not None
    readers = {linear.out: next((use.node, use.idx) for use in linear.out.uses()) for linear in group}
    names = {linear.out: linear.out.name or "projection" for linear in group}
    weight = np.concatenate([linear.weight for linear in group], axis=1)
    rows = shape[1] if any(_bias(linear).shape[1] > 1 for linear in group) else 1
    bias = np.concatenate(
        [np.broadcast_to(_bias(linear), (1, rows, linear.weight.shape[1])) for linear in group], axis=2
    )
    wide = (*shape[:2], weight.shape[1])
    stem = first.product.inputs[1].name if first.product.inputs[1] is not None else "weight"
    work.become(first.product, "MatMul", [first.source, work.add_constant(weight, f"{stem}_fused")])
    made, last = typed(first.product.outputs[0], wide), first.product
    made.name = work.fresh(f"{made.name}_fused")
    if any(linear.bias is not None or linear.position is not None for linear in group):
        array = (bias if rows > 1 else bias.reshape(-1)).astype(np.float32)
        added = work.add_constant(array, f"{first.out.name}/bias")
        last = ir.node("Add", [made, added], name=work.fresh(f"{first.out.name}/Add"))
        work.graph.insert_after(first.product, last)
        typed(last.outputs[0], wide).name = work.fresh(f"{first.out.name}_fused")
    start = 0
    for linear in group:
        stop = start + linear.weight.shape[1]
        (reader, at) = readers[linear.out]
        part = narrowed(work, last.outputs[0], 2, start, stop, reader, names[linear.out])
        reader.replace_input_with(at, part)
        start = stop


def _bias(linear: Linear) -> NDArray[np.float64]:
    """What is added to source times weight, as (1, tokens or 1, channels out)."""
    width = linear.weight.shape[1]
    bias = np.zeros((1, 1, width)) if linear.bias is None else linear.bias.astype(np.float64)
    bias = np.broadcast_to(bias, np.broadcast_shapes(bias.shape, (1, 1, width)))
    if linear.position is None:
        return bias
    position = linear.position.astype(np.float64)
    position = position.reshape((1,) * (3 - position.ndim) + position.shape)
    return bias + np.broadcast_to(position, (*position.shape[:2], linear.weight.shape[0])) @ linear.weight
