"""The two linears of a feed-forward block, MatMul and Add on tokens  ->  2-D Gemms on rows of tokens.

A block is linear, activation, linear, added to what it began with: the tokens that it reads (norm after the sum) or
those that its norm reads (norm before the block).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.cancel_transposes import UNARY
from axtool.graph.passes.reshaping import reshaped, typed
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, only_reader, per_channel, shape_of


@dataclass(frozen=True)
class Rows:
    """tokens times weight (+ bias): the nodes, and the constants as they are."""

    tokens: ir.Value
    product: ir.Node
    last: ir.Node  # the Add, or the product where there is none
    bias: NDArray[np.float32] | None


def ffn_gemm(work: Work) -> int:
    count = 0
    for node in work.nodes("Add"):
        for at in (0, 1):
            block = _block(work, node.inputs[at], node.inputs[1 - at], node)
            if block is not None:
                _write(work, *block)
                count += 2
                break
    return count


def _block(
    work: Work, value: ir.Value | None, residual: ir.Value | None, add: ir.Node
) -> tuple[Rows, ir.Node, Rows] | None:
    second = _rows(work, value, add) if value is not None else None
    middle = second.tokens.producer() if second is not None else None
    if second is None or middle is None or middle.op_type not in UNARY or not feeds_only(second.tokens, second.product):
        return None
    first = _rows(work, middle.inputs[0], middle)
    if first is None or len(middle.outputs) != 1 or second.tokens in work.given:
        return None
    norm = first.tokens.producer()
    before = norm.inputs[0] if norm is not None and norm.op_type == "LayerNormalization" else None
    return (first, middle, second) if residual is not None and residual in (first.tokens, before) else None


def _rows(work: Work, value: ir.Value | None, reader: ir.Node) -> Rows | None:
    """The linear that makes a value of tokens [1, L, C], which only `reader` reads."""
    shape = shape_of(value)
    if value is None or shape is None or len(shape) != 3 or shape[0] != 1 or only_reader(value) is not reader:
        return None
    add = made_by(value, "Add")
    at = 0 if add is not None and constant(add.inputs[1]) is not None else 1
    product = made_by(add.inputs[at] if add is not None else value, "MatMul")
    bias = constant(add.inputs[1 - at]) if add is not None else None
    vector = per_channel(bias, 3, shape[-1], axis=2) if bias is not None else None
    if product is None or (add is not None and (vector is None or not feeds_only(product.outputs[0], add))):
        return None
    tokens, weight = product.inputs[0], constant(product.inputs[1])
    sound = weight is not None and weight.ndim == 2 and len(shape_of(tokens) or ()) == 3
    given = any(one in work.given for one in (value, product.outputs[0]))
    if tokens is None or not sound or given or shape_of(product.outputs[0]) != shape:
        return None
    return Rows(tokens, product, add or product, vector)


def _write(work: Work, first: Rows, middle: ir.Node, second: Rows) -> None:
    shape = shape_of(first.tokens)
    assert shape is not None
    value = reshaped(work, first.tokens, shape[1:], first.product, f"{first.tokens.name}/rows")
    middle.replace_input_with(0, _gemm(work, first, value))
    hidden = shape_of(middle.outputs[0])
    assert hidden is not None
    out = _gemm(work, second, typed(middle.outputs[0], hidden[1:]))
    name, tokens = out.name or "ffn", (1, *(shape_of(out) or ()))
    target = work.add_constant(np.asarray(tokens, np.int64), f"{name}/shape")
    back = ir.node("Reshape", [None, target], name=work.fresh(f"{name}/Reshape"))
    work.graph.insert_after(second.product, back)
    out.replace_all_uses_with(typed(back.outputs[0], tokens), replace_graph_outputs=True)
    back.replace_input_with(0, out)
    back.outputs[0].name, out.name = name, work.fresh(f"{name}_rows")


def _gemm(work: Work, rows: Rows, value: ir.Value) -> ir.Value:
    """The product as a Gemm with the bias, on rows in two dimensions."""
    inputs = [value, rows.product.inputs[1]]
    if rows.bias is not None:
        inputs.append(work.add_constant(rows.bias, f"{rows.last.outputs[0].name}/bias"))
    work.become(rows.product, "Gemm", inputs)
    if rows.last is not rows.product:
        work.take_over(rows.product, rows.last)
    made = rows.product.outputs[0]
    return typed(made, (shape_of(made) or ())[1:])
