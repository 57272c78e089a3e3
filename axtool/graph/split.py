"""A clean model  ->  the stages that run it, host and device in turn, and a verdict on every node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import onnx_ir as ir

from axtool.graph.functions import attach
from axtool.graph.passes.restore_qdq import restore_qdq
from axtool.graph.sites import sites_of
from axtool.graph.split_place import Graph, Placement, place
from axtool.ops.costs import macs
from axtool.ops.limits import Reason, why_not
from axtool.target import Target
from axtool.types import Precision, QFormat, Site

Judge = Callable[[Site, Target], tuple[Reason, ...]]


@dataclass(frozen=True)
class Stage:
    """A piece of the model that runs in one place. `model` is complete: its graph has these inputs and outputs.

    `given` are the formats that the file prescribes for tensors of this piece (`Cleaned.given`). `precision` is what
    its nodes compute in, by first output, and what its inputs are stored in; what is not named is int8.
    """

    kind: Literal["host", "device"]
    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    given: Mapping[str, QFormat] = field(default_factory=dict)
    precision: Mapping[str, Precision] = field(default_factory=dict)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The nodes of `model`, in order."""
        return sites_of(self.model)

    @cached_property
    def float_model(self) -> ir.Model:
        """What stands for the user's file in onnxruntime: `model`, rounding where a quantized file rounds."""
        return restore_qdq(self.model, self.given)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What somebody wants of nodes, by position: `host` keeps them there whatever the device can, for the reason; a
    piece with one of `device` goes to the device however small it is. A node with a `precision` of fx32 or fp16 stays
    on the device if that has it at all. `input_precision` is what inputs of the model are stored in, by name.
    """

    host: Mapping[int, Reason] = field(default_factory=dict)
    device: Collection[int] = ()
    precision: Mapping[int, Precision] = field(default_factory=dict)
    input_precision: Mapping[str, Precision] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a node runs and why (nothing, on the device). `stage` is a position in `Split.stages`."""

    name: str
    index: int
    op: str
    kind: Literal["host", "device"]
    stage: int
    reasons: tuple[str, ...]
    advice: tuple[str, ...]
    macs: int

    def to_dict(self) -> dict[str, object]:
        """Plain values, for documents and for the artefact."""
        return {
            "node": self.name, "index": self.index, "op": self.op, "kind": self.kind, "stage": self.stage,
            "reasons": list(self.reasons), "advice": list(self.advice), "macs": self.macs,
        }  # fmt: skip


