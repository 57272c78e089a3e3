"""Gemm of an attention's context  ->  MatMul and Add on tokens: the form of every other projection.

Exporters of sequence-first attention flatten the context to rows for the output projection and write it as a Gemm. As
MatMul and Add it reads the tokens as they are, and no longer needs the Reshapes around it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.functions import DOMAIN
from axtool.graph.passes.reshaping import set_target, typed
from axtool.graph.passes.work import Work, constant, made_by, only_reader, per_channel, shape_of


def unfuse_gemm(work: Work) -> int:
    return sum(_unfuse(work, node) for node in work.nodes("Gemm"))


def _unfuse(work: Work, node: ir.Node) -> bool:
    rows = node.inputs[0]
    flat = made_by(rows, "Reshape")
    tokens = flat.inputs[0] if flat is not None else None
    weight, attrs = constant(node.inputs[1]), work.attrs(node)
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if made_by(tokens, "Attention", domain=DOMAIN) is None or weight is None or attrs.get("transA"):
        return False
    if tokens is None or rows is None or shape_of(rows) != (shape_of(tokens) or ())[1:]:
        return False
    if attrs["alpha"] != 1.0 or attrs["beta"] != 1.0 or any(value in work.given for value in (rows, node.outputs[0])):
        return False
    weight = np.ascontiguousarray(weight.T) if attrs["transB"] else weight
    vector = None if bias is None else per_channel(bias, 2, weight.shape[1])
    if bias is not None and vector is None:
        return False
    _write(work, node, tokens, weight, vector)
    return True


def _write(
    work: Work, node: ir.Node, tokens: ir.Value, weight: NDArray[np.float32], bias: NDArray[np.float32] | None
) -> None:
    out, rows = node.outputs[0], shape_of(tokens)
    assert rows is not None
    shape = (*rows[:2], weight.shape[1])
    stem = node.inputs[1].name if node.inputs[1] is not None else "weight"
    made = work.insert(node, "MatMul", [tokens, work.add_constant(weight, f"{stem}_rows")], f"{out.name}/product")
    value = typed(made.outputs[0], shape)
    if bias is not None:
        added = work.add_constant(bias.astype(np.float32), f"{out.name}/bias")
        value = typed(work.insert(node, "Add", [value, added], f"{out.name}/tokens").outputs[0], shape)
    reader = only_reader(out)
    if reader is not None and reader.op_type == "Reshape" and reader.domain == "":
        reader.replace_input_with(0, value)  # it reads the same numbers in the same order
        set_target(work, reader)
        work.graph.remove(node, safe=True)
    else:
        work.become(node, "Reshape", [value])
        set_target(work, node)
