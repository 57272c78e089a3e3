"""Streams [L, 1, C] (and [1, 1, L, C], [1, L, 1, C])  ->  [1, L, C]: the same memory, with tokens as rows.

Sequence-first transformers keep one token an outermost row. What works token by token (sums, activations, products with
a matrix of weights, norms along the channels) does not care; so a whole stream of such nodes changes its shape at once.
Reshapes at its ends get another target, Transposes into it another order; other neighbours get a Reshape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.cancel_transposes import BINARY, UNARY
from axtool.graph.passes.reshaping import set_target, typed
from axtool.graph.passes.views import SHAPES
from axtool.graph.passes.work import Work, constant, shape_of

Shape = tuple[int, ...]
MIXING = ("MatMul", "LayerNormalization")  # what makes a stream of element-wise ops one of tokens


def batch_first(work: Work) -> int:
    """How many constants changed their shape; 1 where a stream had none to change."""
    nodes = {node for node in work.graph if _is_row_wise(work, node)}
    values = _streams(work, nodes)
    turned: dict[tuple[ir.Value, Shape], ir.Value] = {}
    for value, shape in values.items():
        _leave(work, value, shape, nodes)
    for value, shape in values.items():
        if value.producer() in nodes:
            value.shape = ir.Shape(rows(shape))
        else:
            _enter(work, value, shape, nodes, turned)
    for node in work.graph:
        if node in nodes and node.outputs[0] in values:
            _turn_constants(work, node, len(values[node.outputs[0]]), turned)
            if "axis" in node.attributes:
                node.attributes["axis"] = ir.AttrInt64("axis", 2)
    return max(bool(values), len(turned))


def rows(shape: Shape) -> Shape:
    """The shape as [1, tokens, channels]."""
    return (1, int(np.prod(shape[:-1])), shape[-1])


def _axis(shape: Shape | None) -> int | None:
    """The axis of the tokens, if all others but the last are 1 and it is not [1, L, C] yet."""
    if shape is None or len(shape) < 3 or shape[-1] < 2:
        return None
    wide = [axis for axis, extent in enumerate(shape[:-1]) if extent != 1]
    return wide[0] if len(wide) == 1 and shape != rows(shape) else None


def _is_row_wise(work: Work, node: ir.Node) -> bool:
    """Whether a node may change the shape of its stream: it works on each token alone, on inputs of the same tokens."""
    out = node.outputs[0]
    shape, axis = shape_of(out), _axis(shape_of(out))
    if axis is None or shape is None or out.dtype != ir.DataType.FLOAT or len(node.outputs) > 1:
        return False
    if node.op_type == "MatMul" and node.domain == "":
        weight = constant(node.inputs[1])
        return weight is not None and weight.ndim == 2 and _same_tokens(node.inputs[0], shape, axis)
    if node.op_type in ("LayerNormalization", "Softmax"):
        return work.attrs(node).get("axis") == len(shape) - 1
    if node.op_type in BINARY and node.domain == "" and len(node.inputs) == 2:
        return all(_same_tokens(value, shape, axis) for value in node.inputs)
    return node.op_type in UNARY and _same_tokens(node.inputs[0], shape, axis)


def _same_tokens(value: ir.Value | None, shape: Shape, axis: int) -> bool:
    """Whether an input has these tokens along this axis, or one row for all of them."""
    own = shape_of(value)
    if own is None or len(own) > len(shape):
        return False
    full = (1,) * (len(shape) - len(own)) + own
    one_row = len(own) == 1 or (len(own) == len(shape) == 3 and own[axis] == 1)
    turns = constant(value) is not None or one_row or _axis(own) is not None
    return turns and all(extent == 1 for at, extent in enumerate(full[:-1]) if at != axis)


def _streams(work: Work, nodes: set[ir.Node]) -> dict[ir.Value, Shape]:
    """The values of the streams that hold a product or a norm, in the order of the graph, with their shapes."""
    chosen: dict[ir.Value, Shape] = {}
    seen: set[ir.Node] = set()
    for node in work.graph:
        if node not in nodes or node in seen:
            continue
        group, waiting = {node}, [node]
        while waiting:
            near = waiting.pop()
            touched = [v for v in (*near.inputs, near.outputs[0]) if v is not None and constant(v) is None]
            others = [other for v in touched for other in (v.producer(), *(use.node for use in v.uses()))]
            for other in dict.fromkeys(others):
                if other is not None and other in nodes and other not in group:
                    group.add(other)
                    waiting.append(other)
        seen |= group
        if any(one.op_type in MIXING for one in group):
            for value in (value for one in work.graph if one in group for value in (*one.inputs, one.outputs[0])):
                shape = shape_of(value)
                if value is not None and shape is not None and constant(value) is None and _axis(shape) is not None:
                    chosen[value] = shape
    return chosen


def _leave(work: Work, value: ir.Value, shape: Shape, nodes: set[ir.Node]) -> None:
    """Those who read a value outside of the stream, or the model's outputs, get it in the shape that it had."""
    outside = [use for use in value.uses() if use.node not in nodes]
    others = []
    for node, at in ((use.node, use.idx) for use in outside):
        if node.op_type in SHAPES and node.domain == "" and at == 0:
            work.become(node, "Reshape", [value, *([node.inputs[1]] if node.op_type == "Reshape" else [])])
            set_target(work, node)
        else:
            others.append((node, at))
    if value.producer() not in nodes or not (others or value.is_graph_output()):
        return
    maker = value.producer()
    assert maker is not None
    target = work.add_constant(np.asarray(shape, np.int64), f"{value.name}/shape")
    back = ir.node("Reshape", [value, target], name=work.fresh(f"{value.name}/Reshape"))
    work.graph.insert_after(maker, back)
    made = typed(back.outputs[0], shape)
    made.name = work.fresh(f"{value.name}_as_before")
    for node, at in others:
        node.replace_input_with(at, made)
    if value.is_graph_output():
        at = next(index for index, output in enumerate(work.graph.outputs) if output is value)
        work.graph.outputs[at] = made
        name, value.name = value.name, work.fresh(f"{value.name}_rows")
        made.name = name


