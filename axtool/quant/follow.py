"""A recipe and a model that is cut  ->  what quantization follows, and the plain values that the .axm keeps of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from axtool.graph.front import Front, Wish
from axtool.graph.sites import sites_of
from axtool.graph.split import Split, Wishes, split
from axtool.ops.limits import Reason
from axtool.ops.precise import PRECISE
from axtool.quant.matches import Hit, hits
from axtool.quant.overrides import Overrides, overrides_of
from axtool.quant.recipe import QuantRecipe
from axtool.quant.recipe_file import Kept, Mixed, RecipeFile, Resolved, ResolvedEntry, Widened, recipe_from_dict
from axtool.quant.ties import given_names
from axtool.quant.wide import narrow_roots
from axtool.quant.widen import Step
from axtool.quant.wishes import wishes
from axtool.target import Target
from axtool.types import Computed, Precision, Site


@dataclass(frozen=True)
class Followed:
    """A recipe, what its entries mean in one model, and what they change there."""

    file: RecipeFile
    layers: tuple[ResolvedEntry, ...]
    overrides: Overrides
    precision: Mapping[str, Computed] = field(default_factory=dict)  # as `asked_of`

    def to_dict(self, kept: QuantRecipe | None, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """The recipe as `recipe_from_dict` reads it, with what became of it; without `kept` nothing was tried."""
        file = self.file if kept else self.file.model_copy(update={"recipes": None, "refine": None, "budget": None})
        resolved = Resolved(
            kept=None if kept is None else Kept.of(kept),
            layers=list(self.layers),
            precision=dict(self.precision),
            int16=[Widened.model_validate(step.to_dict()) for step in steps if not step.nodes],
            mixed=[Mixed.model_validate(step.to_dict()) for step in steps if step.nodes],
        )
        return {**file.to_dict(), "resolved": resolved.model_dump(mode="json", exclude_none=True)}


def wish_of(
    file: RecipeFile, target: Target | None = None, stored: Mapping[str, Computed] = MappingProxyType({})
) -> Wish | None:
    """What `read_front` asks for the nodes that the recipe wants on the host or on the device, in a format of it.

    `stored` are the precisions that ranges come with.
    """
    if not (file.layers or stored):
        return None
    return lambda sites, inputs: wishes(file, sites, inputs, target, stored)


def stored_wish(quantization: Mapping[str, Any]) -> Wish | None:
    """The same for a model that was compiled: its source is cut where it was then. Raises UsageError."""
    if not (stored := quantization.get("recipe")):
        return None
    file = recipe_from_dict(stored, "the recipe in the file")
    return wish_of(file, stored={} if file.resolved is None else file.resolved.precision)


def asked_of(front: Front, floats: Collection[str] = ()) -> dict[str, Computed]:
    """What was asked for nodes and inputs that is neither int8 nor int16; `floats` are nodes that a budget moved to the
    host.
    """
    found: dict[str, Computed] = dict.fromkeys(floats, "float")
    found |= {name: kind for name, kind in front.asked.items() if kind in PRECISE}
    return {name: found[name] for name in sorted(found)}


def recut(front: Front, target: Target, floats: Collection[str]) -> Split:
    """The model cut anew, with more nodes on the host: those whose first output is in `floats`."""
    reason = Reason("It is in float for its accuracy.", "", "Nothing to do, or choose a smaller budget.")
    wishes = front.wishes

    def wanted(sites: Sequence[Site]) -> Wishes:
        more = {at: reason for at, site in enumerate(sites) if site.outputs[0] in floats}
        device = frozenset(at for at in wishes.device if at not in more)
        return replace(wishes, host={**wishes.host, **more}, device=device)

    return split(front.cleaned.model, target, given=front.cleaned.given, wish=wanted)


def with_bought(front: Front, target: Target, bought: Mapping[str, Computed]) -> Front:
    """The model with what a budget bought for nodes, by their first outputs: other formats, or the host."""
    if not bought:
        return front
    floats = frozenset(name for name, kind in bought.items() if kind == "float")
    parts = recut(front, target, floats) if floats else front.parts
    stages = []
    for stage in parts.stages:
        made = {name for site in stage.sites for name in site.outputs} if stage.kind == "device" else set()
        own: dict[str, Precision] = {n: kind for n, kind in bought.items() if n in made and kind != "float"}
        stages.append(replace(stage, precision={**stage.precision, **own}) if own else stage)
    return replace(front, parts=replace(parts, stages=tuple(stages)))


def follow(file: RecipeFile, front: Front, target: Target) -> Followed:
    """What the recipe means in a model. Raises UsageError for names that mean nothing in it, and for tensors that
    cannot be int16 there.
    """
    if not file.layers:
        overrides = overrides_of(file, (), front.parts.stages)
        return Followed(file, (), overrides, asked_of(front))
    sites = sites_of(front.cleaned.model)
    found = hits(file, sites, [spec.name for spec in front.inputs], check=False)  # where it was asked first, it was
    entries = tuple(_entry(hit, [site.name for site in sites]) for hit in found)
    narrow: dict[str, str] = {}
    for stage in front.parts.stages if any(entry.format == "int16" for entry in file.layers) else ():
        if stage.kind == "device":
            own = stage.sites
            narrow |= narrow_roots(own, stage.inputs, stage.outputs, target, given_names(stage.given, own))
    overrides = overrides_of(file, found, front.parts.stages, narrow)
    return Followed(file, entries, overrides, asked_of(front))


def _entry(hit: Hit, names: list[str]) -> ResolvedEntry:
    return ResolvedEntry(nodes=[names[at] for at in hit.nodes], tensors=list(hit.tensors))
