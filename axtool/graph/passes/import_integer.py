"""DynamicQuantizeLinear, ConvInteger or MatMulInteger, Cast, Mul by the scales  ->  the float Conv or MatMul.

The activation's scale was computed at run time, so it is left to calibration; the weight's scale is kept as given.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.quant_params import dequantized
from axtool.graph.passes.work import Work, constant, made_by, only_reader, remove_unused


def import_integer(work: Work) -> int:
    count = sum(_import(work, node) for node in work.nodes("ConvInteger", "MatMulInteger"))
    if count:
        remove_unused(work)
    return count


def _import(work: Work, node: ir.Node) -> bool:
    dynamic = made_by(node.inputs[0], "DynamicQuantizeLinear")
    weight = constant(node.inputs[1])
    cast = only_reader(node.outputs[0])
    final = only_reader(cast.outputs[0]) if cast is not None and cast.op_type == "Cast" else None
    if dynamic is None or weight is None or cast is None or final is None or final.op_type != "Mul":
        return False
    zero = constant(node.inputs[3]) if len(node.inputs) > 3 else np.zeros(1, weight.dtype)
    scale = _weight_scale(final, cast.outputs[0], dynamic.outputs[1])
    conv = node.op_type == "ConvInteger"
    axis = 0 if conv else weight.ndim - 1
    if zero is None or scale is None or (scale.size > 1 and scale.size != weight.shape[axis]):
        return False
    stem = node.inputs[1].name if node.inputs[1] is not None else "weight"
    made = work.add_constant(dequantized(weight, scale, zero.astype(np.int64), axis), f"{stem}_dequantized")
    work.quantized[made] = (scale, zero.astype(np.int64), weight.dtype.name, axis)
    attributes = dict(node.attributes)
    work.become(final, "Conv" if conv else "MatMul", [dynamic.inputs[0], made])
    final.attributes.update(attributes)
    return True


def _weight_scale(final: ir.Node, accumulator: ir.Value, dynamic: ir.Value) -> NDArray[np.float32] | None:
    """The weight's scale in accumulator * (dynamic * scale)."""
    others = [value for value in final.inputs if value is not accumulator]
    product = made_by(others[0], "Mul") if len(others) == 1 else None
    if product is None or dynamic not in product.inputs:
        return None
    rest = [constant(value) for value in product.inputs if value is not dynamic]
    return np.ravel(rest[0]).astype(np.float32) if len(rest) == 1 and rest[0] is not None else None
