"""QLinearConv, QLinearMatMul, QLinearAdd, QGemm, ...  ->  DequantizeLinear, the float op, QuantizeLinear.

Weights are dequantized at once, with their scales kept as the given format; opset 10 has no DequantizeLinear with one
scale a channel. A bias is int32 in steps of x_scale * w_scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.quant_params import dequantized
from axtool.graph.passes.work import Work, constant


@dataclass(frozen=True)
class Form:
    """Where a quantized op has its parts: each data input is followed by its scale and zero point."""

    op: str
    data: tuple[int, ...]
    out: int  # position of the output's scale
    weight_axis: int | None = None  # axis of the second data input that may have several scales
    bias: int | None = None
    dropped: tuple[str, ...] = ()  # attributes that the float op lacks


FORMS: Mapping[tuple[str, str], Form] = {
    ("", "QLinearConv"): Form("Conv", (0, 3), 6, weight_axis=0, bias=8),
    ("", "QLinearMatMul"): Form("MatMul", (0, 3), 6, weight_axis=-1),
    ("com.microsoft", "QLinearAdd"): Form("Add", (0, 3), 6),
    ("com.microsoft", "QLinearMul"): Form("Mul", (0, 3), 6),
    ("com.microsoft", "QLinearAveragePool"): Form("AveragePool", (0,), 3, dropped=("channels_last",)),
    ("com.microsoft", "QLinearGlobalAveragePool"): Form("GlobalAveragePool", (0,), 3, dropped=("channels_last",)),
    ("com.microsoft", "QLinearLeakyRelu"): Form("LeakyRelu", (0,), 3),
    ("com.microsoft", "QLinearSigmoid"): Form("Sigmoid", (0,), 3),
    ("com.microsoft", "QLinearSoftmax"): Form("Softmax", (0,), 3, dropped=("opset",)),
    ("com.microsoft", "QGemm"): Form("Gemm", (0, 3), 7, weight_axis=1, bias=6),
}
# The ops of onnxruntime's own domain that the passes make standard ones of.
CONTRIBUTED = frozenset(op for domain, op in FORMS if domain) | {
    "QLinearConcat", "QuantizeLinear", "DequantizeLinear", "MatMulNBits",
}  # fmt: skip


def import_qoperator(work: Work) -> int:
    count = 0
    for node in tuple(work.graph):
        form = FORMS.get((node.domain, node.op_type))
        last = node.attributes.get("channels_last")
        if form is not None and not (last is not None and last.as_int()):
            count += _import(work, node, form)
        elif (node.domain, node.op_type) == ("com.microsoft", "QLinearConcat"):
            count += _import_concat(work, node)
    return count


def _import(work: Work, node: ir.Node, form: Form) -> bool:
    inputs = list(node.inputs)
    transposed = node.attributes.get("transB")
    axis = 0 if form.op == "Gemm" and transposed is not None and transposed.as_int() else form.weight_axis
    floats = []
    for at in form.data:
        value = _dequantize(work, node, inputs[at], inputs[at + 1], inputs[at + 2], axis if at == 3 else None)
        if value is None:
            return False
        floats.append(value)
    if form.bias is not None and len(inputs) > form.bias and inputs[form.bias] is not None:
        bias = _bias(work, inputs[form.bias], inputs[1], inputs[4])
        if bias is None:
            return False
        floats.append(bias)
    kept = {name: attr for name, attr in node.attributes.items() if name not in form.dropped}
    _finish(work, node, form.op, floats, kept, inputs[form.out : form.out + 2])
    return True


def _import_concat(work: Work, node: ir.Node) -> bool:
    """Output scale and zero point come first, then three inputs a part."""
    inputs = list(node.inputs)
    parts = [
        _dequantize(work, node, inputs[at], inputs[at + 1], inputs[at + 2], None) for at in range(2, len(inputs) - 2, 3)
    ]
    floats = [part for part in parts if part is not None]
    if len(floats) != len(parts):
        return False
    _finish(work, node, "Concat", floats, dict(node.attributes), inputs[:2])
    return True


def _finish(
    work: Work,
    node: ir.Node,
    op: str,
    inputs: list[ir.Value],
    attributes: Mapping[str, ir.Attr],
    params: list[ir.Value | None],
) -> None:
    """The float op before `node`, which becomes the QuantizeLinear of its result (or is the op, if that is float)."""
    stored = node.outputs[0]
    if not params or params[0] is None:  # QGemm without an output scale makes float32
        work.become(node, op, inputs)
        node.attributes.update(attributes)
        return
    made = work.insert(node, op, inputs, f"{stored.name}_float")
    made.attributes.update(attributes)
    made.name, node.name = node.name or made.name, work.fresh(f"{stored.name}/quantize")
    made.outputs[0].shape, made.outputs[0].type = stored.shape, ir.TensorType(ir.DataType.FLOAT)
    work.become(node, "QuantizeLinear", [made.outputs[0], *params])


def _dequantize(
    work: Work, node: ir.Node, value: ir.Value | None, scale: ir.Value | None, zero: ir.Value | None, axis: int | None
) -> ir.Value | None:
    """The float value of a quantized input: a new constant, or a DequantizeLinear before the node."""
    steps = constant(scale)
    if value is None or steps is None:
        return None
    array, offset = constant(value), np.zeros(1, np.int64) if zero is None else constant(zero)
    if array is not None and offset is not None and (steps.size == 1 or axis is not None):
        at = (axis or 0) % max(1, array.ndim)
        made = work.add_constant(dequantized(array, steps, offset.astype(np.int64), at), f"{value.name}_dequantized")
        work.quantized[made] = (steps, offset.astype(np.int64), array.dtype.name, at)
        return made
    if steps.size != 1:
        return None
    out = work.insert(node, "DequantizeLinear", [value, scale, zero], f"{value.name}_dequantized").outputs[0]
    out.shape, out.type = value.shape, ir.TensorType(ir.DataType.FLOAT)
    return out


def _bias(work: Work, value: ir.Value | None, x_scale: ir.Value | None, w_scale: ir.Value | None) -> ir.Value | None:
    array, x_steps, w_steps = constant(value), constant(x_scale), constant(w_scale)
    if array is None or x_steps is None or w_steps is None or value is None:
        return None
    steps: Any = np.ravel(x_steps)[0] * np.ravel(w_steps)
    return work.add_constant((array.astype(np.float64) * steps).astype(np.float32), f"{value.name}_dequantized")
