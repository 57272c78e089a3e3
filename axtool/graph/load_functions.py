"""ModelProto  ->  one main graph in one opset: local functions inlined, a wrongly declared opset raised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from axtool.errors import UnsupportedError, UsageError
from axtool.graph.load_header import Log, places

if TYPE_CHECKING:
    import onnx

_ONNX = ("", "ai.onnx")
_PARKED = "axtool.parked"  # a domain that the version converter leaves alone


def use_one_domain_name(proto: onnx.ModelProto) -> None:
    """Write "ai.onnx" as "", its short name, everywhere."""
    owners: list[onnx.ModelProto | onnx.FunctionProto] = [proto, *proto.functions]
    for owner in owners:
        seen = set()
        for at in reversed(range(len(owner.opset_import))):
            entry = owner.opset_import[at]
            entry.domain = "" if entry.domain in _ONNX else entry.domain
            if entry.domain in seen:
                del owner.opset_import[at]
            seen.add(entry.domain)
    bodies: Iterable[onnx.NodeProto] = (node for function in proto.functions for node in function.node)
    for node in (*(place.node for place in places(proto.graph)), *bodies):
        if node.domain == "ai.onnx":
            node.domain = ""


def raise_opset(proto: onnx.ModelProto, declared: int, needed: int, file: str) -> onnx.ModelProto:
    """The model in opset `needed`. Nodes that the declared opset has not are taken to mean what they mean there."""
    from onnx import version_converter

    if declared == needed:
        return proto
    nodes = [place.node for place in places(proto.graph)]
    if not all(_same_meaning(node.op_type, node.domain, declared, needed) for node in nodes):
        for node in nodes:
            if node.domain == "" and not _exists(node.op_type, declared):
                node.domain = _PARKED
        proto.opset_import.add(domain=_PARKED, version=1)
        try:
            proto = version_converter.convert_version(proto, needed)
        except Exception as error:  # the converter raises whatever its C++ throws
            raise UnsupportedError(
                f"cannot convert from opset {declared} to {needed}: {_first_line(error)}",
                where=file,
                hint=f"re-export with opset_version={needed}",
                code="opset",
            ) from None
        for place in places(proto.graph):
            if place.node.domain == _PARKED:
                place.node.domain = ""
    for at in reversed(range(len(proto.opset_import))):
        if proto.opset_import[at].domain in ("", _PARKED):
            del proto.opset_import[at]
    proto.opset_import.add(domain="", version=needed)
    return proto


def opset_of_functions(proto: onnx.ModelProto, opset: int) -> int:
    """The newest opset of the functions, if every node of the graph means the same in it; else the graph's own."""
    newest = max((int(e.version) for f in proto.functions for e in f.opset_import if e.domain == ""), default=opset)
    nodes = (place.node for place in places(proto.graph))
    return newest if all(_same_meaning(n.op_type, n.domain, opset, newest) for n in nodes) else opset


def inline_functions(proto: onnx.ModelProto, opset: int, log: Log) -> onnx.ModelProto:
    """The model without local functions; every call gets names of its own. Raises for recursion."""
    if not proto.functions:
        return proto
    from onnx import inliner, shape_inference

    _refuse_recursion(proto, log.file)
    count = len(proto.functions)
    known = {entry.domain for entry in proto.opset_import}
    convert = False
    for function in proto.functions:
        for entry in function.opset_import:
            if entry.domain == "" and entry.version != opset:
                same = all(_same_meaning(n.op_type, n.domain, int(entry.version), opset) for n in function.node)
                entry.version, convert = (opset, convert) if same else (entry.version, True)
            if entry.domain not in known:
                proto.opset_import.add(domain=entry.domain, version=entry.version)
                known.add(entry.domain)
    try:
        if convert:  # the converter inside wants to know every type
            proto = shape_inference.infer_shapes(proto)
        proto = inliner.inline_local_functions(proto, convert)
    except Exception as error:  # the inliner raises whatever its C++ throws
        raise UsageError(
            f"cannot inline the model's functions: {_first_line(error)}",
            where=log.file,
            hint="inline them with onnx.inliner and look at the result",
            code="bad-function",
        ) from None
    if proto.functions:
        names = [f"{f.domain}::{f.name}" for f in proto.functions]
        raise UnsupportedError(
            f"functions in another opset than the model's {opset}: {', '.join(names)}",
            where=log.file,
            hint="re-export the model in one opset",
            code="function-opset",
            details=names,
        )
    used = {place.node.domain for place in places(proto.graph)} | {""}
    for at in reversed(range(len(proto.opset_import))):
        if proto.opset_import[at].domain not in used:
            del proto.opset_import[at]
    log.notes.append(f"{count} local function{'s' if count > 1 else ''} inlined")
    return proto


def _refuse_recursion(proto: onnx.ModelProto, file: str) -> None:
    from graphlib import CycleError, TopologicalSorter

    local = {(f.domain, f.name) for f in proto.functions}
    calls = {(f.domain, f.name): {(p.node.domain, p.node.op_type) for p in places(f)} & local for f in proto.functions}
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        path = " -> ".join(name for _, name in error.args[1])
        raise UsageError(
            f"functions call each other in a circle: {path}",
            where=file,
            hint="ONNX functions cannot recurse",
            code="bad-function",
        ) from None


def _same_meaning(op: str, domain: str, one: int, other: int) -> bool:
    """True if the op's definition is the same in both opsets, or the older one has none."""
    from onnx import defs

    if domain != "" or not _exists(op, one):
        return True
    return _exists(op, other) and (
        defs.get_schema(op, one, "").since_version == defs.get_schema(op, other, "").since_version
    )


def _exists(op: str, opset: int) -> bool:
    from onnx import defs

    try:
        return not defs.get_schema(op, opset, "").deprecated
    except defs.SchemaError:
        return False


def _first_line(error: Exception) -> str:
    """What a C++ exception says, without its source positions."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return re.sub(r"^\S+\.(cc|h):\d+:?\s*(\w+: )?", "", text)[:200]
