"""What the file says of shapes, against what inference finds: stale annotations dropped, contradictions refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from axtool.errors import UsageError
from axtool.graph.load_header import Log, places, subgraphs
from axtool.graph.load_infer import InferenceFault, merged

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Annotations:
    """Shapes and element types that the file gave its intermediate values and outputs.

    `trusted` is False where an input shape was changed: then a static shape in the file may belong to another size.
    """

    shapes: dict[str, tuple[int | None, ...]]
    dtypes: dict[str, int]
    trusted: bool

    def type_outputs(self, model: ir.Model) -> None:
        """Give the outputs their declared element type: where inference is silent, it is all there is."""
        for value in model.graph.outputs:
            known = self.dtypes.get(value.name or "", 0)
            if known and value.dtype is None and value.producer() is not None:
                value.dtype = ir.DataType(known)

    def compare(self, model: ir.Model, log: Log) -> None:
        """Warn once of all that is stale; take what inference left open, if it is static and still to be trusted."""
        stale = []
        for node in model.graph:
            for value in node.outputs:
                declared = self.shapes.get(value.name or "")
                if declared is None:
                    continue
                found = None if value.shape is None else [d if isinstance(d, int) else None for d in value.shape]
                if found is not None and _differ(declared, found):
                    stale.append(f"{value.name} (says {_show(declared)}, is {_show(found)})")
                elif self.trusted and None not in declared:
                    value.shape = merged(ir.Shape([d for d in declared if d is not None]), value.shape)
        if stale:
            log.warnings.append(f"shapes in the file are out of date and were inferred anew: {', '.join(stale)}")
        wrong = [
            f"{value.name} (says {ir.DataType(self.dtypes[value.name]).name}, is {value.dtype.name})"
            for value in model.graph.outputs
            if value.name in self.dtypes and value.dtype is not None and value.dtype != self.dtypes[value.name]
        ]
        if wrong:
            log.warnings.append(f"element types of outputs in the file are wrong: {', '.join(wrong)}")


def forget_annotations(proto: onnx.ModelProto, keep: bool) -> Annotations:
    """Take the annotations out of the proto: inference must not build on them."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    dtypes: dict[str, int] = {}
    known = set(ir.DataType)
    for info in (*proto.graph.value_info, *proto.graph.output):
        tensor = info.type.tensor_type if info.type.HasField("tensor_type") else None
        if tensor is None:
            continue
        if tensor.HasField("shape"):
            dims = tensor.shape.dim
            shapes[info.name] = tuple(
                int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims
            )
        if tensor.elem_type and tensor.elem_type in known:
            dtypes[info.name] = int(tensor.elem_type)
    del proto.graph.value_info[:]
    given = {info.name: info.type for info in proto.graph.input}
    for output in proto.graph.output:
        if output.name in given:
            output.type.CopyFrom(given[output.name])
        else:
            output.ClearField("type")
    for place in places(proto.graph):
        for graph in subgraphs(place.node):
            del graph.value_info[:]
    return Annotations(shapes, dtypes, keep)


def refuse_faults(model: ir.Model, faults: Sequence[InferenceFault], log: Log, permissive: bool) -> None:
    """Raise for nodes that do not fit together, or warn of them with `permissive`."""
    if not faults:
        return
    index = {node.name: at for at, node in enumerate(model.graph)}
    nodes = list(model.graph)
    lines = [_line(fault, index.get(fault.node), nodes) for fault in faults]
    if permissive:
        log.warnings.extend(f"shape inference: {line}" for line in lines)
        return
    raise UsageError(
        f"the graph does not fit together: {lines[0]}",
        where=log.file,
        hint="export the model again; --permissive goes on where inference gives up",
        code="shape-inference",
        details=lines,
    )


def _line(fault: InferenceFault, index: int | None, nodes: Sequence[ir.Node]) -> str:
    """The fault with the node's index and what goes into it."""
    if index is None:
        return str(fault)
    known = [value for value in nodes[index].inputs if value is not None and value.shape is not None]
    shapes = ", ".join(f"{v.name} {v.shape}" for v in known[:4])
    return f"{fault.op} '{fault.node}' (node {index}): {fault.message} (inputs: {shapes or 'of unknown shape'})"


def check_model(model: ir.Model, proto: onnx.ModelProto, log: Log) -> None:
    """Raise for what onnx's own checker refuses: missing attributes, wrong attribute types, wrong input counts.

    `proto` is the skeleton of `model`, before inference: its outputs borrow a type, which the checker wants to see.
    """
    from onnx import checker

    untyped = [output for output in proto.graph.output if not output.HasField("type")]
    for output in untyped:
        output.type.tensor_type.elem_type = 1
        output.type.tensor_type.shape.SetInParent()
    try:
        checker.check_model(proto)
    except Exception as error:  # ValidationError, and whatever else the C++ throws
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        context = next((line for line in lines[1:] if "node" in line.lower()), "")
        name = re.search(r"Name: (.*?) OpType:", context)
        index = next((at for at, node in enumerate(model.graph) if name and node.name == name[1]), None)
        where = (
            f"{model.graph[index].op_type} '{model.graph[index].name}' (node {index}): " if index is not None else ""
        )
        raise UsageError(
            f"not a valid model: {where}{lines[0][:300]}",
            where=log.file,
            hint="the file was edited or damaged: export it again",
            code="invalid-model",
        ) from None
    for output in untyped:
        output.ClearField("type")


def _differ(declared: Sequence[int | None], found: Sequence[int | None]) -> bool:
    return len(declared) != len(found) or any(
        a is not None and b is not None and a != b for a, b in zip(declared, found, strict=True)
    )


def _show(shape: Sequence[int | None]) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"
