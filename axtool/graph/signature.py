"""An ONNX model  ->  what goes in and what comes out, and its bytes."""

from __future__ import annotations

import onnx_ir as ir

from axtool.types import TensorSpec


def inputs_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The inputs that have no default value, with static shapes."""
    return tuple(_spec(value) for value in model.graph.inputs if not value.is_initializer())


def defaults_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The inputs that have a default value and may be left out."""
    return tuple(_spec(value) for value in model.graph.inputs if value.is_initializer())


def outputs_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The outputs; a dimension that is known only when the model runs is 0."""
    return tuple(_spec(value) for value in model.graph.outputs)


def to_bytes(model: ir.Model) -> bytes:
    """The serialized ONNX model."""
    return bytes(ir.to_proto(model).SerializeToString(deterministic=True))


def _spec(value: ir.Value) -> TensorSpec:
    dims = tuple(value.shape.dims) if value.shape is not None else ()
    shape = tuple(d if isinstance(d, int) else 0 for d in dims)
    dtype = "float32" if value.dtype is None else str(value.dtype.numpy())
    return TensorSpec(value.name or "", shape, dtype)
