"""The nodes of a device stage and their precision  ->  what a compiler of transformers calls kernels: regions by kind.

A region is a group of nodes that the device runs as one step, or as steps that hand their tensors on chip: a linear in
fp16 with its bias and activation, an attention block, a feed-forward block between its two sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from axtool.graph.split import Stage
from axtool.types import Precision, Site

Kind = Literal[
    "fp16 linear", "fp16 linear of int8", "self-attention", "cross-attention", "cross-attention of constant queries",
    "feed-forward block",
]  # fmt: skip
MOVES = ("Reshape", "Transpose", "Slice", "Split", "Squeeze", "Unsqueeze", "Flatten", "Identity")
ACTIVATIONS = ("Relu", "Gelu", "Silu", "HardSwish", "LeakyRelu", "Clip", "Tanh", "Sigmoid", "Mish")


@dataclass(frozen=True, slots=True)
class Region:
    """`nodes` are positions among the sites; `name` is that of the node that gives the region its kind."""

    kind: Kind
    name: str
    nodes: tuple[int, ...]


def regions_of(sites: Sequence[Site], precision: Mapping[str, Precision]) -> tuple[Region, ...]:
    """The regions in the order of the graph; `precision` by first output, as in `Stage.precision`."""
    graph = _Graph(sites, precision)
    found = [graph.attention(at) for at, site in enumerate(sites) if site.op == "Attention"]
    found += [region for at, site in enumerate(sites) if (region := graph.linear(at)) is not None]
    found += [region for at, site in enumerate(sites) if (region := graph.feed_forward(at)) is not None]
    return tuple(sorted(found, key=lambda region: region.nodes))


def counted(regions: Iterable[Region]) -> dict[str, int]:
    """How many there are of each kind, the most common first."""
    return {str(kind): count for kind, count in Counter(region.kind for region in regions).most_common()}


def count_of(stages: Iterable[Stage]) -> dict[str, int]:
    """How many regions of each kind the device stages of a model hold."""
    held = [region for stage in stages if stage.kind == "device" for region in regions_of(stage.sites, stage.precision)]
    return counted(held)


class _Graph:
    def __init__(self, sites: Sequence[Site], precision: Mapping[str, Precision]) -> None:
        self.sites, self.precision = sites, precision
        self.maker = {name: at for at, site in enumerate(sites) for name in site.outputs if name}
        self.readers: dict[str, list[int]] = {}
        for at, site in enumerate(sites):
            for name in dict.fromkeys(site.inputs):
                self.readers.setdefault(name, []).append(at)

    def attention(self, at: int) -> Region:
        site = self.sites[at]
        query, key = site.inputs[:2]
        if query in site.constants:
            kind: Kind = "cross-attention of constant queries"
        else:
            kind = "self-attention" if self._tokens(query) == self._tokens(key) else "cross-attention"
        return Region(kind, site.name, (at,))

    def linear(self, at: int) -> Region | None:
        """A product with weights in fp16, with the bias and the Relu that are in fp16 too."""
        site = self.sites[at]
        weight = self._weight(site)
        if site.op not in ("MatMul", "Gemm", "Conv") or weight is None or not self._is_fp16(at):
            return None
        nodes = [at]
        bias = self._only_reader(site.outputs[0])
        if site.op == "MatMul":
            if bias is None or not self._is_fp16(bias) or self.sites[bias].op != "Add":
                return None  # a plain product: its sum is an op of its own
            nodes.append(bias)
        relu = self._only_reader(self.sites[nodes[-1]].outputs[0])
        if relu is not None and self._is_fp16(relu) and self.sites[relu].op == "Relu":
            nodes.append(relu)
        kind: Kind = "fp16 linear of int8" if self._reads_int8(site.inputs[0]) else "fp16 linear"
        return Region(kind, site.name, tuple(nodes))

    def feed_forward(self, at: int) -> Region | None:
        """linear, activation, linear, and the sum with the tokens that the first reads, or its norm."""
        if self.sites[at].op != "Add":
            return None
        for value, residual in (self.sites[at].inputs, self.sites[at].inputs[::-1]):
            second = self._rows(value, at)
            middle = self._made(second[0], *ACTIVATIONS) if second is not None else None
            first = self._rows(self.sites[middle].inputs[0], middle) if middle is not None else None
            if second is None or middle is None or first is None:
                continue
            read = self._past(first[0])
            norm = self._made(read, "LayerNormalization")
            if self._past(residual) in (read, self.sites[norm].inputs[0] if norm is not None else read):
                return Region("feed-forward block", self.sites[at].name, (*first[1], middle, *second[1], at))
        return None

    def _rows(self, value: str, reader: int) -> tuple[str, tuple[int, ...]] | None:
        """What a linear reads that makes the value for this reader alone, and its nodes."""
        nodes: list[int] = []
        while self._only_reader(value) == reader and value in self.maker:
            at = self.maker[value]
            site = self.sites[at]
            nodes.insert(0, at)
            if site.op in ("MatMul", "Gemm") and self._weight(site) is not None:
                return site.inputs[0], tuple(nodes)
            data = [name for name in site.inputs if name and name not in site.constants]
            if len(data) != 1 or site.op not in ("Add", *MOVES):
                return None
            value, reader = data[0], at
        return None

    def _past(self, name: str) -> str:
        """What a value is moved from."""
        while name in self.maker and self.sites[self.maker[name]].op in MOVES:
            name = self.sites[self.maker[name]].inputs[0]
        return name

    def _tokens(self, name: str) -> str:
        """The tokens that queries or keys are made of: through moves, sums with constants and one product."""
        products = 0
        while name in self.maker:
            site = self.sites[self.maker[name]]
            data = [value for value in site.inputs if value and value not in site.constants]
            product = site.op in ("MatMul", "Gemm", "Conv") and self._weight(site) is not None
            products += product
            if len(data) != 1 or products > 1 or not (product or site.op in ("Add", *MOVES)):
                return name
            name = data[0]
        return name

    def _made(self, name: str, *ops: str) -> int | None:
        at = self.maker.get(name)
        return at if at is not None and self.sites[at].op in ops else None

    def _only_reader(self, name: str) -> int | None:
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 else None

    def _is_fp16(self, at: int) -> bool:
        return self.precision.get(self.sites[at].outputs[0]) == "fp16"

    def _reads_int8(self, name: str) -> bool:
        """Whether the values are stored in int8: what moves them keeps what they are."""
        source = self._past(name)
        if source in self.maker:
            source = self.sites[self.maker[source]].outputs[0]
        return self.precision.get(source, "int8") == "int8"

    def _weight(self, site: Site) -> NDArray[Any] | None:
        array = site.constants.get(site.inputs[1]) if len(site.inputs) > 1 else None
        return array if array is not None and array.dtype == np.float32 else None
