"""The nodes of a device stage  ->  what could change format together: nodes to fp16, fx32 or float, tensors to int16.

One node alone gains little where its neighbours round again what it made. So the candidates are single matrix products,
each with its bias and Relu, and whole streams: all sums, norms and functions that follow each other without a product
or a convolution between them. To the host, in float, go the ends of a stage: what is behind the last product on the way
to an output, with it, or the first product behind an input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from axtool.ops.limits_precise import why_not_precise
from axtool.ops.precise import is_bias, moves_whole
from axtool.target import Target
from axtool.types import Precision, Site

PRODUCTS = ("MatMul", "Gemm", "Attention", "Conv")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Mixture:
    """`format` for nodes, by their first outputs, float on the host; or int16 for the tensor `name`."""

    format: Precision | Literal["float"]
    name: str  # of the first node, or of the tensor
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.nodes:
            return f"'{self.name}' in int16"
        more = f" and {len(self.nodes) - 1} more" if len(self.nodes) > 1 else ""
        return f"'{self.name}'{more} in {self.format}"

    def precision(self) -> dict[str, Precision]:
        """What it asks of nodes of the device."""
        return {} if self.format == "float" else dict.fromkeys(self.nodes, self.format)


def mixtures(sites: Sequence[Site], target: Target, formats: Collection[str]) -> tuple[Mixture, ...]:
    """The candidates in fp16 and fx32 of the nodes that are in int8 now, streams before single products."""
    found: list[Mixture] = []
    if "fx32" in formats and "fx32" in target.formats:
        able = [site for site in sites if not (moves_whole(site) or _bias_of_product(site))]
        able = [site for site in able if not why_not_precise(site, "fx32", target)]
        found += [_mixture("fx32", group) for group in _streams(able, sites)]
    if "fp16" in formats and "fp16" in target.formats:
        found += [_mixture("fp16", group) for group in _products(sites, target)]
    return tuple(found)


def ends(sites: Sequence[Site], inputs: Collection[str], outputs: Sequence[str]) -> tuple[Mixture, ...]:
    """The ends of a stage that could go to the host."""
    makers = {name: site for site in sites for name in site.outputs}
    found: list[Mixture] = []
    for output in outputs:
        group, waiting = dict[int, Site](), [output]
        while waiting:
            site = makers.get(waiting.pop())
            if site is not None and site.index not in group:
                group[site.index] = site
                waiting += [] if site.op in PRODUCTS or "Conv" in site.op else site.inputs
        found += [_mixture("float", [group[at] for at in sorted(group)])] if group else []
    first = [site for site in sites if site.op in PRODUCTS and inputs and site.inputs[0] in inputs]
    return (*found, *(_mixture("float", [site]) for site in first))


def _mixture(kind: Precision | Literal["float"], group: Sequence[Site]) -> Mixture:
    return Mixture(kind, group[0].name or group[0].outputs[0], tuple(site.outputs[0] for site in group))


def _streams(able: Sequence[Site], sites: Sequence[Site]) -> list[list[Site]]:
    """Groups of nodes that hand values to each other, moves between them left out of account."""
    source: dict[str, str] = {}  # through moves
    for site in sites:
        if moves_whole(site) and site.inputs:
            source |= {name: source.get(site.inputs[0], site.inputs[0]) for name in site.outputs}
    makers = {name: at for at, site in enumerate(able) for name in site.outputs}
    group = list(range(len(able)))

    def top(at: int) -> int:
        while group[at] != at:
            at = group[at]
        return at

    for at, site in enumerate(able):
        for name in site.inputs:
            before = makers.get(source.get(name, name))
            if before is not None:
                group[max(top(at), top(before))] = min(top(at), top(before))
    members: dict[int, list[Site]] = {}
    for at, site in enumerate(able):
        members.setdefault(top(at), []).append(site)
    return list(members.values())


def _products(sites: Sequence[Site], target: Target) -> Iterable[list[Site]]:
    """Each matrix product, with the bias and the Relu that nobody else reads it through."""
    readers: dict[str, list[Site]] = {}
    for site in sites:
        for name in site.inputs:
            readers.setdefault(name, []).append(site)
    for site in sites:
        if site.op not in PRODUCTS or why_not_precise(site, "fp16", target):
            continue
        group = [site]
        while len(next_ := readers.get(group[-1].outputs[0], [])) == 1 and _goes_along(next_[0], group, target):
            group.append(next_[0])
        yield group


def _goes_along(site: Site, group: Sequence[Site], target: Target) -> bool:
    """Whether a node is the bias behind a product without one, or the Relu at its end."""
    if why_not_precise(site, "fp16", target):
        return False
    if site.op == "Relu":
        return group[-1].op != "Relu"
    return len(group) == 1 and group[0].op == "MatMul" and _bias_of_product(site)


def _bias_of_product(site: Site) -> bool:
    return is_bias(site) and "MatMul" in site.makers.values()


def precision_of_all(chosen: Iterable[Mixture]) -> Mapping[str, Precision]:
    """What all of them ask of nodes; a later one wins."""
    return {name: kind for mixture in chosen for name, kind in mixture.precision().items()}
