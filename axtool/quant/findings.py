"""Formats and what calibration saw  ->  warnings: values cut off, hardly any levels, coarser weights, dead parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from axtool.inputs.notice import Notice, warning
from axtool.ops.arithmetic import LIMITS, quantize_host
from axtool.quant.observers import Histogram, MinMax
from axtool.quant.weights import channel_weights, counts
from axtool.types import QFormat, Quantization, Site

MOST_CUT = 0.01  # of the values of a tensor
FEW_LEVELS = 8
_SHOWN = 4


def findings(
    sites: Sequence[Site], numbers: Quantization, observers: Mapping[str, MinMax] | None = None
) -> tuple[Notice, ...]:
    """What the user should know about the formats of one device stage, one notice of each kind.

    `observers` are what calibration saw of the tensors; without them only the parts of a Concat are judged. What is in
    fx32 or fp16 holds all that was seen.
    """
    whole = {name for name, fmt in numbers.formats.items() if fmt.kind in LIMITS}
    seen = {name: o for name, o in (observers or {}).items() if isinstance(o, Histogram) and name in whole}
    cut = [
        f"'{name}' {100 * share:.1f} %"
        for name, observer in seen.items()
        if (share := outside(observer, numbers.formats[name])) > MOST_CUT
    ]
    few = [
        f"'{name}' {count}"
        for name, observer in seen.items()
        if observer.low < observer.high and (count := levels(observer, numbers.formats[name])) < FEW_LEVELS
    ]
    parts = [f"'{part}' {count:.1f} of '{whole}'" for part, whole, count in _parts(sites, numbers)]
    made: list[Notice] = []
    if cut:
        what = f"more than {100 * MOST_CUT:g} % of the values lie outside the range: {_some(cut)}"
        made.append(warning("saturated", f"{what}; --method minmax keeps them all"))
    if few:
        made.append(warning("few-levels", f"tensors that use fewer than {FEW_LEVELS} levels of int8: {_some(few)}"))
    if parts:
        what = f"parts that use fewer than {FEW_LEVELS} levels of the tensor that joins them: {_some(parts)}"
        made.append(warning("few-levels-part", f"{what}; end the model before the Concat with --outputs"))
    return (*made, *_raised(numbers), *_dead(sites, numbers, observers or {}))


def _raised(numbers: Quantization) -> Iterator[Notice]:
    """Layers whose weights are coarser than they could be, as their worst sum would not fit its 32 bits."""
    if numbers.warnings:
        yield warning("weight-scale-raised", _some(numbers.warnings))


def _dead(sites: Sequence[Site], numbers: Quantization, observers: Mapping[str, MinMax]) -> Iterator[Notice]:
    """What does nothing: channels that lost all the weights they had, tensors that were always zero."""
    channels = []
    for site in sites:
        weights = numbers.weights.get(site.outputs[0])
        if weights is not None:
            rows = channel_weights(site, weights.values)
            source, out = numbers.read_as.get(site.inputs[0]), numbers.formats[site.outputs[0]]
            lost = ~rows.any(axis=1) & counts(site, source or numbers.formats[site.inputs[0]], out)
            if lost.any():
                channels.append(f"{site} {int(lost.sum())} of {len(rows)}")
    if channels:
        yield warning("dead-channels", f"output channels whose weights all became zero: {_some(channels)}")
    made = {name for site in sites for name in site.outputs}
    zero = [f"'{n}'" for n, o in observers.items() if n in made and n in numbers.formats and _always_zero(o)]
    if zero:
        what = f"tensors that were zero in all of calibration, so that nothing is known of their range: {_some(zero)}"
        yield warning("dead-tensors", what)


def _always_zero(seen: MinMax) -> bool:
    return seen.finite > 1 and seen.low == seen.high == 0


def outside(seen: Histogram, fmt: QFormat) -> float:
    """The share of the values that the format cannot hold, to the width of a bin."""
    low, high = _ends(fmt)
    values, counts = seen.occupied()
    return float(counts[(values < low) | (values > high)].sum() / max(counts.sum(), 1.0))


def levels(seen: Histogram, fmt: QFormat) -> int:
    """How many of the levels of the format hold a value that was seen, to the width of a bin."""
    values, _ = seen.occupied()
    return int(np.unique(quantize_host(values.astype(np.float32), fmt)).size)


def _ends(fmt: QFormat) -> tuple[float, float]:
    """What is rounded is not cut off: half a step further than the outermost levels."""
    low, high = LIMITS[fmt.kind]
    return (low - 0.5 - fmt.zero_point[0]) * fmt.scale[0], (high + 0.5 - fmt.zero_point[0]) * fmt.scale[0]


def _parts(sites: Sequence[Site], numbers: Quantization) -> Iterator[tuple[str, str, float]]:
    """Inputs of a Concat whose whole range is a few steps of its output: (part, output, levels)."""
    for site in sites:
        whole = numbers.formats.get(site.outputs[0])
        if site.op != "Concat" or whole is None or not whole.scale:
            continue
        for name in site.inputs:
            low, high = numbers.ranges.get(name, (0.0, 0.0))
            count = (high - low) / whole.scale[0] + 1
            if name in numbers.formats and low < high and count < FEW_LEVELS:
                yield name, site.outputs[0], count


def _some(items: Sequence[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
