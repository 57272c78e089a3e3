"""Shapes and types of every value, from those of the inputs: onnx's inference over the graph without its weights.

Weights are shown to it by type and shape alone, so the size of the model does not matter; small constants keep their
values, since Reshape and its kin read them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.graph.load_windows import correct_windows

if TYPE_CHECKING:
    import onnx

_SMALL_BYTES = 4096
_LINE = re.compile(r"\(op_type:\s*([^,]*), node name: (.*?)\):\s*(.*)")
_TAG = re.compile(r"^(\[\w+\]\s*)+")


@dataclass(frozen=True, slots=True)
class InferenceFault:
    """A node whose inputs contradict each other, in onnx's words."""

    op: str
    node: str
    message: str

    def __str__(self) -> str:
        return f"{self.op} '{self.node}': {self.message}"


def infer_shapes(model: ir.Model) -> ir.Model:
    """The same model, with the shape and type of every value inferred anew.

    Old annotations of intermediate values do not count. Where inference gives less than there was (an op it does not
    know), the old shape stays as long as it does not contradict. Never raises for a graph that does not fit together:
    `infer` returns those faults.
    """
    infer(model, skeleton(model))
    return model


def infer(model: ir.Model, proto: onnx.ModelProto) -> tuple[InferenceFault, ...]:
    """`infer_shapes` with the model's `skeleton` at hand, returning the nodes that do not fit together.

    The rest is then inferred as far as it goes. Sizes are those that onnxruntime makes: `proto` is changed where onnx
    counts otherwise (`load_windows`).
    """
    faults = _infer(model, proto)
    while correct_windows(model, proto):
        faults = _infer(model, proto)
    return faults


def _infer(model: ir.Model, proto: onnx.ModelProto) -> tuple[InferenceFault, ...]:
    from onnx import shape_inference

    try:
        result = shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # InferenceError, and whatever else the C++ throws at odd graphs
        faults = _faults(error)
        try:
            result = shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
        except Exception as again:
            return faults or _faults(again)
    else:
        faults = ()
    _apply(model, result)
    return faults


def skeleton(model: ir.Model) -> onnx.ModelProto:
    """The model as a proto without big weights (they are inputs of it) and without shapes of intermediate values."""
    import onnx

    proto = onnx.ModelProto(ir_version=max(8, model.ir_version))
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    graph = proto.graph
    graph.name = model.graph.name or "graph"
    inputs = {value.name for value in model.graph.inputs}
    for value in model.graph.inputs:
        graph.input.append(ir.serde.serialize_value(value))
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= _SMALL_BYTES:
            graph.initializer.append(ir.serde.serialize_tensor(tensor))
            graph.initializer[-1].name = name
        elif name not in inputs:
            info = graph.input.add(name=name)
            info.type.tensor_type.elem_type = int(tensor.dtype)
            info.type.tensor_type.shape.SetInParent()
            for size in tensor.shape.numpy():
                info.type.tensor_type.shape.dim.add(dim_value=int(size))
    for node in model.graph:
        graph.node.append(ir.serde.serialize_node(node))
        for subgraph in _subgraphs(graph.node[-1]):
            _forget(subgraph)
    for value in model.graph.outputs:
        if value.producer() is None:
            graph.output.append(ir.serde.serialize_value(value))
        else:
            graph.output.add(name=value.name)
    for function in model.functions.values():
        proto.functions.append(ir.serde.serialize_function(function))
    return proto


def _subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    return graphs + [g for a in node.attribute for g in a.graphs]


def _forget(graph: onnx.GraphProto) -> None:
    """Drop what the subgraph says of its values; the element type of its outputs may be all that is known of them."""
    del graph.value_info[:]
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for subgraph in _subgraphs(node):
            _forget(subgraph)


def _apply(model: ir.Model, result: onnx.ModelProto) -> None:
    known = {info.name: info for info in (*result.graph.value_info, *result.graph.output)}
    for node in model.graph:
        for value in node.outputs:
            info = known.get(value.name or "")
            if info is None or info.type.WhichOneof("value") is None:
                continue
            kind = ir.serde.deserialize_type_proto_for_type(info.type)
            if kind is not None and kind.dtype != ir.DataType.UNDEFINED:
                value.type = kind
            value.shape = merged(value.shape, ir.serde.deserialize_type_proto_for_shape(info.type))


def merged(old: ir.Shape | None, new: ir.Shape | None) -> ir.Shape | None:
    """The new shape; the old one where the new leaves dimensions open that the old one has, without contradiction."""
    if new is None:
        return old
    if old is None or len(old) != len(new) or new.is_static():
        return new
    pairs = list(zip(old, new, strict=True))
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        return new
    return ir.Shape([b if isinstance(b, int) else a if isinstance(a, int) else b for a, b in pairs])


def _faults(error: Exception) -> tuple[InferenceFault, ...]:
    text = str(error).replace("Inference error(s):", "\n")
    faults = []
    for line in text.splitlines():
        match = _LINE.search(line)
        if match:
            op, node, message = match.groups()
            faults.append(InferenceFault(op.strip(), node, _TAG.sub("", message).strip()))
    if faults:
        return tuple(faults)
    first = next((line.strip() for line in text.splitlines() if _TAG.sub("", line).strip()), type(error).__name__)
    return (InferenceFault("graph", "", _TAG.sub("", first)[:300]),)
