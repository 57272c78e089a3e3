"""Formats of a device stage and the figures of its layers  ->  what it costs that tensors share a format.

A tensor that the device only moves has its input's format, whatever its own values need; what a Concat joins is
rescaled to one format. The cost is how many times coarser the steps are than the tensor alone would have them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axtool.inputs.notice import Notice, warning
from axtool.quant.layer_figures import LayerFigures
from axtool.quant.ties import moved
from axtool.types import Quantization, Site

TOLD = 1.05  # below this there is no cost
LARGE = 16.0  # four of eight bits
_SHOWN = 4


@dataclass(frozen=True)
class TieCost:
    """`tensor` has steps `factor` times coarser than it needs, because it shares the format of `shared`."""

    tensor: str
    shared: str
    factor: float

    @property
    def decibels(self) -> float:
        return 20 * math.log10(self.factor)

    def to_dict(self) -> dict[str, Any]:
        return {"tensor": self.tensor, "shared": self.shared, "factor": self.factor, "cost_db": self.decibels}

    def __str__(self) -> str:
        return f"{self.factor:.3g}x coarser with '{self.shared}', {self.decibels:.0f} dB"


def tie_costs(
    sites: Sequence[Site], numbers: Quantization, figures: Mapping[str, LayerFigures] | None = None
) -> tuple[TieCost, ...]:
    """The cost of each tie, in graph order. Of what is only moved it is known where `figures` were measured."""
    costs = []
    for site in sites:
        whole = numbers.formats.get(site.outputs[0])
        if whole is None or not whole.scale:  # fx32 and fp16 have no steps to lose
            continue
        source = moved(site)
        if source is not None:
            same = [name for name in site.outputs if name and numbers.formats.get(name) == numbers.formats.get(source)]
            costs += [_moved(name, source, figures or {}) for name in same]
        elif site.op == "Concat":
            formats = {name: numbers.formats[name] for name in site.inputs if name in numbers.formats}
            parts = [name for name, fmt in formats.items() if fmt.kind == whole.kind]  # other widths have other steps
            factors = {name: whole.scale[0] / numbers.formats[name].scale[0] for name in parts}
            costs += [TieCost(name, site.outputs[0], factor) for name, factor in factors.items()]
    return tuple(cost for cost in costs if cost.factor > TOLD)


def add_to_figures(costs: Sequence[TieCost], figures: Mapping[str, LayerFigures]) -> None:
    """The largest cost of each tensor that was checked."""
    for cost in costs:
        row = figures.get(cost.tensor)
        if row is not None and cost.factor > row.tie_factor:
            row.tie_factor, row.tied_to = cost.factor, cost.shared


def tie_notices(costs: Sequence[TieCost]) -> tuple[Notice, ...]:
    """A warning where ties cost much."""
    large = [f"'{cost.tensor}' {cost}" for cost in costs if cost.factor >= LARGE]
    if not large:
        return ()
    what = f"tensors that lose much by sharing a format: {', '.join(large[:_SHOWN])}"
    more = f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else ""
    return (warning("tied-format", f"{what}{more}"),)


def _moved(name: str, source: str, figures: Mapping[str, LayerFigures]) -> TieCost:
    """What its own values need, against those of the tensor whose format it has."""
    own, other = figures.get(name), figures.get(source)
    if own is None or own.reach <= 0:
        return TieCost(name, source, 1.0)
    needed = own.coarser if other is None or other.reach <= 0 else other.reach / own.reach
    return TieCost(name, source, max(needed, 1.0))
