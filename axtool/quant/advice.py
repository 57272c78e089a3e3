"""The figures of the device layers  ->  the worst of them, each with what is wrong there and the option that helps.

What is wrong is measured, not guessed. The error of a layer on its own has these parts:

- values that its output's format cannot hold;
- the rounding to that format: steps too coarse for the values, because of a tie with a wider tensor, of a range that
  rare values set, or because 256 are not enough;
- what comes in rounded, and for a layer with weights the weights, both told from each other by the sum of squares that
  each makes of the output.

The largest part decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.limits_precise import FOLLOWING, why_not_precise
from axtool.ops.precise import PRECISE
from axtool.quant.decibels import finite
from axtool.quant.layer_figures import Energy, LayerFigures
from axtool.quant.weights import channel_weights
from axtool.types import Quantization, Site

SHOWN = 3
GOOD_DB = 35.0  # on its own: nothing there is worth an option
WIDER = 4.0  # times the range that the values need: two of eight bits
RARE_RMS = 4.0  # steps: where most values are as small as that, rare ones set the range
TIED = ("as the input of", "given by the model")


@dataclass(frozen=True)
class Finding:
    """What is wrong with a layer, what would help, and as a line of a recipe file where it is one.

    `share` is what it takes of the noise that all layers make on their own, each relative to its signal: where shares
    are small, the loss is spread, and a better layer hardly shows.
    """

    figures: LayerFigures
    cause: str
    advice: str
    recipe: Mapping[str, Any] | None = None
    share: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, figures to the hundredth: what is stored in a compiled model."""
        figures = self.figures
        return {
            "op": figures.layer.op,
            "name": figures.layer.name,
            "origin": list(figures.layer.origin),
            "output": figures.layer.outputs[0],
            "single_sqnr_db": _rounded(figures.single_db),
            "accumulated_sqnr_db": _rounded(figures.accumulated_db),
            "noise_share": round(self.share, 4),
            "saturated_share": round(figures.saturated_share, 6),
            "used_levels": figures.used_levels,
            "cause": self.cause,
            "advice": self.advice,
            "recipe": None if self.recipe is None else dict(self.recipe),
        }


@dataclass(frozen=True)
class Context:
    """What is known of the device stages: sites, numbers, what was measured, and what the user may still choose."""

    sites: Sequence[Site]
    numbers: Sequence[Quantization]
    figures: Mapping[str, LayerFigures]  # by tensor
    energy: Mapping[str, Energy]  # of what layers read
    wide: frozenset[str]  # tensors that could be int16
    rounded: bool = False  # the weights are rounded for the data already
    formats: Collection[str] = ()  # of the chip


def worst_layers(figures: Iterable[LayerFigures], context: Context, shown: int = SHOWN) -> tuple[Finding, ...]:
    """The layers that lose most on their own, the worst first; none of those that lose next to nothing.

    A layer that only moves values loses what was lost when they were made, and is left out.
    """
    making = [f for f in figures if f.signal > 0 and not _only_moves(f, context)]
    total = sum(f.single / f.signal for f in making)
    worst = sorted((f for f in making if f.single_db < GOOD_DB), key=lambda f: f.single_db)[:shown]
    return tuple(replace(_finding(f, context), share=f.single / f.signal / total) for f in worst)


def _only_moves(figures: LayerFigures, context: Context) -> bool:
    return _reason(figures, context).startswith(TIED[0]) and figures.coarser < WIDER


def _finding(figures: LayerFigures, context: Context) -> Finding:
    name = figures.layer.outputs[0]
    if any(name in numbers.given for numbers in context.numbers):
        return Finding(
            figures, "it has the format that the model brings", "quantize the float model, where there is one"
        )
    if figures.cut > figures.single / 2:
        share = 100 * figures.saturated_share
        return Finding(
            figures,
            f"{_percent(share)} % of the values lie outside its range",
            "more calibration samples, or --method minmax",
        )
    if figures.stored > figures.single / 2:
        return _coarse(figures, name, context)
    site = next((site for site in context.sites if site.name in figures.layer.origin and _weights(site, context)), None)
    if site is not None and site.inputs[0] in context.energy:
        return _mac(figures, site, context)
    source = max(figures.layer.inputs, key=lambda source: _stored_noise(source, context))
    return _widened(figures, f"the rounding of '{source}', which it reads", source, context)


def _coarse(figures: LayerFigures, name: str, context: Context) -> Finding:
    """The format of the output is too coarse: why."""
    reason = _reason(figures, context)
    if figures.coarser >= WIDER and reason.startswith(TIED):
        return _widened(figures, f"its range is {figures.coarser:.0f} times too wide ({reason})", name, context)
    rms = (figures.signal / figures.values) ** 0.5
    if figures.coarser >= WIDER or rms < RARE_RMS:
        cause = f"rare values set its range: most are within {2 * rms:.1f} of 255 steps"
        widened = _widened(figures, cause, name, context)
        return Finding(figures, cause, f"--method percentile or mse, or {widened.advice}", widened.recipe)
    if not figures.format.scale:
        return _widened(figures, f"{figures.format.kind} is too coarse for its values", name, context)
    steps = 2**16 - 2 if figures.format.kind == "int16" else 255
    return _widened(figures, f"{steps:,} steps are too coarse for its values", name, context)


