"""A recipe and a model that is cut  ->  what quantization follows, and the plain values that the .axm keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from axtool.graph.front import Front, Wish
from axtool.graph.sites import sites_of
from axtool.quant.matches import Hit, hits
from axtool.quant.overrides import Overrides, overrides_of
from axtool.quant.recipe import QuantRecipe
from axtool.quant.recipe_file import Kept, RecipeFile, Resolved, ResolvedEntry, Widened, recipe_from_dict
from axtool.quant.ties import given_names
from axtool.quant.wide import narrow_roots
from axtool.quant.widen import Step
from axtool.quant.wishes import wishes
from axtool.target import Target


@dataclass(frozen=True)
class Followed:
    """A recipe, what its entries mean in one model, and what they change there."""

    file: RecipeFile
    layers: tuple[ResolvedEntry, ...]
    overrides: Overrides

    def to_dict(self, kept: QuantRecipe | None, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """The recipe as `recipe_from_dict` reads it, with what became of it; without `kept` nothing was tried."""
        file = self.file if kept else self.file.model_copy(update={"recipes": None, "refine": None, "budget": None})
        resolved = Resolved(
            kept=None if kept is None else Kept.of(kept),
            layers=list(self.layers),
            int16=[Widened.model_validate(step.to_dict()) for step in steps],
        )
        return {**file.to_dict(), "resolved": resolved.model_dump(mode="json", exclude_none=True)}


def wish_of(file: RecipeFile) -> Wish | None:
    """What `read_front` asks for the nodes that the recipe wants on the host or on the device."""
    return partial(wishes, file) if file.layers else None


def stored_wish(quantization: Mapping[str, Any]) -> Wish | None:
    """The same for a model that was compiled: its source is cut where it was then. Raises UsageError."""
    stored = quantization.get("recipe")
    return wish_of(recipe_from_dict(stored, "the recipe in the file")) if stored else None


def follow(file: RecipeFile, front: Front, target: Target) -> Followed:
    """What the recipe means in a model. Raises UsageError for names that mean nothing in it, and for tensors that
    cannot be int16 there.
    """
    if not file.layers:
        return Followed(file, (), overrides_of(file, (), front.parts.stages))
    sites = sites_of(front.cleaned.model)
    found = hits(file, sites, [spec.name for spec in front.inputs])
    entries = tuple(_entry(hit, [site.name for site in sites]) for hit in found)
    narrow: dict[str, str] = {}
    for stage in front.parts.stages if any(entry.format == "int16" for entry in file.layers) else ():
        if stage.kind == "device":
            own = stage.sites
            narrow |= narrow_roots(own, stage.inputs, stage.outputs, target, given_names(stage.given, own))
    return Followed(file, entries, overrides_of(file, found, front.parts.stages, narrow))


def _entry(hit: Hit, names: list[str]) -> ResolvedEntry:
    return ResolvedEntry(nodes=[names[at] for at in hit.nodes], tensors=list(hit.tensors))
