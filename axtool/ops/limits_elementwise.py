"""Limits of the elementwise ops: two-operand arithmetic, and functions of one value (tables)."""

from __future__ import annotations

import math

import numpy as np

from axtool.ops.limits_core import data_inputs, has_kernel, limit, shape_of
from axtool.ops.unary import UNARY
from axtool.target import Target
from axtool.types import Site

BINARY = ("Add", "Sub", "Mul", "Div")
IDENTITY = ("Identity", "Dropout")
VARIADIC = ("Sum", "Max", "Min", "Mean")

has_kernel(UNARY)
has_kernel(BINARY + IDENTITY + ("PRelu",))


@limit("Div", advice="Multiply by a constant reciprocal, or divide on the host.")
def constant_divisor(site: Site, target: Target) -> str | None:
    """Div divides by a constant."""
    divisor = site.inputs[1]
    return None if divisor in site.constants else f"the divisor '{divisor}' is known only at run time"


@limit(*BINARY, advice="Check the constant: it makes values that are not numbers.")
def finite_constant(site: Site, target: Target) -> str | None:
    """The constant of an elementwise op is finite, and not zero where it divides."""
    for name in site.inputs:
        values = site.constants.get(name)
        if values is None:
            continue
        if not np.isfinite(values).all():
            return f"'{name}' holds NaN or Inf"
        if site.op == "Div" and not np.all(values):
            return f"'{name}' holds zeros"
    return None


@limit(*VARIADIC, advice="Write it as a chain of two-operand ops.")
def operand_count(site: Site, target: Target) -> str | None:
    """Sum takes one or two inputs; Max, Min and Mean one."""
    most = 2 if site.op == "Sum" else 1
    if len(data_inputs(site)) < len(site.inputs):
        return "an input is a constant"
    return None if len(site.inputs) <= most else f"there are {len(site.inputs)}"


@limit(*UNARY, advice="Make the parameters initializers.")
def constant_parameters(site: Site, target: Target) -> str | None:
    """The parameters of an activation (the bounds of a Clip) are constants."""
    inputs = data_inputs(site)
    return None if len(inputs) == 1 else f"'{inputs[1]}' is known only at run time"


@limit("Clip", advice="Remove the Clip: whatever it reads, it gives an infinity.")
def finite_clamp(site: Site, target: Target) -> str | None:
    """The lower bound of a Clip is below infinity, the upper one above minus infinity."""
    low, high = site.attrs["min"], site.attrs["max"]
    return f"the bounds are {low} and {high}" if low == math.inf or high == -math.inf else None


@limit("PRelu", advice="Give the slope one value, or one for each channel.")
def slope(site: Site, target: Target) -> str | None:
    """The slope of PRelu is a constant: one value, or one for each channel."""
    name = site.inputs[1]
    if name not in site.constants:
        return f"'{name}' is known only at run time"
    shape = shape_of(site, name)
    good = slope_axis(site) is not None
    return None if good else f"the slope has the shape {shape} for data of {shape_of(site, site.inputs[0])}"


def slope_axis(site: Site) -> int | None:
    """The axis of the data along which the slope of a PRelu varies: 0 for one value, None where no table can follow."""
    shape = shape_of(site, site.inputs[1])
    rank = len(shape_of(site, site.inputs[0]))
    if len(shape) > rank:
        return None
    axes = [axis for axis, n in enumerate((1,) * (rank - len(shape)) + shape) if n > 1]
    if not axes:
        return 0
    return axes[0] if len(axes) == 1 and axes[0] in (1, rank - 1) else None


@limit(*BINARY, "Sum", advice="Expand the smaller operand to at most 4 dimensions.")
def operand_rank(site: Site, target: Target) -> str | None:
    """Operands, constants included, have at most 4 dimensions and batch 1."""
    for name in site.inputs:
        shape = shape_of(site, name)
        if len(shape) > 4 or (len(shape) == 4 and shape[0] != 1):
            return f"'{name}' has the shape {shape}"
        if 0 in shape:
            return f"'{name}' is empty, {shape}"
    return None


@limit("Dropout", advice="Export the model in inference mode.")
def inference_dropout(site: Site, target: Target) -> str | None:
    """Dropout is the identity: not in training, and without a mask."""
    if site.attrs.get("training", False):
        return "it is in training mode"
    mask = [name for name in site.outputs[1:] if name]
    return f"the mask is asked for as '{mask[0]}'" if mask else None


@limit("BatchNormalization", advice="Export the model in inference mode, with its statistics as initializers.")
def inference_statistics(site: Site, target: Target) -> str | None:
    """BatchNormalization scales and shifts each channel by constants."""
    if site.attrs.get("training_mode", 0) or [name for name in site.outputs[1:] if name]:
        return "it is in training mode"
    loose = [name for name in site.inputs[1:] if name not in site.constants]
    return f"'{loose[0]}' is known only at run time" if loose else None
