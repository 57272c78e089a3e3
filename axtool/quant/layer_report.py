"""A model that was just compiled and its calibration samples  ->  what each layer loses, in short.

A few samples are enough to find the layer that is worst: those that were held back when the recipe was chosen, where
there are any. A large model has fewer of them, so that the check stays cheap beside calibration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from axtool.artefact.axm import DeviceStage, HostStage
from axtool.graph.split import Stage
from axtool.inputs.notice import Notice, warning
from axtool.inputs.samples import Samples
from axtool.quant.advice import Context, Finding, worst_layers
from axtool.quant.calibrate import held_back
from axtool.quant.layer_figures import FEW_LEVELS, LayerFigures
from axtool.quant.layers import check_layers
from axtool.quant.observe import Progress
from axtool.quant.tie_costs import TieCost, tie_costs, tie_notices
from axtool.quant.ties import tie
from axtool.quant.wide import candidates
from axtool.runtime.device import DeviceSession
from axtool.runtime.model import HostSession
from axtool.target import Target
from axtool.types import Program, Quantization, Site

MOST_SAMPLES = 8
MOST_VALUES = 1 << 25  # of all layers and samples
ENOUGH = 64  # values of a channel of one sample, before its levels say anything
_SHOWN = 4


@dataclass(frozen=True)
class LayerReport:
    """The worst layers of all that were checked on some samples, what ties cost, and what the user should look at."""

    samples: int = 0
    layers: int = 0
    worst: tuple[Finding, ...] = ()
    ties: tuple[TieCost, ...] = ()
    notices: tuple[Notice, ...] = ()

    def to_dict(self) -> dict[str, Any] | None:
        """What is stored in a compiled model; None where no layer was checked."""
        if not self.samples:
            return None
        return {"samples": self.samples, "checked": self.layers, "worst": [found.to_dict() for found in self.worst]}


def report_layers(
    stages: Sequence[Stage],
    made: Sequence[HostStage | DeviceStage],
    numbers: Sequence[Quantization],
    samples: Samples | None,
    target: Target,
    *,
    factors: Mapping[str, Sequence[float]] | None = None,
    rounded: bool = False,
    progress: Progress | None = None,
) -> LayerReport:
    """Check the layers on some of the samples; without samples only what the formats alone say about ties.

    `numbers` are of the device stages, `factors` as of `check_layers`, `rounded` says that the weights were rounded for
    the data.
    """
    devices = [stage for stage in stages if stage.kind == "device"]
    sites = [stage.sites for stage in devices]
    if samples is None:
        ties = _ties(sites, numbers, {})
        return LayerReport(ties=ties, notices=tie_notices(ties))
    programs = [stage.plan.program for stage in made if isinstance(stage, DeviceStage)]
    chosen = samples.select(chosen_samples(len(samples), sum(map(_values, programs))))
    sessions = [HostSession(s) if isinstance(s, HostStage) else DeviceSession(s.plan, freeze=False) for s in made]
    figures, energy = check_layers(stages, sessions, chosen, target, factors, progress)
    by_tensor = {row.layer.outputs[0]: row for row in figures}
    wide = frozenset(
        name for stage, rows in zip(devices, sites, strict=True) for name in _could_be_int16(stage, rows, target)
    )
    flat = [site for rows in sites for site in rows]
    worst = worst_layers(figures, Context(flat, numbers, by_tensor, energy, wide, rounded, target.formats))
    ties = _ties(sites, numbers, by_tensor)
    outputs = [name for program in programs for name in program.outputs]
    notices = (*tie_notices(ties), *part_notices(flat, by_tensor, outputs))
    return LayerReport(len(chosen), len(figures), worst, ties, notices)


def chosen_samples(count: int, values: int) -> list[int]:
    """Which of `count` samples are looked at, where all layers together make `values` values of one."""
    held = sorted(held_back(count, 0)) or list(range(count))
    number = max(1, min(len(held), MOST_SAMPLES, MOST_VALUES // max(values, 1)))
    return [held[(2 * at + 1) * len(held) // (2 * number)] for at in range(number)]


def part_notices(
    sites: Sequence[Site], figures: Mapping[str, LayerFigures], outputs: Sequence[str]
) -> tuple[Notice, ...]:
    """Parts of a tensor that its format has hardly any levels for: what is cut out of it, channels of a result."""
    cut = [site for site in sites if site.op in ("Slice", "Split")]
    few = [
        f"'{name}' {len(figures[name].levels)} of '{site.inputs[0]}'"
        for site in cut
        for name in site.outputs
        if name in figures and figures[name].values >= ENOUGH and _few(figures[name])
    ]
    notices = []
    if few:
        what = f"parts that use fewer than {FEW_LEVELS} levels of the tensor that they are cut from: {_some(few)}"
        notices.append(warning("few-levels-part", what))
    channels = list(_poor_outputs(figures, outputs))
    if channels:
        what = f"outputs with channels that use fewer than {FEW_LEVELS} levels: {_some(channels)}"
        notices.append(warning("few-levels-channels", f"{what}; give such parts a layer or an output of their own"))
    return tuple(notices)


def _few(figures: LayerFigures) -> bool:
    return figures.varies and figures.used_levels is not None and figures.used_levels < FEW_LEVELS


def _poor_outputs(figures: Mapping[str, LayerFigures], outputs: Sequence[str]) -> Iterator[str]:
    for name in outputs:
        if name in figures:
            few, channels = figures[name].few_level_channels
            if 0 < few < channels and figures[name].values >= ENOUGH * channels:
                yield f"'{name}' {few} of {channels}"


def _ties(
    sites: Sequence[Sequence[Site]], numbers: Sequence[Quantization], figures: Mapping[str, LayerFigures]
) -> tuple[TieCost, ...]:
    return tuple(cost for rows, stage in zip(sites, numbers, strict=True) for cost in tie_costs(rows, stage, figures))


def _could_be_int16(stage: Stage, sites: Sequence[Site], target: Target) -> Iterator[str]:
    """Tensors whose group of one format can be int16."""
    roots = set(candidates(sites, stage.inputs, stage.outputs, target, stage.given, stage.precision))
    yield from (
        name
        for name, root in tie(sites, stage.inputs, stage.outputs, stage.given, stage.precision).root.items()
        if root in roots
    )


def _values(program: Program) -> int:
    return sum(prod(program.tensors[layer.outputs[0]].shape) for layer in program.layers)


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
