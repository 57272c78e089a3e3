"""A float model and given formats  ->  the same model that rounds where the file rounded: QDQ pairs put back.

The device takes the formats over and rounds by itself. What runs in onnxruntime and stands for the user's file (the
float path, the check after a pass) needs the pairs, or it would differ from the file by every rounding and saturation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.names import fresh
from axtool.types import QFormat

STORED = {"int8": np.int8, "int16": np.int16}


def restore_qdq(model: ir.Model, given: Mapping[str, QFormat]) -> ir.Model:
    """A copy of `model` with QuantizeLinear and DequantizeLinear behind every tensor that has a given format.

    `model` itself is returned where nothing is to be put back.
    """
    if not any(_rounds(value, given, model) for value in _values(model)):
        return model
    copy = model.clone()
    taken = {value.name for graph in copy.graphs() for value in _all(graph)}
    for value in [value for value in _values(copy) if _rounds(value, given, copy)]:
        assert value.name is not None
        _round(copy.graph, value, given[value.name], taken)
    return copy


def _values(model: ir.Model) -> list[ir.Value]:
    """What a format may be given to: inputs and node outputs."""
    graph = model.graph
    return [*graph.inputs, *(value for node in graph for value in node.outputs)]


def _all(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


def _rounds(value: ir.Value, given: Mapping[str, QFormat], model: ir.Model) -> bool:
    fmt, maker = given.get(value.name or ""), value.producer()
    if fmt is None or fmt.kind not in STORED or len(fmt.scale) != 1 or value.dtype != ir.DataType.FLOAT:
        return False
    if fmt.kind == "int16" and model.opset_imports.get("", 0) < 21:
        return False  # QuantizeLinear has no int16 before
    return (maker is None or maker.op_type != "DequantizeLinear") and bool(value.uses() or value.is_graph_output())


def _round(graph: ir.Graph, value: ir.Value, fmt: QFormat, taken: set[str | None]) -> None:
    name, maker = value.name, value.producer()
    assert name is not None
    scale = _constant(graph, np.array(fmt.scale[0], np.float32), fresh(f"{name}_scale", taken))
    zero = _constant(graph, np.array(fmt.zero_point[0], STORED[fmt.kind]), fresh(f"{name}_zero_point", taken))
    quantize = ir.node("QuantizeLinear", [value, scale, zero], name=fresh(f"{name}/quantize", taken))
    restore = ir.node("DequantizeLinear", [quantize.outputs[0], scale, zero], name=fresh(f"{name}/dequantize", taken))
    stored, rounded = quantize.outputs[0], restore.outputs[0]
    stored.name, rounded.name = fresh(f"{name}_stored", taken), fresh(f"{name}_rounded", taken)
    stored.shape = rounded.shape = value.shape
    stored.type, rounded.type = ir.TensorType(zero.dtype or ir.DataType.INT8), ir.TensorType(ir.DataType.FLOAT)
    for user, index in list(value.uses()):
        if user is not quantize:
            user.replace_input_with(index, rounded)
    if maker is not None:
        graph.insert_after(maker, [quantize, restore])
        for index, output in enumerate(list(graph.outputs)):
            if output is value:
                graph.outputs[index] = rounded
        value.name, rounded.name = rounded.name, name  # what others know by the name is what is rounded
    elif len(graph):
        graph.insert_before(graph[0], [quantize, restore])


def _constant(graph: ir.Graph, array: NDArray[Any], name: str) -> ir.Value:
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value