@dataclass(frozen=True)
class Split:
    """The stages in the order in which they run, and the verdicts in the order of the model's nodes.

    An output of the model that is one of its inputs is made by no stage.
    """

    stages: tuple[Stage, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def macs(self) -> int:
        return sum(verdict.macs for verdict in self.verdicts)

    @property
    def device_macs(self) -> int:
        return sum(verdict.macs for verdict in self.verdicts if verdict.kind == "device")

    @property
    def device_nodes(self) -> int:
        return sum(verdict.kind == "device" for verdict in self.verdicts)


def split(
    model: ir.Model,
    target: Target,
    *,
    given: Mapping[str, QFormat] | None = None,
    judge: Judge = why_not,
    wish: Callable[[Sequence[Site]], Wishes] = lambda sites: Wishes(),
) -> Split:
    """Place every node and cut the model into stages. `model` is left as it is.

    `given` are the formats of `Cleaned.given`, handed on to the stages; `wish` says what else is wanted. A model
    of which nothing runs on the device is one host stage: the caller decides what to say (`device_nodes` is 0).
    """
    sites = sites_of(model)
    nodes = tuple(model.graph)
    graph = _graph(sites, nodes)
    wishes = wish(sites)
    reasons = [(wishes.host[at],) if at in wishes.host else judge(site, target) for at, site in enumerate(sites)]
    precise = {at for at, wanted in wishes.precision.items() if wanted in ("fx32", "fp16")}
    placement = place(graph, reasons, wishes.device, precise)
    order = sorted(set(placement.levels))
    stage_of = {level: at for at, level in enumerate(order)}
    precision = {sites[at].outputs[0]: wanted for at, wanted in wishes.precision.items()}
    precision |= wishes.input_precision
    stages = tuple(_stage(model, nodes, placement, level, given or {}, precision) for level in order)
    return Split(stages, tuple(_verdict(site, at, placement, stage_of) for at, site in enumerate(sites)))


def _graph(sites: tuple[Site, ...], nodes: Sequence[ir.Node]) -> Graph:
    position = {node: at for at, node in enumerate(nodes)}
    before = [
        tuple(sorted({position[maker] for value in _reads(node) if (maker := value.producer()) in position}))
        for node in nodes
    ]
    after: list[list[int]] = [[] for _ in nodes]
    for at, sources in enumerate(before):
        for source in sources:
            after[source].append(at)
    return Graph(sites, tuple(before), tuple(tuple(readers) for readers in after))


def _reads(node: ir.Node) -> list[ir.Value]:
    """What a node reads of the graph it stands in, its subgraphs included."""
    graph = node.graph
    values = [value for value in node.inputs if value is not None]
    for attr in node.attributes.values():
        graphs = [attr.as_graph()] if attr.type == ir.AttributeType.GRAPH else []
        for inner in attr.as_graphs() if attr.type == ir.AttributeType.GRAPHS else graphs:
            for deep in inner.all_nodes():
                values += [value for value in deep.inputs if value is not None and value.graph is graph]
            values += [value for value in inner.outputs if value.graph is graph]
    return values


def _stage(
    model: ir.Model,
    nodes: Sequence[ir.Node],
    placement: Placement,
    level: int,
    given: Mapping[str, QFormat],
    precision: Mapping[str, Precision],
) -> Stage:
    """The nodes of one level as a model of their own."""
    mine = [node for node, at in zip(nodes, placement.levels, strict=True) if at == level]
    made = {value for node in mine for value in node.outputs}
    others = [node for node, at in zip(nodes, placement.levels, strict=True) if at != level]
    wanted = {value for node in others for value in _reads(node)} | set(model.graph.outputs)
    offered = [*model.graph.inputs, *(value for node in others for value in node.outputs)]
    read = {value for node in mine for value in _reads(node)}
    inputs = [value for value in offered if value in read]
    final = [value for value in dict.fromkeys(model.graph.outputs) if value in made]
    outputs = [value for node in mine for value in node.outputs if value in wanted and value not in final] + final
    graph = ir.convenience.extract(model.graph, inputs, outputs)
    _order_initializers(graph, model.graph)
    graph.name = f"{model.graph.name or 'model'}_{level}"
    graph.opset_imports.update(model.opset_imports)
    piece = attach(ir.Model(graph, ir_version=model.ir_version, producer_name=model.producer_name))
    inside = {*_names([*graph.inputs, *graph.initializers.values()]), *_names([v for n in graph for v in n.outputs])}
    formats = {name: fmt for name, fmt in given.items() if name in inside}
    required = [value for value in inputs if not value.is_initializer()]  # one with a default need not be fed
    if level % 2 == 0:
        return Stage("host", piece, _names(required), _names(outputs), formats)
    own = {value.name for node in mine for value in node.outputs} | set(_names(required))
    computed = {name: wanted for name, wanted in precision.items() if name in own}
    return Stage("device", piece, _names(required), _names(outputs), formats, computed)


def _order_initializers(graph: ir.Graph, like: ir.Graph) -> None:
    """Initializers in the order of the whole model: `extract` collects them in a set, which has none."""
    mine = {name: graph.initializers.pop(name) for name in list(graph.initializers)}
    for name in like.initializers:
        if name in mine:
            graph.initializers[name] = mine.pop(name)
    for name in sorted(mine):
        graph.initializers[name] = mine[name]


def _names(values: Sequence[ir.Value]) -> tuple[str, ...]:
    return tuple(value.name or "" for value in values)


def _verdict(site: Site, at: int, placement: Placement, stage_of: Mapping[int, int]) -> Verdict:
    level, reasons = placement.levels[at], placement.reasons[at]
    said = tuple(f"{reason.rule} Here {reason.seen}." if reason.seen else reason.rule for reason in reasons)
    advice = tuple(dict.fromkeys(reason.advice for reason in reasons if reason.advice))
    kind: Literal["host", "device"] = "device" if level % 2 else "host"
    return Verdict(site.name, site.index, site.op, kind, stage_of[level], said, advice, macs(site))
