"""Limits of the ops that look at a whole row of numbers: Softmax, LayerNormalization, ArgMax, sums and maxima."""

from __future__ import annotations

from math import prod

import numpy as np

from axtool.ops.legal import MOST_ROW
from axtool.ops.limits_core import limit, shape_of
from axtool.target import Target
from axtool.types import Site

ROW_OPS = ("Softmax", "LayerNormalization", "ArgMax")

REDUCTIONS = ("ReduceSum", "ReduceMax")
# Axes that may go at once, by rank: each pair is rows and columns of a layout.
TOGETHER = {4: ((2, 3), (1, 2)), 3: ((2,), (1,))}


@limit(*ROW_OPS, *REDUCTIONS, advice="It runs on the host; a larger chip of the family has it.")
def wide_alu(site: Site, target: Target) -> str | None:
    """The chip computes in 32 bits: fx32 is among its formats."""
    return None if "fx32" in target.formats else f"the formats of {target.name} are {', '.join(target.formats)}"


@limit(*ROW_OPS, advice="Transpose in front of it and behind it.")
def row_axis(site: Site, target: Target) -> str | None:
    """The axis is the last one, or of Softmax and ArgMax that of the channels (axis 1)."""
    if row_axis_of(site) is not None:
        return None
    return f"the axis is {site.attrs['axis']} of {shape_of(site, site.inputs[0])}"


@limit("Softmax", "LayerNormalization", advice="Normalize fewer numbers together.")
def row_length(site: Site, target: Target) -> str | None:
    """At most 65536 numbers are normalized together: sums of their squares fit 63 bits."""
    axis = row_axis_of(site)
    size = 0 if axis is None else shape_of(site, site.inputs[0])[axis]
    return f"there are {size}" if size > MOST_ROW else None


@limit("LayerNormalization", advice="Make scale and bias initializers of one number for each channel.")
def constant_affine(site: Site, target: Target) -> str | None:
    """Scale and bias of LayerNormalization are finite constants: one number, or one for each channel."""
    channels = shape_of(site, site.inputs[0])[-1]
    for name in filter(None, site.inputs[1:]):
        values = site.constants.get(name)
        if values is None:
            return f"'{name}' is known only at run time"
        if values.size not in (1, channels) or prod(values.shape[-1:]) != values.size:
            return f"'{name}' has the shape {values.shape} for {channels} channels"
        if not np.isfinite(values).all():
            return f"'{name}' holds NaN or Inf"
    return None


@limit("LayerNormalization", advice="Leave the other outputs out; they serve training.")
def normalized_only(site: Site, target: Target) -> str | None:
    """LayerNormalization gives the normalized values, not mean and deviation."""
    extra = [name for name in site.outputs[1:] if name]
    return f"'{extra[0]}' is asked for" if extra else None


@limit(*REDUCTIONS, advice="Reduce the spatial axes, or one axis that is kept with a size of 1.")
def reduced_axes(site: Site, target: Target) -> str | None:
    """ReduceSum and ReduceMax take both spatial axes, or any one axis that stays as an axis of size 1."""
    rank, axes = len(shape_of(site, site.inputs[0])), tuple(site.attrs["axes"])
    if axes in TOGETHER.get(rank, ()) or (len(axes) == 1 and axes[0] > 0 and rank == 4 and site.attrs["keepdims"]):
        return None
    return f"the axes are {axes} of {rank} dimensions" + ("" if site.attrs["keepdims"] else ", which go")


def row_axis_of(site: Site) -> int | None:
    """The axis whose numbers are taken together, where it can be stored as channels; else None."""
    shape = shape_of(site, site.inputs[0])
    first = int(site.attrs["axis"])
    if site.op == "LayerNormalization" or site.attrs.get("flatten", False):  # over all axes from the first on
        long = [axis for axis in range(first, len(shape)) if shape[axis] > 1] or [len(shape) - 1]
        if len(long) > 1:
            return None
        first = long[0]
    return first if first == len(shape) - 1 or (first == 1 and site.op != "LayerNormalization") else None
