"""Nodes that mix element types: refused with both types (exit 2, `mixed-types`), or mended with Casts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import onnx_ir as ir

from axtool.errors import UsageError
from axtool.graph.load_header import Log
from axtool.graph.names import fresh
from axtool.graph.sites import dtype_name

_FLOATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)  # narrow to wide


@dataclass(frozen=True, slots=True)
class Mixed:
    """Inputs of one node that must have one type and have several."""

    node: ir.Node
    index: int
    positions: tuple[int, ...]
    dtypes: tuple[ir.DataType, ...]

    @property
    def floats(self) -> bool:
        """True if a Cast can mend it."""
        return all(dtype in _FLOATS for dtype in self.dtypes)

    def __str__(self) -> str:
        parts = [
            f"'{self.node.inputs[at].name}' is {dtype_name(dtype)}"  # type: ignore[union-attr]
            for at, dtype in zip(self.positions, self.dtypes, strict=True)
        ]
        return f"{self.node.op_type} '{self.node.name}' (node {self.index}): {' and '.join(parts)}, want one type"


def check_types(model: ir.Model, log: Log, fix_fp16: bool) -> bool:
    """True if Casts were put in. Raises for nodes that mix element types, unless `fix_fp16` can mend them all."""
    mixed = tuple(_mixed(model))
    if not mixed:
        return False
    beyond = [m for m in mixed if not m.floats]
    if beyond or not fix_fp16:
        lines = [str(m) for m in (beyond if fix_fp16 else mixed)]
        hint = "convert the model in one go, or let --fix-fp16 insert a Cast" if not beyond else "insert a Cast"
        raise UsageError(lines[0], where=log.file, hint=hint, code="mixed-types", details=lines)
    _insert_casts(model, log)
    return True


def _mixed(model: ir.Model) -> Iterator[Mixed]:
    opset = model.opset_imports.get("", 0)
    for index, node in enumerate(model.graph):
        if node.domain == "":
            yield from _mixed_of(node, index, opset)


def _mixed_of(node: ir.Node, index: int, opset: int) -> Iterator[Mixed]:
    groups: dict[str, list[int]] = defaultdict(list)
    for at, value in enumerate(node.inputs):
        kind = _kind(_input_kinds(node.op_type, opset), at)
        if value is not None and kind and value.dtype not in (None, ir.DataType.UNDEFINED):
            groups[kind].append(at)
    for positions in groups.values():
        dtypes = [node.inputs[at].dtype for at in positions]  # type: ignore[union-attr]
        first = {dtype: positions[dtypes.index(dtype)] for dtype in dtypes}
        if len(first) > 1:
            yield Mixed(node, index, tuple(first.values()), tuple(d for d in first if d is not None))


@cache
def _input_kinds(op: str, opset: int) -> tuple[str, ...]:
    """The type variable of each input ("" where any type goes), a last "…" when the last one repeats."""
    from onnx import defs

    try:
        schema = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return ()
    return _kinds(list(schema.inputs), {c.type_param_str for c in schema.type_constraints})


@cache
def _output_kinds(op: str, opset: int) -> tuple[str, ...]:
    from onnx import defs

    schema = defs.get_schema(op, opset, "")
    return _kinds(list(schema.outputs), {c.type_param_str for c in schema.type_constraints})


def _kinds(parameters: list, variables: set[str]) -> tuple[str, ...]:  # type: ignore[type-arg]
    kinds = [p.type_str if p.type_str in variables and p.is_homogeneous else "" for p in parameters]
    if parameters and parameters[-1].option.name == "Variadic":
        kinds.append("…")
    return tuple(kinds)


def _kind(kinds: tuple[str, ...], at: int) -> str:
    if kinds and kinds[-1] == "…":
        return kinds[min(at, len(kinds) - 2)]
    return kinds[at] if at < len(kinds) else ""


def _insert_casts(model: ir.Model, log: Log) -> None:
    """Cast every narrower input to the widest type, in graph order, so that a new type flows on."""
    opset = model.opset_imports.get("", 0)
    declared = {value.name: value.dtype for value in model.graph.outputs}
    taken = {value.name for node in model.graph for value in node.outputs} | set(model.graph.initializers)
    casts: dict[tuple[str, ir.DataType], ir.Value] = {}
    for index, node in enumerate(list(model.graph)):
        if node.domain != "":
            continue
        for fault in _mixed_of(node, index, opset):
            kind = _kind(_input_kinds(node.op_type, opset), fault.positions[0])
            widest = max(fault.dtypes, key=_FLOATS.index)
            log.warnings.append(f"{fault}: Cast to {dtype_name(widest)} inserted")
            for at, value in enumerate(node.inputs):
                if value is None or _kind(_input_kinds(node.op_type, opset), at) != kind or value.dtype == widest:
                    continue
                node.replace_input_with(at, _cast(model, value, widest, node, casts, taken))
        for at, output in enumerate(node.outputs):
            _follow(node, at, output, opset)
    for at, value in enumerate(model.graph.outputs):
        want, producer = declared[value.name], value.producer()
        if want in _FLOATS and value.dtype in _FLOATS and want != value.dtype and producer is not None:
            name = value.name
            value.name = fresh(f"{name}/wide", taken)
            cast = ir.node("Cast", [value], attributes={"to": int(want)}, name=f"{name}/cast")
            cast.outputs[0].name, cast.outputs[0].dtype = name, want
            cast.outputs[0].shape = value.shape
            model.graph.append(cast)
            model.graph.outputs[at] = cast.outputs[0]


def _follow(node: ir.Node, at: int, output: ir.Value, opset: int) -> None:
    """The type of an output is the type of the inputs that share its type variable."""
    kind = _kind(_output_kinds(node.op_type, opset), at)
    inputs = enumerate(node.inputs)
    same = [v for i, v in inputs if v is not None and kind and _kind(_input_kinds(node.op_type, opset), i) == kind]
    if same and same[0].dtype is not None:
        output.dtype = same[0].dtype


def _cast(
    model: ir.Model,
    value: ir.Value,
    to: ir.DataType,
    before: ir.Node,
    casts: dict[tuple[str, ir.DataType], ir.Value],
    taken: set[str | None],
) -> ir.Value:
    key = (value.name or "", to)
    if key not in casts:
        name = fresh(f"{value.name}/{dtype_name(to)}", taken)
        node = ir.node("Cast", [value], attributes={"to": int(to)}, name=name)
        node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = name, to, value.shape
        model.graph.insert_before(before, node)
        casts[key] = node.outputs[0]
    return casts[key]
