"""A stage as an ONNX model  ->  the models to run for its intermediate tensors, each exposing no more than a budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from axtool.graph.signature import serialized

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

BUDGET_BYTES = 16 << 20
MOST_WEIGHTS = 1 << 30  # bytes in one piece, 4 an element: a model in memory must stay below 2 GB


@dataclass
class Piece:
    """One runnable model. `outputs` are `observed`, and what later pieces and stages read."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    observed: tuple[str, ...]

    def take(self) -> bytes:
        """The model, for the session that has the weights from here on: they are not kept twice."""
        model, self.model = self.model, b""
        return model


def cut(
    proto: ModelProto,
    observed: Sequence[str],
    needed: Collection[str],
    budget_bytes: int = BUDGET_BYTES,
    most_weights: int | None = None,
) -> list[Piece]:
    """Pieces of a model, in an order that runs. Together they give the `observed` and the `needed` values.

    `needed` are the values that later stages read. A tensor larger than the budget is a piece of its own. Nodes that
    nothing asked for reads are left out. `proto` may be changed.
    """
    graph = proto.graph
    wanted = {*observed, *needed}
    nodes = _alive(graph, wanted)
    groups = _groups(nodes, graph, set(observed), budget_bytes, most_weights or MOST_WEIGHTS)
    if len(groups) == 1:
        return [_whole(proto, nodes, wanted, set(observed))]
    reads = [_reads(group) for group in groups]
    pieces = []
    for index, group in enumerate(groups):
        made = {name for node in group for name in node.output if name}
        later: set[str] = set().union(*reads[index + 1 :])
        outputs = tuple(n for node in group for n in node.output if n in made and (n in wanted or n in later))
        seen = tuple(name for name in outputs if name in set(observed))
        pieces.append(_piece(proto, group, outputs, seen))
    return pieces


def _whole(proto: ModelProto, nodes: list[NodeProto], wanted: set[str], observed: set[str]) -> Piece:
    """The model itself with other outputs: no second copy of the weights. Changes `proto`."""
    import onnx

    graph = proto.graph
    infos = {info.name: info for info in (*graph.value_info, *graph.output)}
    outputs = tuple(name for node in nodes for name in node.output if name in wanted)
    used = _reads([nodes])
    made = {name for node in nodes for name in node.output if name}
    for index in reversed([i for i, node in enumerate(graph.node) if not made.intersection(node.output)]):
        del graph.node[index]
    shown = [infos.get(name) or onnx.ValueInfoProto(name=name) for name in outputs]
    del graph.output[:]
    graph.output.extend(shown)
    constants = {tensor.name for tensor in graph.initializer}
    for index in reversed(range(len(graph.input))):
        if graph.input[index].name not in used or graph.input[index].name in constants:
            del graph.input[index]
    inputs = tuple(value.name for value in graph.input)
    return Piece(serialized(proto), inputs, outputs, tuple(name for name in outputs if name in observed))


def _groups(
    nodes: list[NodeProto], graph: GraphProto, observed: set[str], budget_bytes: int, most_weights: int
) -> list[list[NodeProto]]:
    """Runs of nodes whose observed outputs stay within the budget, and whose weights fit one model."""
    sizes = _sizes(graph)
    weights = {tensor.name: 4 * prod(tensor.dims) for tensor in graph.initializer}
    groups: list[list[NodeProto]] = []
    spent, held = budget_bytes + 1, set[str]()
    for node in nodes:
        cost = sum(sizes.get(name, 0) for name in node.output if name in observed)
        own = _reads([[node]]) & weights.keys()
        heavy = held and not own <= held and sum(weights[name] for name in held | own) > most_weights
        if not groups or (cost and spent + cost > budget_bytes) or heavy:
            groups.append([])
            spent, held = 0, set()
        groups[-1].append(node)
        spent, held = spent + cost, held | own
    return groups


def _piece(proto: ModelProto, nodes: list[NodeProto], outputs: tuple[str, ...], observed: tuple[str, ...]) -> Piece:
    import onnx

    made = {name for node in nodes for name in node.output}
    graph = proto.graph
    constants = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    used = _reads([nodes])
    infos = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    inputs = tuple(dict.fromkeys(n for n in _ordered_reads(nodes) if n not in made and n not in constants))
    piece = onnx.ModelProto()
    piece.ir_version, piece.producer_name = proto.ir_version, proto.producer_name
    piece.opset_import.extend(proto.opset_import)
    piece.functions.extend(proto.functions)
    body = piece.graph
    body.name = graph.name
    body.node.extend(nodes)
    body.initializer.extend(tensor for tensor in graph.initializer if tensor.name in used or tensor.name in outputs)
    body.sparse_initializer.extend(t for t in graph.sparse_initializer if t.values.name in used)
    body.input.extend(infos[name] for name in inputs)
    body.output.extend(infos.get(name) or onnx.ValueInfoProto(name=name) for name in outputs)
    body.value_info.extend(info for info in graph.value_info if info.name in made and info.name not in outputs)
    return Piece(serialized(piece), inputs, outputs, observed)


def _alive(graph: GraphProto, wanted: set[str]) -> list[NodeProto]:
    """The nodes that lead to the wanted values, in graph order."""
    live = set(wanted)
    kept = []
    for node in reversed(graph.node):
        if any(name in live for name in node.output):
            kept.append(node)
            live |= _reads([[node]])
    return kept[::-1]


def _reads(groups: Sequence[Any]) -> set[str]:
    return {name for group in groups for name in _ordered_reads(group if isinstance(group, list) else [group])}


def _ordered_reads(nodes: Sequence[NodeProto]) -> list[str]:
    """Names that nodes read, those inside If and Loop bodies included."""
    names: list[str] = []
    for node in nodes:
        names += [name for name in node.input if name]
        for attribute in node.attribute:
            for body in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                inner = {n for child in body.node for n in child.output} | {t.name for t in body.initializer}
                inner |= {value.name for value in body.input}
                outer = _ordered_reads(list(body.node)) + [value.name for value in body.output]
                names += [name for name in outer if name not in inner]
    return names


def _sizes(graph: GraphProto) -> dict[str, int]:
    """Bytes of each value whose shape is known, taken as 4 an element."""
    sizes = {}
    for info in (*graph.value_info, *graph.output):
        count = 4
        for dim in info.type.tensor_type.shape.dim:
            count *= max(dim.dim_value, 1)
        sizes[info.name] = count
    return sizes
