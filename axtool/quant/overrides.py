"""A recipe and the stages of a model  ->  what it changes, by the tensor whose range decides a format.

Tensors that share a format change together: what an entry says of one is said of all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from axtool.errors import UsageError
from axtool.graph.split import Stage
from axtool.quant.matches import Hit
from axtool.quant.ranges import Ranges
from axtool.quant.recipe_file import RecipeFile
from axtool.quant.scales import Scales, scales_of
from axtool.quant.ties import given_names, tie
from axtool.types import Quantization

log = logging.getLogger("axtool")

Range = tuple[float, float]
_SHOWN = 4


@dataclass(frozen=True)
class Overrides:
    """What is different from the recipe that is tried, by tensor; `why` names the entries in words."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    methods: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    wide: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    scales: Scales = field(default_factory=Scales)

    def over(self, ranges: Ranges) -> Ranges:
        """Ranges with those of the recipe in their places."""
        return replace(ranges, tensors={**ranges.tensors, **self.ranges}) if self.ranges else ranges

    def explained(self, numbers: Quantization) -> Quantization:
        """The same numbers; where an entry decided, the reason names it."""
        told = {name: f"{numbers.reasons.get(name, '')}; {why}" for name, why in self.why.items()}
        shown = {name: text for name, text in told.items() if name in numbers.formats}
        return replace(numbers, reasons={**numbers.reasons, **shown}) if shown else numbers


def overrides_of(
    file: RecipeFile, found: Sequence[Hit], stages: Sequence[Stage], narrow: Mapping[str, str] = MappingProxyType({})
) -> Overrides:
    """What the recipe changes in these stages; `found` is what its entries mean, `narrow` why a tensor cannot be int16.
    Later entries win.

    Warns of an entry that has something to say of tensors, none of which is on the device and open to change, and of
    tensors that stay int8. Raises UsageError for an entry that asks for int16 where no tensor can be.
    """
    roots, given = _roots(stages)
    ranges: dict[str, Range] = {}
    methods: dict[str, tuple[str, float]] = {}
    wide: dict[str, str] = {}
    why: dict[str, dict[str, str]] = {}
    for number, (entry, hit) in enumerate(zip(file.layers, found, strict=True), 1):
        source = f"layer entry {number} of recipe '{file.name}'"
        mine = {name: roots[name] for name in hit.tensors if name in roots}
        free = {name: tops for name, tops in mine.items() if not given.intersection(tops)}
        if hit.tensors and entry.format != "float" and not free:
            held = "the model brings the formats of" if mine else "the device does not have"
            log.warning("%s changes nothing: %s %s", source, held, _some(hit.tensors))
        if entry.format == "int16":
            faults = {name: narrow[top] for name, tops in free.items() for top in tops if top in narrow}
            _say_narrow(source, faults, free)
        for name, tops in free.items():
            for top in tops:
                if entry.format is not None:
                    wide.pop(top, None)
                    widened = entry.format == "int16" and top not in narrow
                    if widened:
                        wide[top] = name
                    _note(why, (name, top), "format", f"int16 by {source}" if widened else "")
                if entry.range is not None or entry.way is not None:
                    ranges.pop(top, None)
                    methods.pop(top, None)
                    told = f"range by {source}" if entry.way is None else f"{entry.way[0]} by {source}"
                    _note(why, (name, top), "range", told)
                if entry.range is not None:
                    ranges[top] = (entry.range[0], entry.range[1])
                elif entry.way is not None:
                    methods[top] = entry.way
    words = {name: "; ".join(text for text in parts.values() if text) for name, parts in why.items()}
    told_of = {name: text for name, text in words.items() if text}
    return Overrides(ranges, methods, tuple(wide), told_of, scales_of(file, found, stages, roots))


def _say_narrow(source: str, faults: Mapping[str, str], asked: Collection[str]) -> None:
    """Say which of the tensors that are to be int16 stay int8, and the first reason."""
    if not faults:
        return
    if len(faults) == len(asked):
        raise UsageError(
            f"{source} asks for int16, and none of its tensors can be: {next(iter(faults.values()))}",
            hint="values that an op only moves share one format",
            code="not-int16",
            details=tuple(dict.fromkeys(faults.values())),
        )
    log.warning("%s: %s stay int8: %s", source, _some(tuple(faults)), next(iter(faults.values())))


def _note(why: dict[str, dict[str, str]], names: Iterable[str], aspect: str, text: str) -> None:
    for name in names:
        why.setdefault(name, {})[aspect] = text


def _roots(stages: Sequence[Stage]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
    """For each tensor of the device the ones that decide its format, one a stage; and what has a format already."""
    roots: dict[str, dict[str, None]] = {}
    given: set[str] = set()
    for stage in stages:
        if stage.kind == "device":
            sites = stage.sites
            mine = given_names(stage.given, sites)
            given |= set(mine)
            for name, top in tie(sites, stage.inputs, stage.outputs, mine, stage.precision).root.items():
                roots.setdefault(name, {})[top] = None
    return {name: tuple(tops) for name, tops in roots.items()}, given


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more
