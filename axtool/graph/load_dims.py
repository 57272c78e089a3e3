"""Free dimensions of the inputs  ->  numbers: from the user's options, the batch as 1, or an error that names them.

A dimension is free when it has a name, nothing at all, or a negative number. Errors (exit 2): `unknown-input`,
`unknown-dim`, `input-shape`, `free-dims`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.errors import UnsupportedError, UsageError, nearest, plural
from axtool.graph.load_header import Log
from axtool.graph.load_sizes import MAX_BYTES, size_bytes

if TYPE_CHECKING:
    import onnx

_NAMELESS = ("", "?", "-1", "None", "none")

Dim = int | str | None  # a size, a name, or free without a name


@dataclass
class _Symbols:
    """Values of named dimensions, and who gave them."""

    file: str
    values: dict[str, int] = field(default_factory=dict)
    givers: dict[str, str] = field(default_factory=dict)

    def bind(self, name: str, value: int, giver: str) -> None:
        known = self.values.setdefault(name, value)
        if known != value:
            raise UsageError(
                f"dimension '{name}' is {known} by {self.givers[name]} and {value} by {giver}",
                where=self.file,
                hint="give one value",
                code="input-shape",
            )
        self.givers.setdefault(name, giver)


def fix_inputs(
    proto: onnx.ModelProto,
    input_shapes: Mapping[str, Sequence[int]] | None,
    dims: Mapping[str, int] | None,
    log: Log,
) -> dict[str, int]:
    """Write static shapes into the graph inputs; the value each free dimension got, by its name or as "x[2]"."""
    initializers = {tensor.name: tensor for tensor in proto.graph.initializer}
    inputs = [info for info in proto.graph.input if info.name not in initializers]
    for info in proto.graph.input:
        if info.name in initializers:
            _write(info, [int(d) for d in initializers[info.name].dims])
            info.type.tensor_type.elem_type = initializers[info.name].data_type
    _check_types(inputs, log.file)
    shapes = {info.name: _read(info) for info in inputs}
    given = {name: [int(d) for d in shape] for name, shape in (input_shapes or {}).items()}
    _check_names(given, shapes, log.file)
    symbols = _Symbols(log.file)
    _bind_options(dims or {}, shapes, symbols)
    for name, shape in given.items():
        _check_given(name, shape, shapes[name], symbols, log)
    fixed = _batches(shapes, given, symbols, log)
    result, free = _resolve(shapes, given, symbols, fixed)
    if free:
        raise _free_dims(free, shapes, result, log.file)
    for info in inputs:
        shape = [int(d) for d in result[info.name]]  # type: ignore[arg-type]
        size = size_bytes(shape, ir.DataType(info.type.tensor_type.elem_type))
        if size > MAX_BYTES:
            raise UsageError(
                f"input '{info.name}' of shape {shape} has {size:,} bytes, the most is {MAX_BYTES:,}",
                where=log.file,
                hint="give a smaller --input-shape",
                code="input-shape",
            )
        _write(info, shape)
    return fixed | symbols.values


_KINDS = {
    "sequence_type": "a sequence", "map_type": "a map", "optional_type": "an optional value",
    "sparse_tensor_type": "a sparse tensor", "opaque_type": "an opaque value",
}  # fmt: skip


def _check_types(inputs: list[onnx.ValueInfoProto], file: str) -> None:
    odd = [info for info in inputs if info.type.WhichOneof("value") not in ("tensor_type", None)]
    if odd:
        lines = [f"input '{i.name}' is {_KINDS[i.type.WhichOneof('value')]}, not a tensor" for i in odd]
        raise UnsupportedError(
            lines[0], where=file, hint="export the model with tensor inputs", code="input-type", details=lines
        )
    from onnx import TensorProto

    known = set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
    lines = [f"input '{i.name}' has no element type" for i in inputs if i.type.tensor_type.elem_type not in known]
    if lines:
        raise UsageError(lines[0], where=file, hint="export the model again", code="input-type", details=lines)


def _read(info: onnx.ValueInfoProto) -> list[Dim] | None:
    """The shape as declared; None where the model does not even say how many axes there are."""
    if not info.type.tensor_type.HasField("shape"):
        return None
    shape: list[Dim] = []
    for dim in info.type.tensor_type.shape.dim:
        name = dim.dim_param.strip()
        if dim.HasField("dim_value"):
            shape.append(int(dim.dim_value) if dim.dim_value >= 0 else None)
        elif name.isdecimal():
            shape.append(int(name))
        else:
            shape.append(None if name in _NAMELESS else name)
    return shape


def _write(info: onnx.ValueInfoProto, shape: list[int]) -> None:
    proto = info.type.tensor_type.shape
    del proto.dim[:]
    info.type.tensor_type.shape.SetInParent()
    for size in shape:
        proto.dim.add(dim_value=size)


def _check_names(given: dict[str, list[int]], shapes: dict[str, list[Dim] | None], file: str) -> None:
    unknown = [name for name in given if name not in shapes]
    if unknown:
        lines = [f"the model has no input '{name}'" for name in unknown]
        raise UsageError(
            lines[0], where=file, hint=nearest(unknown[0], list(shapes)), code="unknown-input", details=lines
        )


def _bind_options(dims: Mapping[str, int], shapes: dict[str, list[Dim] | None], symbols: _Symbols) -> None:
    names = sorted({d for shape in shapes.values() for d in shape or () if isinstance(d, str)})
    for name, value in dims.items():
        if name not in names:
            hint = nearest(name, names) if names else "the inputs have no named dimensions; use --input-shape"
            raise UsageError(
                f"no input has a dimension named '{name}'", where=symbols.file, hint=hint, code="unknown-dim"
            )
        if int(value) < 1:
            raise UsageError(f"--dim {name}={value}: want a positive number", where=symbols.file, code="input-shape")
        symbols.bind(name, int(value), f"--dim {name}={value}")


def _check_given(name: str, shape: list[int], declared: list[Dim] | None, symbols: _Symbols, log: Log) -> None:
    """A given shape must have the declared rank; named dimensions take their value from it.

    Another size than the declared one is taken with a warning: many exporters freeze the shape of their example, and
    shape inference refuses what the graph really cannot take.
    """
    option = f"--input-shape {name}:{','.join(map(str, shape))}"
    if declared is not None and len(shape) != len(declared):
        raise UsageError(
            f"{option} has {plural(len(shape), 'axis', 'axes')}, the input has {len(declared)}: {_show(declared)}",
            where=symbols.file,
            hint="give one number for each axis",
            code="input-shape",
        )
    for axis, size in enumerate(shape):
        want = declared[axis] if declared is not None else None
        if size < 1 and want != size:
            raise UsageError(
                f"{option}: want positive numbers, axis {axis} is {size}", where=symbols.file, code="input-shape"
            )
        if isinstance(want, str):
            symbols.bind(want, size, option)
    if declared is not None and any(isinstance(d, int) and d != s for d, s in zip(declared, shape, strict=True)):
        log.warnings.append(f"input '{name}' is declared {_show(declared)}; read as {_show(shape)}, as {option} says")


def _batches(
    shapes: dict[str, list[Dim] | None], given: dict[str, list[int]], symbols: _Symbols, log: Log
) -> dict[str, int]:
    """Free first dimensions become 1; the nameless ones are returned as "x[0]"."""
    fixed: dict[str, int] = {}
    for name, shape in shapes.items():
        if not shape or name in given:
            continue
        first = shape[0]
        is_batch = len(shape) > 1 or (isinstance(first, str) and "batch" in first.lower())
        if not is_batch or isinstance(first, int) or first in symbols.values:
            continue
        if first is None:
            fixed[f"{name}[0]"] = 1
        else:
            symbols.bind(first, 1, "the default batch")
        label = f" '{first}'" if first else ""
        log.notes.append(f"input '{name}': batch dimension{label} set to 1")
    return fixed


def _resolve(
    shapes: dict[str, list[Dim] | None], given: dict[str, list[int]], symbols: _Symbols, fixed: dict[str, int]
) -> tuple[dict[str, list[Dim]], dict[str, list[str]]]:
    """(shape of each input as far as known, names of what is still free)."""
    result: dict[str, list[Dim]] = {}
    free: dict[str, list[str]] = {}
    for name, declared in shapes.items():
        if name in given:
            result[name] = list(given[name])
            for axis, size in enumerate(given[name]):
                if declared is None or (declared[axis] != size and not isinstance(declared[axis], str)):
                    fixed[f"{name}[{axis}]"] = size
            continue
        if declared is None:
            result[name], free[name] = [], ["the whole shape"]
            continue
        result[name] = [
            symbols.values.get(d, d) if isinstance(d, str) else fixed.get(f"{name}[{axis}]") if d is None else d
            for axis, d in enumerate(declared)
        ]
        left = [d if isinstance(d, str) else f"axis {a}" for a, d in enumerate(result[name]) if not isinstance(d, int)]
        if left:
            free[name] = left
    return result, free


def _free_dims(
    free: dict[str, list[str]], shapes: dict[str, list[Dim] | None], result: dict[str, list[Dim]], file: str
) -> UsageError:
    lines = [f"input '{name}' {_show(shapes[name])}: {', '.join(left)} not known" for name, left in free.items()]
    options = []
    for name in free:
        sizes = [str(d if isinstance(d, int) else 224 if axis else 1) for axis, d in enumerate(result[name])]
        options.append(f"--input-shape {name}:{','.join(sizes) or '1,3,224,224'}")
    named = sorted({d for name in free for d in result[name] if isinstance(d, str)})
    hint = f"say it with {' '.join(options)} (your numbers)"
    if named:
        hint += f" or {' '.join(f'--dim {name}=224' for name in named)}"
    return UsageError(f"free dimensions: {'; '.join(lines)}", where=file, hint=hint, code="free-dims", details=lines)


def _show(shape: Sequence[Dim] | None) -> str:
    if shape is None:
        return "(no shape)"
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
