"""A recipe and the stages of a model  ->  how integers are scaled: which tensors have zero point 0, which weights one
scale, and where and when the range of a tensor is looked for.

All three are said of the tensors that decide a format: what shares it changes along.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from axtool.graph.split import Stage
from axtool.ops.precise import PRECISE
from axtool.quant.matches import Hit
from axtool.quant.recipe_entry import Entry
from axtool.quant.recipe_file import RecipeFile
from axtool.types import Site

Roots = Mapping[str, tuple[str, ...]]  # by tensor: the tensors that decide its format, one for each stage


@dataclass(frozen=True)
class Read:
    """How the range is found in which int8 nodes read a tensor that is stored in fx32 or fp16: one of its own."""

    way: tuple[str, float] | None = None  # (method, percentile); None: as the recipe that is tried
    turn: int = 1
    span: tuple[float, float] | None = None  # given by hand


@dataclass(frozen=True)
class Scales:
    """`symmetric` are tensors with zero point 0, of which those in `after_relu` have zero point -128 and all steps for
    what is not negative; `per_tensor` are MAC sites, by their first output, with one scale for all weights. True and
    False stand for all and none. `turns` are those above 1, of every tensor that has one; `reads` are by tensor.
    """

    symmetric: bool | frozenset[str] = False
    after_relu: frozenset[str] = frozenset()
    per_tensor: bool | frozenset[str] = False
    turns: Mapping[str, int] = field(default_factory=dict)
    reads: Mapping[str, Read] = field(default_factory=dict)

    @property
    def later(self) -> tuple[int, ...]:
        """The turns after the first in which something is looked for."""
        return tuple(sorted({*self.turns.values(), *(read.turn for read in self.reads.values())} - {1}))


def scales_of(file: RecipeFile, found: Sequence[Hit], stages: Sequence[Stage], roots: Roots) -> Scales:
    """What the recipe says of scales; `found` is what its entries mean. Later entries win."""
    sites = [site for stage in stages if stage.kind == "device" for site in stage.sites]
    precise = _precise(stages, roots)
    makers = {name: site for site in sites for name in site.outputs}
    tops = dict.fromkeys(top for names in roots.values() for top in names)
    styles = dict.fromkeys(tops, file.activations)
    grains = dict.fromkeys((site.outputs[0] for site in sites), file.weights)
    turns: dict[str, int] = {}
    reads: dict[str, Read] = {}
    for entry, hit in zip(file.layers, found, strict=True):
        mine = [top for name in hit.tensors for top in roots.get(name, ())]
        read = _read_otherwise([makers[name] for name in hit.tensors if name in makers], roots, precise)
        if entry.activations is not None:
            styles |= dict.fromkeys((*mine, *read), entry.activations)
        if entry.weights is not None:
            grains |= {name: entry.weights for name in hit.tensors if name in grains}
        if entry.turn is not None:
            turns |= dict.fromkeys(mine, entry.turn)
        if entry.way is not None or entry.turn is not None or entry.range is not None:
            reads |= {top: _read(entry, reads.get(top, Read())) for top in read}
    symmetric = frozenset(top for top, style in styles.items() if style.symmetric)
    cleared = _cleared(sites, roots)
    after_relu = frozenset(top for top, style in styles.items() if style.asymmetric_after_relu and top in cleared)
    per_tensor = frozenset(name for name, grain in grains.items() if grain.granularity == "tensor")
    late = {name: max(turns.get(top, 1) for top in mine) for name, mine in roots.items() if mine}
    return Scales(
        _all_or(symmetric, tops),
        after_relu,
        _all_or(per_tensor, grains),
        {name: turn for name, turn in late.items() if turn > 1},
        reads,
    )


def _precise(stages: Sequence[Stage], roots: Roots) -> set[str]:
    """The tensors that decide a format which is fx32 or fp16: what nodes of that precision make, and inputs."""
    asked = [name for stage in stages for name, kind in stage.precision.items() if kind in PRECISE]
    return {top for name in asked for top in roots.get(name, ())}


def _read_otherwise(sites: Sequence[Site], roots: Roots, precise: set[str]) -> list[str]:
    """What int8 nodes read that is stored in fx32 or fp16."""
    whole = [site for site in sites if precise.isdisjoint(roots.get(site.outputs[0], ()))]
    read = [top for site in whole for name in site.inputs for top in roots.get(name, ()) if top in precise]
    return list(dict.fromkeys(read))


def _read(entry: Entry, before: Read) -> Read:
    span = (entry.range[0], entry.range[1]) if entry.range else None
    return Read(entry.way or before.way, entry.turn or before.turn, span or (None if entry.way else before.span))


def _all_or(chosen: frozenset[str], names: Collection[str]) -> bool | frozenset[str]:
    """True for all names, False for none of them."""
    return bool(chosen) if len(chosen) in (0, len(names)) else chosen


def _cleared(sites: Sequence[Site], roots: Roots) -> set[str]:
    """The tensors from which a Relu, or a Clip at 0, has taken what is negative."""
    clearing = [s for s in sites if s.op == "Relu" or (s.op == "Clip" and float(s.attrs["min"]) >= 0)]
    return {top for site in clearing for top in roots.get(site.outputs[0], ()) if top in site.outputs}
