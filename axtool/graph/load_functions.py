"""ModelProto  ->  one main graph in one opset: local functions inlined, a wrongly declared opset raised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from axtool.errors import UnsupportedError, UsageError, plural
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
    from onnx import inliner

    _refuse_recursion(proto, log.file)
    count = len(proto.functions)
    _use_one_opset(proto, opset, log.file)
    try:
        proto = inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises whatever its C++ throws
        raise UsageError(
            f"cannot inline the model's functions: {_first_line(error)}",
            where=log.file,
            hint="inline them with onnx.inliner and look at the result",
            code="bad-function",
        ) from None
    used = {place.node.domain for place in places(proto.graph)} | {""}
    for at in reversed(range(len(proto.opset_import))):
        if proto.opset_import[at].domain not in used:
            del proto.opset_import[at]
    log.notes.append(f"{plural(count, 'local function')} inlined")
    return proto


def _use_one_opset(proto: onnx.ModelProto, opset: int, file: str) -> None:
    """Declare the model's opset in every function, which changes nothing where all its ops mean the same in both.

    Raises UnsupportedError for the others: onnx's inliner can convert them, but gives two values one name (1.23).
    """
    known = {entry.domain for entry in proto.opset_import}
    faults = []
    for function in proto.functions:
        for entry in function.opset_import:
            if entry.domain not in known:
                proto.opset_import.add(domain=entry.domain, version=entry.version)
                known.add(entry.domain)
            if entry.domain != "" or entry.version == opset:
                continue
            declared = int(entry.version)
            changed = [n.op_type for n in function.node if not _same_meaning(n.op_type, n.domain, declared, opset)]
            if changed:
                ops = ", ".join(dict.fromkeys(changed))
                faults.append(f"{function.domain}::{function.name} is in opset {declared}, where {ops} differ")
            entry.version = opset
    if faults:
        raise UnsupportedError(
            f"functions in another opset than the model's {opset}: {'; '.join(faults)}",
            where=file,
            hint="re-export the model in one opset",
            code="function-opset",
            details=faults,
        )


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


def _same_meaning(op: str, domain: str, declared: int, target: int) -> bool:
    """True if a node written for opset `declared` means the same in `target`, or `declared` has no such op.

    Most new versions of an op only allow more types. What changed shows in its signature: an attribute that is gone or
    has another default, an input that came, went or became required.
    """
    from onnx import defs

    if domain != "" or not _exists(op, declared):
        return True
    if not _exists(op, target):
        return False
    old, new = defs.get_schema(op, declared, ""), defs.get_schema(op, target, "")
    if old.since_version == new.since_version:
        return True
    if declared > target or op == "Split":  # a Split without sizes needs num_outputs since opset 18
        return False
    same_attributes = all(
        name in new.attributes and _default(attribute) == _default(new.attributes[name])
        for name, attribute in old.attributes.items()
    )
    fresh = [attribute for name, attribute in new.attributes.items() if name not in old.attributes]
    return (
        same_attributes
        and not any(attribute.required for attribute in fresh)
        and _extends(list(old.inputs), list(new.inputs))
        and _extends(list(old.outputs), list(new.outputs))
    )


def _default(attribute: onnx.defs.OpSchema.Attribute) -> tuple[str, bool, bytes]:
    return attribute.type.name, attribute.required, attribute.default_value.SerializeToString()


def _extends(old: list[onnx.defs.OpSchema.FormalParameter], new: list[onnx.defs.OpSchema.FormalParameter]) -> bool:
    """True if `new` is `old` and perhaps optional ones after it."""
    kinds = [[parameter.option.name for parameter in parameters] for parameters in (old, new)]
    return kinds[1][: len(old)] == kinds[0] and all(kind == "Optional" for kind in kinds[1][len(old) :])


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
