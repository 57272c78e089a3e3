"""onnx_ir.Model  ->  one frozen `Site` a node of its main graph: what limits, quantization and lowering look at."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.site_attrs import Facts, canonical
from axtool.types import Site

# Attributes that hold what no site needs: subgraphs, types, sparse data.
_SKIPPED = (
    ir.AttributeType.GRAPH,
    ir.AttributeType.GRAPHS,
    ir.AttributeType.TYPE_PROTO,
    ir.AttributeType.TYPE_PROTOS,
    ir.AttributeType.SPARSE_TENSOR,
    ir.AttributeType.SPARSE_TENSORS,
)


def sites_of(model: ir.Model) -> tuple[Site, ...]:
    """The sites of the main graph, in its order; `Site.index` is the position of the node in that order.

    `shapes` and `dtypes` hold what is static; a value whose shape is only known at run time has no entry. `constants`
    holds initializers and Constant outputs, but no initializer that the caller may override (one that is also a graph
    input): see `axtool.graph.load.freeze_overridable`.
    """
    opset = model.opset_imports.get("", 0)
    overridable = {value.name for value in model.graph.inputs}
    known: dict[str, NDArray[Any]] = {}
    return tuple(_site(node, index, opset, overridable, known) for index, node in enumerate(model.graph))


def site_of(model: ir.Model, node: ir.Node, index: int) -> Site:
    """The site of one node, which is number `index` of its graph."""
    return _site(node, index, model.opset_imports.get("", 0), {value.name for value in model.graph.inputs}, {})


def _site(node: ir.Node, index: int, opset: int, overridable: set[str | None], known: dict[str, NDArray[Any]]) -> Site:
    inputs = tuple((value.name or "") if value is not None else "" for value in node.inputs)
    outputs = tuple(value.name or "" for value in node.outputs)
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    constants: dict[str, NDArray[Any]] = {}
    for value in (*node.inputs, *node.outputs):
        if value is None or not value.name:
            continue
        _describe(value, shapes, dtypes)
    for value in node.inputs:
        if value is not None and value.name and value.name not in overridable:
            array = constant_of(value, known)
            if array is not None:
                constants[value.name] = array
                shapes.setdefault(value.name, tuple(int(d) for d in array.shape))
                dtypes.setdefault(value.name, array.dtype.name)
    raw = _raw_attrs(node)
    facts = Facts(node.op_type, opset, raw, inputs, outputs, shapes, constants)
    return Site(
        op=node.op_type,
        name=node.name or outputs[0] if outputs else node.name or "",
        index=index,
        inputs=inputs,
        outputs=outputs,
        attrs=canonical(facts),
        shapes=shapes,
        dtypes=dtypes,
        constants=constants,
        domain=node.domain,
        raw=raw,
        makers={value.name: _maker(value) for value in node.inputs if value is not None and value.name},
        readers={value.name: _readers(value) for value in node.outputs if value.name},
    )


def _maker(value: ir.Value) -> str:
    producer = value.producer()
    return producer.op_type if producer is not None else ""


def _readers(value: ir.Value) -> tuple[str, ...]:
    """The ops that read a value, and "" where it is an output of the model."""
    return (*(use.node.op_type for use in value.uses()), *([""] if value.is_graph_output() else []))


def constant_of(value: ir.Value, known: dict[str, NDArray[Any]] | None = None) -> NDArray[Any] | None:
    """The array of an initializer or of a Constant node's output, or None. `known` remembers arrays by name."""
    if known is not None and value.name in known:
        return known[value.name]
    tensor = value.const_value if value.is_initializer() else None
    if tensor is None and value.const_value is None:
        tensor = ir.convenience.get_const_tensor(value)
    if tensor is None:
        return None
    array = tensor.numpy()
    if known is not None and value.name:
        known[value.name] = array
    return array


def dtype_name(dtype: ir.DataType | None) -> str:
    """NumPy's name of an element type ("float32", "int64", "bfloat16"), "string", or "" when unknown."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return ""
    if dtype == ir.DataType.STRING:
        return "string"
    return np.dtype(dtype.numpy()).name


def _describe(value: ir.Value, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str]) -> None:
    assert value.name is not None
    if value.shape is not None and value.shape.is_static():
        shapes[value.name] = tuple(int(d) for d in value.shape.numpy())
    if value.dtype is not None:
        dtypes[value.name] = dtype_name(value.dtype)


def _raw_attrs(node: ir.Node) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name, attr in node.attributes.items():
        if attr.is_ref() or attr.type in _SKIPPED:
            continue
        value = attr.value
        if attr.type == ir.AttributeType.TENSOR:
            value = value.numpy()
        elif attr.type == ir.AttributeType.TENSORS:
            value = tuple(tensor.numpy() for tensor in value)
        elif isinstance(value, list | tuple):
            value = tuple(value)
        elif attr.type == ir.AttributeType.INT:
            value = int(value)
        raw[name] = value
    return raw