def _mac(figures: LayerFigures, site: Site, context: Context) -> Finding:
    """A layer with weights: what is lost by them, and what by the rounding of its input."""
    numbers = next(n for n in context.numbers if site.outputs[0] in n.weights)
    weights, source = numbers.weights[site.outputs[0]], site.inputs[0]
    exact = channel_weights(site)
    lost = exact - channel_weights(site, weights.values) * weights.scale.astype(np.float64)[:, None]
    values, rounding = context.energy[source].means()
    by_weights, by_input = _through(site, lost, values), _through(site, exact, rounding)
    if by_weights < by_input:
        return _widened(figures, f"the rounding of '{source}', which it reads", source, context)
    if any(str(site) in note for note in numbers.warnings):
        cause = "the scale of its weights was raised against overflow"
        return _elsewhere(figures, cause, site.name, context)
    cause = "its weights are too coarse"
    if context.rounded or site.op == "ConvTranspose":
        return _elsewhere(figures, cause, site.name, context)
    return Finding(figures, cause, "-O 2, which rounds weights for the data")


def _widened(figures: LayerFigures, cause: str, tensor: str, context: Context) -> Finding:
    """int16 for a tensor, where the device can and it is not yet; else the layer on the host."""
    maker = next((site for site in context.sites if tensor in site.outputs), None)
    if maker is None or tensor not in context.wide or _format(tensor, context) == "int16":
        origin = figures.layer.origin
        return _elsewhere(figures, cause, origin[0] if origin else figures.layer.name, context)
    recipe = {"match": {"name": maker.name}, "format": "int16"}
    return Finding(figures, cause, f"int16 for '{tensor}' by --recipe (layers: {_line(recipe)})", recipe)


def _elsewhere(figures: LayerFigures, cause: str, node: str, context: Context) -> Finding:
    """The node in fp16 or fx32, where the chip and the node have it; else on the host."""
    site = next((site for site in context.sites if site.name == node), None)
    kinds = [
        kind for kind in PRECISE if kind in context.formats and site is not None and _could_be(site, kind, context)
    ]
    recipe = {"match": {"name": node}, "format": kinds[0] if kinds else "float"}
    words = kinds[0] if kinds else "float on the host"
    return Finding(figures, cause, f"{words} by --recipe (layers: {_line(recipe)})", recipe)


def _could_be(site: Site, kind: str, context: Context) -> bool:
    """Whether a node that is in int8 has such a format."""
    is_now = any(site.outputs[0] in numbers.precision for numbers in context.numbers)
    return not is_now and site.op not in FOLLOWING and not why_not_precise(site, kind)


def _line(recipe: Mapping[str, Any]) -> str:
    return f"{{match: {{name: '{recipe['match']['name']}'}}, format: {recipe['format']}}}"


def _weights(site: Site, context: Context) -> bool:
    return any(site.outputs[0] in numbers.weights for numbers in context.numbers)


def _format(tensor: str, context: Context) -> str:
    return next((n.formats[tensor].kind for n in context.numbers if tensor in n.formats), "")


def _reason(figures: LayerFigures, context: Context) -> str:
    name = figures.layer.outputs[0]
    return next((n.reasons[name] for n in context.numbers if name in n.reasons), "")


def _through(site: Site, weights: NDArray[np.float64], power: NDArray[np.float64]) -> float:
    """Mean square of what weights (cout, k) make of inputs that are independent, of this power in each channel."""
    group = site.attrs.get("group", 1)
    inside = power.size // group  # channels that an output channel reads
    if inside * group != power.size or not inside or weights.shape[1] % inside:
        return float(np.square(weights).sum() * power.mean())
    channels = np.square(weights).reshape(len(weights), inside, -1).sum(axis=2)  # (cout, inside)
    groups = np.arange(len(weights)) * group // len(weights)
    return float((channels * power.reshape(group, inside)[groups]).sum())


def _stored_noise(tensor: str, context: Context) -> float:
    """Share of a tensor that its rounding takes; 0 where it is not known."""
    known = context.figures.get(tensor)
    return known.stored / known.signal if known is not None and known.signal else 0.0


def _percent(share: float) -> str:
    """Two digits, and never an exponent for 100."""
    return f"{share:.0f}" if share >= 10 else f"{share:.2g}"


def _rounded(value: float) -> float | None:
    known = finite(value)
    return None if known is None else round(known, 2)
