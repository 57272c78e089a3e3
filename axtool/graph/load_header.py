"""ModelProto  ->  its opset, once IR version, opset imports and every op name are known to be ours to run.

Errors: `no-ir-version`, `no-opset`, `op-needs-newer-opset`, `op-removed` (exit 2); `ir-version`, `opset`,
`unsupported-op` (exit 3). Each lists all nodes of its kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from axtool.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import onnx

MIN_OPSET = 7
MIN_IR = 3
_ONNX = ("", "ai.onnx")


@dataclass
class Log:
    """What the user should hear about a file that was accepted."""

    file: str
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the file: its position in its own graph, and the node that holds that graph ("" for the main one)."""

    node: onnx.NodeProto
    index: int
    inside: str

    def __str__(self) -> str:
        name = self.node.name or next((o for o in self.node.output if o), "")
        inner = f" in {self.inside}" if self.inside else ""
        return f"{self.node.op_type} '{name}' (node {self.index}{inner})"


def places(graph: onnx.GraphProto | onnx.FunctionProto, inside: str = "") -> Iterator[Place]:
    """Every node of the graph and of its subgraphs, outer before inner."""
    for index, node in enumerate(graph.node):
        place = Place(node, index, inside)
        yield place
        for subgraph in subgraphs(node):
            yield from places(subgraph, str(place))


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node holds (If, Loop, Scan), without touching its other attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def check_header(proto: onnx.ModelProto, file: str) -> int:
    """The declared opset. Raises for versions that are missing, too old or too new."""
    from onnx import IR_VERSION
    from onnx.defs import onnx_opset_version

    newest = onnx_opset_version()
    if proto.ir_version <= 0:
        raise UsageError("model declares no IR version", where=file, hint="re-export the model", code="no-ir-version")
    if not MIN_IR <= proto.ir_version <= IR_VERSION:
        raise UnsupportedError(
            f"IR version {proto.ir_version}; axtool supports {MIN_IR}..{IR_VERSION}",
            where=file,
            hint=f"re-export the model, or set model.ir_version = {min(IR_VERSION, 10)} if it uses nothing newer",
            code="ir-version",
        )
    versions = {entry.version for entry in proto.opset_import if entry.domain in _ONNX}
    if not versions:
        raise UsageError(
            "model declares no opset for domain ai.onnx",
            where=file,
            hint="re-export the model, or add it to model.opset_import",
            code="no-opset",
        )
    if len(versions) > 1:
        raise UsageError(
            f"model declares opsets {', '.join(map(str, sorted(versions)))} for domain ai.onnx, want one",
            where=file,
            hint="re-export the model",
            code="no-opset",
        )
    opset = int(versions.pop())
    if not MIN_OPSET <= opset <= newest:
        raise UnsupportedError(
            f"opset {opset}; axtool supports {MIN_OPSET}..{newest}",
            where=file,
            hint=f"re-export with opset_version={17 if opset > newest else 13}, or convert with onnx.version_converter",
            code="opset",
        )
    return opset


def check_ops(proto: onnx.ModelProto, opset: int, log: Log, permissive: bool) -> int:
    """The opset that all ops exist in: the declared one, or with `permissive` a newer one that the ops need.

    A node in a custom domain is fine when the model holds its function; functions are checked like the graph.
    """
    local = {(f.domain, f.name) for f in proto.functions}
    imports = {entry.domain: int(entry.version) for entry in proto.opset_import}
    unknown, removed = defaultdict(list), defaultdict(list)
    newer: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for place, declared in _all_nodes(proto, opset):
        node = place.node
        if (node.domain, node.op_type) in local:
            continue
        domain = "" if node.domain in _ONNX else node.domain
        version = declared if domain == "" else imports.get(domain, 0)
        if domain and not version and any(known == domain for known, _ in _history()):
            raise UsageError(
                f"model declares no opset for domain {domain}, which {place} is in",
                where=log.file,
                hint="re-export the model, or add it to model.opset_import",
                code="no-opset",
            )
        verdict, since = _known(node.op_type, domain, version)
        if verdict == "unknown":
            unknown[f"{node.domain}::{node.op_type}" if domain else node.op_type].append(place)
        elif verdict == "newer":
            newer[node.op_type, since].append(place)
        elif verdict == "removed":
            removed[node.op_type, since].append(place)
    if unknown:
        raise _unsupported(unknown, log.file)
    if removed:
        lines = [f"{op} was removed in opset {since}: {_list(at)}" for (op, since), at in removed.items()]
        raise UsageError(
            f"{lines[0]}; the model declares opset {opset}",
            where=log.file,
            hint="declare an older opset, or re-export",
            code="op-removed",
            details=lines,
        )
    return _accept_newer(newer, opset, log, permissive) if newer else opset


