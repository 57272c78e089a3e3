"""Interleaved heads of a projection (q k v q k v)  ->  the same projection, channels side by side (q q k k v v).

The order of a projection's output channels is that of its weights, so putting them in order costs nothing at run time.
Others that read part of the same channels, a convolution of the values for one, read them from where they are now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.attention_operands import Operand
from axtool.graph.passes.reshaping import narrowed, reshaped
from axtool.graph.passes.scale_mac import out_channels
from axtool.graph.passes.views import Index, views_of
from axtool.graph.passes.work import Work, constant, made_by, shape_of

Read = tuple[ir.Value, ir.Node, int]  # a value that a node outside of the block reads as its input number


def side_by_side(work: Work, operands: Sequence[Operand], products: Collection[ir.Node]) -> tuple[Operand, ...] | None:
    """The operands with their channels in ranges of the source; None, and nothing changed, where that cannot be."""
    if all(operand.contiguous for operand in operands):
        return tuple(operands)
    source, tokens = operands[0].view.source, operands[0].tokens
    shape = shape_of(source)
    if shape is None or not all(op.view.source is source and op.channels_first for op in operands):
        return None
    order = np.concatenate([operand.chosen for operand in operands])
    conv = made_by(source, "Conv")
    if conv is None or out_channels(conv) != len(order) or not np.array_equal(np.sort(order), np.arange(len(order))):
        return None
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    grouped = "group" in conv.attributes and conv.attributes["group"].as_int() != 1
    given = any(value in work.given for value in (source, *conv.inputs) if value is not None)
    if grouped or given or (bias is not None and constant(bias) is None):
        return None
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    outside = _outside(work, source, operands, products)
    starts = [_start(work, value, source, places, tokens) for value, _, _ in outside] if outside is not None else [None]
    if outside is None or None in starts:
        return None
    _permute(work, conv, order)
    for (value, node, at), start in zip(outside, starts, strict=True):
        assert start is not None
        _reroute(work, source, value, node, at, start, tokens)
    source.name = work.fresh(f"{source.name}_reordered")
    ends = np.cumsum([len(operand.chosen) for operand in operands])
    return tuple(
        replace(operand, chosen=np.arange(end - len(operand.chosen), end))
        for operand, end in zip(operands, ends, strict=True)
    )


def _outside(
    work: Work, source: ir.Value, operands: Sequence[Operand], products: Collection[ir.Node]
) -> list[Read] | None:
    """What nodes outside of the block read of it; None if that includes the source or an output of the model."""
    path = {node for operand in operands for node in operand.view.path}
    if source.is_graph_output() or any(use.node not in path for use in source.uses()):
        return None
    reads: list[Read] = []
    for value in (out for node in work.graph if node in path for out in node.outputs):
        if value.is_graph_output():
            return None
        others = [(use.node, use.idx) for use in value.uses() if use.node not in path and use.node not in products]
        reads += [(value, node, at) for node, at in others]
    return reads


def _start(work: Work, value: ir.Value, source: ir.Value, places: Index, tokens: int) -> int | None:
    """The first of the new channels that the value holds, if it holds a range of them in order; otherwise None."""
    view = next((one for one in views_of(work, value) if one.source is source), None)
    if view is None:
        return None
    flat = view.index.reshape(-1)
    now = places[flat // tokens] * tokens + flat % tokens
    ordered = np.array_equal(now, now[0] + np.arange(len(now))) and now[0] % tokens == 0 and len(now) % tokens == 0
    return int(now[0]) // tokens if ordered else None


def _permute(work: Work, conv: ir.Node, order: Index) -> None:
    for at in (1, 2):
        array = constant(conv.inputs[at]) if at < len(conv.inputs) else None
        if array is not None:
            value = conv.inputs[at]
            work.set_constant(conv, at, array[order], f"{value.name if value is not None else ''}_reordered")


def _reroute(work: Work, source: ir.Value, value: ir.Value, node: ir.Node, at: int, start: int, tokens: int) -> None:
    shape = shape_of(value)
    assert shape is not None
    stop = start + int(np.prod(shape)) // tokens
    part = narrowed(work, source, 1, start, stop, node, f"{value.name}")
    node.replace_input_with(at, reshaped(work, part, shape, node, f"{value.name}"))
