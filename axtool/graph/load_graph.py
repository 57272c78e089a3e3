"""The names of a ModelProto: every value is written once and before it is read, every node has a name of its own.

Errors (all exit 2): `no-nodes`, `no-outputs`, `bad-name`, `duplicate-value`, `undefined-input`, `undefined-output`,
`cyclic-graph`. Unsorted nodes are sorted, unnamed and doubly named nodes renamed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from axtool.errors import UsageError, nearest
from axtool.graph.load_header import Log, Place, places, subgraphs

if TYPE_CHECKING:
    import onnx

MAX_NAME = 4000  # characters; an .axm file takes 4096, and what passes and lowering make of a name is longer


def check_names(proto: onnx.ModelProto, log: Log) -> None:
    """Raise for values without a writer or with two, and cycles; sort what is unsorted."""
    if not proto.graph.node:
        raise UsageError("graph has no nodes", where=log.file, hint="export the model again", code="no-nodes")
    if not proto.graph.output:
        raise UsageError("graph has no outputs", where=log.file, hint="export the model again", code="no-outputs")
    _check_lengths(proto, log)
    _Scope(proto.graph.node, log).check(
        [i.name for i in proto.graph.input],
        [t.name for t in proto.graph.initializer],
        [o.name for o in proto.graph.output],
        frozenset(),
        proto.graph,
    )
    _check_outputs([o.name for o in proto.graph.output], log)
    for function in proto.functions:
        scope = _Scope(function.node, log, f"function {function.name}")
        scope.check(list(function.input), [], list(function.output), frozenset(), function)


def _check_outputs(names: list[str], log: Log) -> None:
    """A name can be one output only: results are given by name."""
    places: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        places.setdefault(name, []).append(at)
    lines = [
        f"output '{name}' is declared {len(found)} times: outputs {', '.join(map(str, found))}"
        for name, found in places.items()
        if len(found) > 1
    ]
    if lines:
        raise UsageError(
            f"duplicate definition: {lines[0]}",
            where=log.file,
            hint="declare it once, or give the second one a name of its own with an Identity",
            code="duplicate-value",
            details=lines,
        )


def _check_lengths(proto: onnx.ModelProto, log: Log) -> None:
    lines = [
        f"{kind} {text[:40]!r}… has a name of {len(text)} characters, the most is {MAX_NAME}"
        for kind, text in _texts(proto)
        if len(text) > MAX_NAME
    ]
    if lines:
        hint = "shorten it and export the model again"
        raise UsageError(lines[0][:200], where=log.file, hint=hint, code="bad-name", details=lines)


def name_nodes(proto: onnx.ModelProto) -> None:
    """Give each node of the main graph and of its subgraphs a name that no other node has."""
    counts: dict[str, int] = {}
    nodes = [place.node for place in places(proto.graph)]
    taken = {node.name for node in nodes}
    for node in nodes:
        name = node.name or f"{node.op_type}_{next((o for o in node.output if o), '')}"
        unique, fresh = name, not node.name
        while unique in counts or (fresh and unique in taken):
            counts[name] = counts.get(name, 0) + 1
            unique, fresh = f"{name}_{counts[name]}", True
        counts.setdefault(unique, 0)
        if unique != node.name:
            node.name = unique
            taken.add(unique)


def name_inner_values(proto: onnx.ModelProto) -> None:
    """Give values inside subgraphs names that nothing else in the model has, so that a branch can be moved anywhere."""
    taken = set(_defined(proto.graph))
    for node in proto.graph.node:
        for graph in subgraphs(node):
            _rename_values(graph, {}, taken)


def _rename_values(graph: onnx.GraphProto, outer: dict[str, str], taken: set[str]) -> None:
    """`outer` maps the names that this graph captures and that were renamed."""
    own = dict.fromkeys(_defined(graph))
    names = {old: new for old, new in outer.items() if old not in own}
    for name in own:
        unique, count = name, 0
        while unique in taken:
            count += 1
            unique = f"{name}_{count}"
        taken.add(unique)
        if unique != name:
            names[name] = unique
    for named in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        named.name = names.get(named.name, named.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            _rename_values(inner, names, taken)


class _Scope:
    """The nodes of one graph or function, checked and sorted."""

    def __init__(self, nodes: Sequence[onnx.NodeProto], log: Log, inside: str = "") -> None:
        self.nodes, self.log, self.inside = nodes, log, inside

    def check(
        self, inputs: list[str], initializers: list[str], outputs: list[str], outer: frozenset[str], owner: Any
    ) -> None:
        """`outer` are the names that a subgraph may capture; `owner` is the proto whose nodes get sorted."""
        writers = self._writers(inputs, initializers)
        known = outer | writers.keys()
        self._check_reads(known, outputs)
        for index, node in enumerate(self.nodes):
            for graph in subgraphs(node):
                inner = _Scope(graph.node, self.log, str(Place(node, index, self.inside)))
                inner.check(
                    [i.name for i in graph.input],
                    [t.name for t in graph.initializer],
                    [o.name for o in graph.output],
                    known,
                    graph,
                )
        order = self._order({name: at for name, at in writers.items() if at >= 0})
        if order != list(range(len(self.nodes))):
            where = f" of {self.inside}" if self.inside else ""
            self.log.notes.append(f"nodes{where} were not in topological order: sorted")
            nodes = [_copy(self.nodes[at]) for at in order]
            del owner.node[:]
            owner.node.extend(nodes)

    def _place(self, index: int) -> str:
        return str(Place(self.nodes[index], index, self.inside))

    def _writers(self, inputs: list[str], initializers: list[str]) -> dict[str, int]:
        """Who writes each value: a node's index, or -1 for inputs and initializers."""
        faults: list[str] = []
        for kind, names in (("input", inputs), ("initializer", initializers)):
            twice = sorted({name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ())
            faults += [f"{kind} '{name}' is declared twice" for name in twice]
            if "" in names:
                raise UsageError(
                    f"an {kind} has no name", where=self.log.file, hint="export the model again", code="bad-name"
                )
        writers = dict.fromkeys([*inputs, *initializers], -1)
        for index, node in enumerate(self.nodes):
            for name in node.output:
                if not name:
                    continue
                first = writers.get(name)
                if first is not None:
                    other = self._place(first) if first >= 0 else "a graph input or initializer"
                    faults.append(f"'{name}' is written by {other} and by {self._place(index)}")
                else:
                    writers[name] = index
        if faults:
            raise UsageError(
                f"duplicate definition: {faults[0]}",
                where=self.log.file,
                hint="give each value a name of its own",
                code="duplicate-value",
                details=faults,
            )
        return writers

    def _check_reads(self, known: frozenset[str], outputs: list[str]) -> None:
        ghosts = [
            (name, self._place(index))
            for index, node in enumerate(self.nodes)
            for name in node.input
            if name and name not in known
        ]
        if ghosts:
            lines = [f"'{name}' is read by {place}, but nothing produces it" for name, place in ghosts]
            raise UsageError(
                lines[0],
                where=self.log.file,
                hint=nearest(ghosts[0][0], sorted(known)),
                code="undefined-input",
                details=lines,
            )
        missing = [name for name in outputs if name not in known]
        if missing:
            where = f" of {self.inside}" if self.inside else ""
            lines = [f"output '{name}'{where} is produced by no node" for name in missing]
            raise UsageError(
                lines[0],
                where=self.log.file,
                hint=nearest(missing[0], sorted(known)),
                code="undefined-output",
                details=lines,
            )

    def _order(self, writers: dict[str, int]) -> list[int]:
        """A topological order, as near to the file's as there is. Raises for a cycle."""
        needs = [
            {writers[name] for name in _reads(node) if name in writers} for node in self.nodes
        ]  # needs[i]: nodes that node i waits for
        readers: list[list[int]] = [[] for _ in self.nodes]
        for index, before in enumerate(needs):
            for at in before:
                readers[at].append(index)
        waiting = [len(before) for before in needs]
        ready = [index for index, count in enumerate(waiting) if count == 0]
        order: list[int] = []
        while ready:
            index = heapq.heappop(ready)
            order.append(index)
            for reader in readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heapq.heappush(ready, reader)
        if len(order) < len(self.nodes):
            cycle = [self._place(at) for at in _cycle(needs, set(order))]
            raise UsageError(
                f"graph has a cycle: {' -> '.join(cycle[:6])}{' -> …' if len(cycle) > 6 else ''}",
                where=self.log.file,
                hint="a value may not depend on itself; use Loop or Scan for recurrence",
                code="cyclic-graph",
                details=cycle,
            )
        return order


def _cycle(needs: list[set[int]], done: set[int]) -> list[int]:
    """One cycle among the nodes that cannot run, in data-flow order, first node repeated at the end."""
    at = next(index for index in range(len(needs)) if index not in done)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = min(index for index in needs[at] if index not in done)
    loop = path[path.index(at) :]
    return [*reversed(loop), loop[-1]]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Values that the node needs: its inputs, and what its subgraphs capture."""
    yield from node.input
    for graph in subgraphs(node):
        own = set(_defined(graph))
        captured = (name for inner in graph.node for name in _reads(inner))
        yield from (name for name in (*captured, *(o.name for o in graph.output)) if name not in own)


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that the graph gives to values of its own."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = type(node)()
    copy.CopyFrom(node)
    return copy


def check_text(proto: onnx.ModelProto, file: str) -> None:
    """Names must be UTF-8: protobuf hands out bytes for what is not. Comments that are not are dropped."""
    faults = [f"{kind} {text!r}" for kind, text in _texts(proto) if isinstance(text, bytes)]
    if faults:
        raise UsageError(
            f"a name is not valid UTF-8: {faults[0]}",
            where=file,
            hint="rename it and export again; the file may also be damaged",
            code="bad-name",
            details=faults,
        )
    for owner in (proto, proto.graph):
        if isinstance(owner.doc_string, bytes):
            owner.ClearField("doc_string")
        for at in reversed(range(len(owner.metadata_props))):
            entry = owner.metadata_props[at]
            if isinstance(entry.key, bytes) or isinstance(entry.value, bytes):
                del owner.metadata_props[at]


def _texts(proto: onnx.ModelProto) -> Iterator[tuple[str, str | bytes]]:
    for entry in proto.opset_import:
        yield "domain", entry.domain
    for text in (proto.producer_name, proto.producer_version, proto.domain):
        yield "producer", text
    yield from _graph_texts(proto.graph)
    for place in places(proto.graph):
        yield from _node_texts(place.node)
        for graph in subgraphs(place.node):
            yield from _graph_texts(graph)
    for function in proto.functions:
        yield from (("function", text) for text in (function.name, function.domain, *function.input, *function.output))
        for entry in function.opset_import:
            yield "domain", entry.domain
        for node in function.node:
            yield from _node_texts(node)


def _graph_texts(graph: onnx.GraphProto) -> Iterable[tuple[str, str | bytes]]:
    yield "graph", graph.name
    for tensor in graph.initializer:
        yield "initializer", tensor.name
    for kind, infos in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for info in infos:
            yield kind, info.name
            for dim in info.type.tensor_type.shape.dim:
                yield f"dimension of {info.name!r}", dim.dim_param


def _node_texts(node: onnx.NodeProto) -> Iterable[tuple[str, str | bytes]]:
    yield "node", node.name
    yield "op of node", node.op_type
    yield "domain of node", node.domain
    for text in (*node.input, *node.output):
        yield f"value of node {node.name!r}", text
    for attribute in node.attribute:
        yield f"attribute of node {node.name!r}", attribute.name