def _all_nodes(proto: onnx.ModelProto, opset: int) -> Iterator[tuple[Place, int]]:
    for place in places(proto.graph):
        yield place, opset
    for function in proto.functions:
        own = [int(entry.version) for entry in function.opset_import if entry.domain in _ONNX]
        for index, node in enumerate(function.node):
            place = Place(node, index, f"function {function.name}")
            yield place, own[0] if own else opset
            for subgraph in subgraphs(node):
                for inner in places(subgraph, str(place)):
                    yield inner, own[0] if own else opset


def _known(op: str, domain: str, version: int) -> tuple[str, int]:
    """("known" | "newer" | "removed" | "unknown", the opset that decides)."""
    from onnx import defs

    if domain == "com.microsoft":
        from axtool.graph.passes.import_qoperator import CONTRIBUTED

        return ("known" if op in CONTRIBUTED else "unknown"), 0

    try:
        schema = defs.get_schema(op, version, domain)
    except (defs.SchemaError, TypeError, ValueError):
        pass
    else:
        return ("removed", schema.since_version) if schema.deprecated else ("known", schema.since_version)
    versions = [s.since_version for s in _history().get((domain, op), ())]
    return ("newer", min(versions)) if versions else ("unknown", 0)


_HISTORY: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}


def _history() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    """Every version of every op. Built once, and only for a model that has an op its opset does not know."""
    if not _HISTORY:
        from onnx import defs

        for schema in defs.get_all_schemas_with_history():
            if not schema.deprecated:
                _HISTORY.setdefault((schema.domain, schema.name), []).append(schema)
    return _HISTORY


def _unsupported(unknown: dict[str, list[Place]], file: str) -> UnsupportedError:
    counts = Counter({op: len(at) for op, at in unknown.items()})
    lines = [f"{op} ×{count}: {_list(unknown[op])}" for op, count in counts.most_common()]
    known = sorted({name for domain, name in _history() if domain == ""})
    plain = next((op for op in unknown if "::" not in op), "")
    hint = "re-export with standard ONNX ops"
    close = get_close_matches(plain, known, n=1, cutoff=0.75)
    if close:
        hint = f"{plain}: did you mean {close[0]}?"
    elif any(op.startswith("com.microsoft::") for op in unknown):
        hint = "re-export without onnxruntime's graph optimisations: its fused ops are not ONNX"
    summary = "; ".join(lines)
    return UnsupportedError(f"unsupported ops: {summary}", where=file, hint=hint, code="unsupported-op", details=lines)


def _accept_newer(newer: dict[tuple[str, int], list[Place]], opset: int, log: Log, permissive: bool) -> int:
    needed = max(since for _, since in newer)
    lines = [f"{op} needs opset {since}: {_list(at)}" for (op, since), at in sorted(newer.items(), key=str)]
    what = f"{'; '.join(lines)}; the model declares opset {opset}"
    if not permissive:
        raise UsageError(
            what,
            where=log.file,
            hint=f"re-export with opset_version={needed}, or accept it with --permissive",
            code="op-needs-newer-opset",
            details=lines,
        )
    log.warnings.append(f"{what}: read as opset {needed}")
    return needed


def _list(at: list[Place]) -> str:
    shown = ", ".join(str(place).split(" ", 1)[1] for place in at[:8])
    return shown + (f" and {len(at) - 8} more" if len(at) > 8 else "")
