"""The entries of a recipe and the nodes of a clean model  ->  what is wanted of single nodes: the host, or a format.

Which nodes the device runs is not known yet: an entry may decide it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from axtool.errors import UsageError
from axtool.graph.split import Wishes
from axtool.ops.limits import Reason
from axtool.ops.limits_precise import FOLLOWING, why_not_precise
from axtool.ops.precise import PRECISE
from axtool.quant.matches import hits
from axtool.quant.recipe_file import RecipeFile
from axtool.target import Target
from axtool.types import Computed, Precision, Site

log = logging.getLogger("axtool")

_SHOWN = 3


@dataclass(frozen=True)
class Precisions:
    """What a recipe asks for: int8, int16, fp16 or fx32, by the position of a node and by the name of an input of the
    model. What is asked for nowhere is int8.
    """

    sites: Mapping[int, Precision] = field(default_factory=dict)
    inputs: Mapping[str, Precision] = field(default_factory=dict)

    def by_output(self, sites: Sequence[Site]) -> dict[str, Precision]:
        """The same by the first output of a node, or the name of an input."""
        return {**self.inputs, **{sites[at].outputs[0]: kind for at, kind in self.sites.items()}}


def precision_of(
    sites: Sequence[Site], recipe: RecipeFile, inputs: Sequence[str] = (), target: Target | None = None
) -> Precisions:
    """The precision of each node that an entry with a format means; later entries win, float takes an earlier one back.

    What only moves values is left out: it has the format of what it reads. A node that has no such format keeps what it
    has, with a warning. Raises UsageError as `hits`, for a format that the target lacks, and for an entry none of whose
    nodes has its format.
    """
    chosen: dict[int, Precision] = {}
    entered: dict[str, Precision] = {}
    for number, (entry, hit) in enumerate(zip(recipe.layers, hits(recipe, sites, inputs), strict=True), 1):
        kind = entry.format
        if kind is None:
            continue
        nodes = [at for at in hit.nodes if sites[at].op not in FOLLOWING or kind not in PRECISE]
        if kind in PRECISE:
            nodes = _able(sites, nodes, kind, f"layer entry {number} of recipe '{recipe.name}'", target)
        for at in nodes:
            if kind == "float":
                chosen.pop(at, None)
            else:
                chosen[at] = kind
        made = {name for at in hit.nodes for name in sites[at].outputs}
        if kind != "float":
            entered |= {name: kind for name in hit.tensors if name in inputs and name not in made}
    return Precisions(chosen, entered)


def wishes(
    file: RecipeFile,
    sites: Sequence[Site],
    inputs: Sequence[str],
    target: Target | None = None,
    stored: Mapping[str, Computed] = MappingProxyType({}),
) -> Wishes:
    """The nodes that the recipe wants in float, on the host, and in a format of the device.

    `stored` are precisions that ranges come with, by first output and by input: they hold where the recipe has none.
    Raises as `precision_of`.
    """
    host: dict[int, Reason] = {}
    device: set[int] = set()
    for number, (entry, hit) in enumerate(zip(file.layers, hits(file, sites, inputs), strict=True), 1):
        for at in hit.nodes if entry.format else ():
            host.pop(at, None)
            device.discard(at)
            if entry.format == "float":
                rule = f"The recipe '{file.name}' keeps it on the host (layer entry {number})."
                host[at] = Reason(rule, "", "Nothing to do, or take that entry out of the recipe.")
            else:
                device.add(at)
    asked = precision_of(sites, file, inputs, target)
    entered = {name: kind for name in inputs if (kind := stored.get(name, "float")) != "float"}
    kept: dict[int, Precision] = {}
    for at, site in enumerate(sites):
        bought = stored.get(site.outputs[0])
        if bought is None or at in host or at in device:
            continue
        if bought == "float":
            host[at] = Reason("It is in float for its accuracy.", "", "Nothing to do, or choose a smaller budget.")
        else:
            kept[at] = bought
    return Wishes(host, frozenset(device), {**kept, **asked.sites}, {**entered, **asked.inputs})


def _able(sites: Sequence[Site], nodes: Sequence[int], kind: str, source: str, target: Target | None) -> list[int]:
    """The nodes that have a form in fp16 or fx32; what is said of the others."""
    if target is not None and kind not in target.formats:
        raise UsageError(
            f"{source} asks for {kind}, which {target.name} does not have: its formats are {', '.join(target.formats)}",
            hint="`axtool targets` lists the chips; take the entry out, or say format: int8, int16 or float",
            code="no-such-format",
        )
    faults = {at: fault for at in nodes if (fault := why_not_precise(sites[at], kind, target))}
    if not faults:
        return list(nodes)
    told = "; ".join(list(dict.fromkeys(faults.values()))[:_SHOWN])
    if len(faults) == len(nodes):
        raise UsageError(
            f"{source} asks for {kind}, and none of its nodes has it: {told}",
            hint="fp16 is for matrix products and attention, fx32 for sums, normalization and single values",
            code="no-such-format",
            details=tuple(dict.fromkeys(faults.values())),
        )
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    log.warning("%s: %d of %d nodes keep their format: %s%s", source, len(faults), len(nodes), told, more)
    return [at for at in nodes if at not in faults]