def _enter(
    work: Work, value: ir.Value, shape: Shape, nodes: set[ir.Node], turned: dict[tuple[ir.Value, Shape], ir.Value]
) -> None:
    """A value that a node outside of the stream makes, or the caller, comes in as rows."""
    maker = value.producer()
    free = maker is not None and not value.is_graph_output() and all(use.node in nodes for use in value.uses())
    if free and maker is not None and maker.op_type == "Reshape" and constant(maker.inputs[1]) is not None:
        _replace(work, maker, 1, np.asarray(rows(shape), np.int64), turned)
        value.shape = ir.Shape(rows(shape))
    elif free and maker is not None and maker.op_type == "Transpose" and len(shape_of(maker.inputs[0]) or ()) == 3:
        source, perm = shape_of(maker.inputs[0]) or (), work.attrs(maker)["perm"]
        moved = (*[p for p in perm if source[p] == 1], *[p for p in perm if source[p] != 1])
        work.become(maker, "Transpose", [maker.inputs[0]], perm=moved)
        value.shape = ir.Shape(rows(shape))
    else:
        target = work.add_constant(np.asarray(rows(shape), np.int64), f"{value.name}/shape")
        node = ir.node("Reshape", [value, target], name=work.fresh(f"{value.name}/Reshape"))
        readers = [(use.node, use.idx) for use in value.uses() if use.node in nodes]
        if maker is not None:
            work.graph.insert_after(maker, node)
        else:
            work.graph.insert_before(work.graph[0], node)
        node.outputs[0].name = work.fresh(f"{value.name}_rows")
        for reader, at in readers:
            reader.replace_input_with(at, typed(node.outputs[0], rows(shape)))


def _turn_constants(work: Work, node: ir.Node, rank: int, turned: dict[tuple[ir.Value, Shape], ir.Value]) -> None:
    """Constants of a node that have a row for each token get their tokens where the others have them."""
    for at, value in enumerate(node.inputs):
        array = constant(value)
        if array is None or array.ndim < 2 or (node.op_type in MIXING and at > 0):
            continue
        new = array.reshape(rows((1,) * (rank - array.ndim) + array.shape))
        if new.shape != array.shape:
            _replace(work, node, at, new, turned)


def _replace(
    work: Work, node: ir.Node, at: int, array: NDArray[Any], turned: dict[tuple[ir.Value, Shape], ir.Value]
) -> None:
    """Another array for a constant. What reads the same constant, and is changed in the same way, reads one again."""
    value = node.inputs[at]
    assert value is not None
    key = (value, array.shape if array.dtype.kind == "f" else tuple(array.tolist()))
    if key not in turned:
        turned[key] = work.add_constant(array, f"{value.name}_rows")
    node.replace_input_with(at, turned[key])
