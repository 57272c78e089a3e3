"""float16 and bfloat16 inside the model  ->  float32; inputs and outputs keep their type, with a Cast beside each.

Ranges, scales and weights are then computed in float32: fp16 underflows where scales are small.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, values_of

NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
TYPE_ATTRS = ("to", "dtype", "output_dtype", "stash_type")


def widen_floats(work: Work) -> int:
    """Returns how many values changed type."""
    values = [value for graph in work.model.graphs() for value in values_of(graph)]
    narrow = [value for value in values if value.dtype in NARROW]
    kept = {value: value.dtype for value in (*work.graph.inputs, *work.graph.outputs) if value.dtype in NARROW}
    for value in narrow:
        _widen(value)
    count = len(narrow) + sum(_widen_attributes(node) for node in work.model.graph.all_nodes())
    for value, dtype in kept.items():
        if value.is_graph_input() and dtype is not None:
            _cast_input(work, value, dtype)
    for index, value in enumerate(list(work.graph.outputs)):
        if value in kept and not value.is_graph_input():
            _cast_output(work, index, value, kept[value])
    return count


def _widen(value: ir.Value) -> None:
    value.dtype = ir.DataType.FLOAT
    if value.const_value is not None:
        value.const_value = ir.tensor(value.const_value.numpy().astype(np.float32), name=value.name)


def _widen_attributes(node: ir.Node) -> int:
    """Types and tensors that attributes name: Cast's target, ConstantOfShape's value, Constant's tensor."""
    count = 0
    for name, attr in list(node.attributes.items()):
        if name in TYPE_ATTRS and attr.type == ir.AttributeType.INT and attr.value in NARROW:
            node.attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT))
        elif attr.type == ir.AttributeType.TENSOR and attr.as_tensor().dtype in NARROW:
            wide = ir.tensor(attr.as_tensor().numpy().astype(np.float32))
            node.attributes[name] = ir.AttrTensor(name, wide)
        else:
            continue
        count += 1
    return count


def _cast_input(work: Work, value: ir.Value, dtype: ir.DataType) -> None:
    value.dtype = dtype
    readers = list(value.uses())
    if not readers:
        return
    cast = ir.node("Cast", [value], attributes={"to": int(ir.DataType.FLOAT)}, name=work.fresh(f"{value.name}/widen"))
    wide = cast.outputs[0]
    wide.name, wide.shape = work.fresh(f"{value.name}_float32"), value.shape
    wide.type = ir.TensorType(ir.DataType.FLOAT)
    work.graph.insert_before(work.graph[0], cast)
    for node, index in readers:
        node.replace_input_with(index, wide)


def _cast_output(work: Work, index: int, value: ir.Value, dtype: ir.DataType | None) -> None:
    assert dtype is not None
    name = value.name
    value.name = work.fresh(f"{name}_float32")
    cast = ir.node("Cast", [value], attributes={"to": int(dtype)}, name=work.fresh(f"{name}/narrow"))
    narrow = cast.outputs[0]
    narrow.name, narrow.shape, narrow.type = name, value.shape, ir.TensorType(dtype)
    work.graph.append(cast)
    work.graph.outputs[index] = narrow
