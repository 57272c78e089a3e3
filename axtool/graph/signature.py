"""An ONNX model  ->  what goes in and what comes out, and its bytes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.errors import UnsupportedError
from axtool.types import TensorSpec

if TYPE_CHECKING:
    import onnx

_ARRAYS = {
    getattr(ir.DataType, name)
    for name in (
        "FLOAT", "FLOAT16", "DOUBLE", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    )
}  # fmt: skip


def inputs_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The inputs that have no default value, with static shapes."""
    return tuple(_spec(value) for value in model.graph.inputs if not value.is_initializer())


def defaults_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The inputs that have a default value and may be left out."""
    return tuple(_spec(value) for value in model.graph.inputs if value.is_initializer())


def outputs_of(model: ir.Model) -> tuple[TensorSpec, ...]:
    """The outputs; a dimension that is known only when the model runs is 0."""
    return tuple(_spec(value) for value in model.graph.outputs)


def check_ends(model: ir.Model, file: str) -> None:
    """Raise UnsupportedError for inputs and outputs that no array holds: sequences, bfloat16 and narrower, strings out.

    A string that goes in is for the host alone, which takes it.
    """
    ends = [("input", value) for value in model.graph.inputs] + [("output", value) for value in model.graph.outputs]
    lines = [f"{kind} '{value.name}' is {found}" for kind, value in ends if (found := _no_array(kind, value))]
    if lines:
        raise UnsupportedError(
            f"{lines[0]}, want a tensor of a type that NumPy has",
            where=file,
            hint="cast it to float32 in the model, or choose other outputs with --outputs",
            code="element-type",
            details=lines,
        )


def _no_array(kind: str, value: ir.Value) -> str:
    """What the value is where it is no array of numbers, or ""."""
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        return "a sequence" if isinstance(value.type, ir.SequenceType) else "optional"
    if value.dtype is None or value.dtype in _ARRAYS or (value.dtype == ir.DataType.STRING and kind == "input"):
        return ""
    return value.dtype.name.lower()


def to_bytes(model: ir.Model) -> bytes:
    """The serialized ONNX model."""
    return serialized(ir.to_proto(model))


def serialized(proto: onnx.ModelProto) -> bytes:
    """The bytes of a model. Raises UnsupportedError for one that does not fit the 2 GB that a message may have."""
    try:
        return bytes(proto.SerializeToString(deterministic=True))
    except Exception as error:
        if type(error).__name__ != "EncodeError":  # of protobuf, whose classes have no types
            raise
        largest = max(proto.graph.initializer, key=lambda tensor: prod(tensor.dims), default=None)
        name = "" if largest is None else f", its largest tensor is '{largest.name}'"
        raise UnsupportedError(
            f"a part of the model that has to run in one piece takes more than 2 GB{name}",
            hint="split large tensors, or end the model before them with --outputs",
            code="part-too-large",
        ) from error


def _spec(value: ir.Value) -> TensorSpec:
    dims = tuple(value.shape.dims) if value.shape is not None else ()
    shape = tuple(d if isinstance(d, int) else 0 for d in dims)
    dtype = "float32" if value.dtype is None else str(value.dtype.numpy())
    return TensorSpec(value.name or "", shape, dtype)
