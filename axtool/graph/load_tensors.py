"""The tensors of a ModelProto: each holds exactly the bytes its shape and type need, inside the file or beside it.

Nothing is allocated from a claimed shape: sizes are compared as Python integers first, so a shape of 2^60 elements is
a message and not a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from axtool.errors import UnsupportedError, UsageError
from axtool.graph.external import Extent, locate, map_bytes
from axtool.graph.load_header import Place, places, subgraphs

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class WeightFault:
    """An initializer with numbers that cannot be quantized, and the first node that reads it."""

    initializer: str
    node: str
    index: int
    nan: int
    inf: int
    size: int

    def __str__(self) -> str:
        counts = f"{self.nan} NaN, {self.inf} Inf of {self.size}"
        return f"{self.initializer}: {counts} (read by {self.node}, node {self.index})"


def check_tensors(proto: onnx.ModelProto, folder: Path, file: str) -> tuple[Extent, ...]:
    """Extents of the external initializers. Raises for every tensor whose bytes are not what its shape says.

    External tensors elsewhere (in attributes, in subgraphs) are small: they are read into the proto.
    """
    faults: list[str] = []
    outside: list[tuple[onnx.TensorProto, int, str]] = []
    sparse = [t.values.name for graph in _graphs(proto) for t in graph.sparse_initializer]
    if sparse:
        raise UnsupportedError(
            f"sparse initializers: {', '.join(sparse)}",
            where=file,
            hint="store them as dense tensors",
            code="sparse-initializer",
            details=sparse,
        )
    for tensor, where in _tensors(proto):
        fault, needed = _fault(tensor)
        if fault:
            faults.append(f"{where} '{tensor.name}': {fault}")
        elif tensor.data_location == tensor.EXTERNAL:
            outside.append((tensor, needed, where))
    if faults:
        raise UsageError(
            faults[0],
            where=file,
            hint="the file was edited or cut: export it again",
            code="initializer-size",
            details=faults,
        )
    extents = locate(((tensor, needed) for tensor, needed, _ in outside), folder, file)
    kept = []
    for (tensor, _, where), extent in zip(outside, extents, strict=True):
        if where == _MAIN:
            kept.append(extent)
        else:
            tensor.raw_data = map_bytes(extent).tobytes()
            tensor.data_location = tensor.DEFAULT
            del tensor.external_data[:]
    return tuple(kept)


def map_external(model: ir.Model, extents: tuple[Extent, ...]) -> None:
    """Give the external initializers their numbers, as memory-mapped arrays."""
    import onnx_ir as ir

    for extent in extents:
        value = model.graph.initializers[extent.tensor]
        old = value.const_value
        assert old is not None
        shape = tuple(int(d) for d in old.shape.numpy())
        value.const_value = ir.Tensor(_array(map_bytes(extent), old.dtype, shape), dtype=old.dtype, name=extent.tensor)


def settle_initializers(model: ir.Model) -> None:
    """Give each initializer the type and shape of its tensor, and its numbers once, as a read-only array.

    A tensor that stays in its proto copies its bytes each time it is asked for its numbers, and keeps the whole file in
    memory.
    """
    import onnx_ir as ir

    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        value.type = ir.TensorType(tensor.dtype)
        value.shape = ir.Shape(tensor.shape.numpy())
        if tensor.dtype != ir.DataType.STRING and tensor.dtype.numpy().kind in "fiub":
            array = tensor.numpy()
            array.flags.writeable = False
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=name)


def weight_faults(model: ir.Model) -> tuple[WeightFault, ...]:
    """Initializers and constants that hold NaN or Inf."""
    import onnx_ir as ir

    floats = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)
    index = {node: at for at, node in enumerate(model.graph)}
    constants = [node.outputs[0] for node in model.graph if node.op_type == "Constant" and node.domain == ""]
    faults = []
    for value in (*model.graph.initializers.values(), *constants):
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is None or tensor.dtype not in floats:
            continue
        array = tensor.numpy()
        nan, inf = _not_finite(array)
        if not nan and not inf:
            continue
        reader = next((node for node in value.consumers()), None)
        label = f"{reader.op_type} '{reader.name}'" if reader is not None else "no node"
        at = index.get(reader, -1) if reader is not None else -1
        faults.append(WeightFault(value.name or "", label, at, nan, inf, array.size))
    return tuple(faults)


def _not_finite(array: NDArray[Any]) -> tuple[int, int]:
    """(count of NaN, count of Inf), in pieces: a mapped array may be larger than the memory."""
    flat, nan, inf = array.reshape(-1), 0, 0
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        if not np.isfinite(piece).all():
            nan, inf = nan + int(np.isnan(piece).sum()), inf + int(np.isinf(piece).sum())
    return nan, inf


def _array(data: NDArray[np.uint8], dtype: ir.DataType, shape: tuple[int, ...]) -> NDArray[Any]:
    if dtype.bitwidth >= 8:
        return data.view(dtype.numpy()).reshape(shape)
    import onnx_ir as ir
    from onnx import TensorProto

    packed = TensorProto(data_type=int(dtype), dims=shape, raw_data=data.tobytes())
    return np.asarray(ir.from_proto(packed).numpy())


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield proto.graph
    for place in places(proto.graph):
        yield from subgraphs(place.node)


def _tensors(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, str]]:
    """Every dense tensor, and what to call it: "initializer" is one of the main graph."""
    for tensor in proto.graph.initializer:
        yield tensor, _MAIN
    yield from _node_tensors(places(proto.graph))
    for function in proto.functions:
        inside = f"function {function.name}"
        for index, node in enumerate(function.node):
            yield from _node_tensors(iter((Place(node, index, inside),)))
            for subgraph in subgraphs(node):
                for tensor in subgraph.initializer:
                    yield tensor, f"{inside} initializer"
                yield from _node_tensors(places(subgraph, inside))


def _node_tensors(nodes: Iterator[Place]) -> Iterator[tuple[onnx.TensorProto, str]]:
    for place in nodes:
        for attribute in place.node.attribute:
            if attribute.HasField("t"):
                yield attribute.t, f"{place} attribute {attribute.name}"
            for tensor in attribute.tensors:
                yield tensor, f"{place} attribute {attribute.name}"
        for subgraph in subgraphs(place.node):
            for tensor in subgraph.initializer:
                yield tensor, f"{place} initializer"


_PIECE = 1 << 20  # elements: a few MB, so that the pieces stay in the cache
_MAIN = "initializer"
# TensorProto field -> the element types it may hold, as onnx.proto has it.
_FIELDS: Mapping[str, tuple[int, ...]] = {
    "float_data": (1, 14),
    "int32_data": (2, 3, 4, 5, 6, 9, 10, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28),
    "int64_data": (7,),
    "double_data": (11, 15),
    "uint64_data": (12, 13),
    "string_data": (8,),
}
_COMPLEX = (14, 15)
_SIX_BITS = (27, 28)  # stored one a byte


def _fault(tensor: onnx.TensorProto) -> tuple[str, int]:
    """(what is wrong, or ""; the bytes that the shape needs)."""
    import onnx_ir as ir

    dims = list(tensor.dims)
    if any(d < 0 for d in dims):
        return f"negative dimension in its shape {dims}", 0
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:
        return f"unknown element type {tensor.data_type}", 0
    field = next((name for name, types in _FIELDS.items() if tensor.data_type in types), "")
    if not field:
        return f"element type {dtype.name} cannot hold data", 0
    if tensor.HasField("segment"):
        return "it is stored in segments", 0
    size = 1
    for d in dims:
        size *= d
    if dtype == ir.DataType.STRING:
        found = len(tensor.string_data)
        wrong = found != size or tensor.data_location == tensor.EXTERNAL
        return (f"its shape {dims} needs {size} strings, found {found}" if wrong else ""), 0
    width = 8 if tensor.data_type in _SIX_BITS else dtype.bitwidth
    needed = -(-size * width // 8)
    if tensor.data_location == tensor.EXTERNAL:
        return "", needed
    if tensor.HasField("raw_data"):
        found = len(tensor.raw_data)
        wrong = found != needed
        return (f"its shape {dims} of {dtype.name} needs {needed} bytes, found {found}" if wrong else ""), needed
    found = len(getattr(tensor, field))
    entries = size * 2 if tensor.data_type in _COMPLEX else -(-size * min(8, width) // 8)
    if found != entries:
        return f"its shape {dims} of {dtype.name} needs {needed} bytes, found {found} of {entries} entries", needed
    return "", needed
