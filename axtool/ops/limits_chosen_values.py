"""Rules that a target may choose, of the ops that compute each value by itself: sums, products, activations."""

from __future__ import annotations

import math

from axtool.ops.limits_core import choice, shape_of
from axtool.target import Target
from axtool.types import Site

SIXTH, SIXTH_TOLERANCE = 1 / 6, 5e-6  # the slope of HardSigmoid, as exporters round it
SELU = (1.67326319217681884765625, 1.05070102214813232421875)  # alpha and gamma that ONNX gives by default
CLIPS = ((0.0, 6.0), (-1.0, 1.0))
SHAPES = "Expand the operand to the shape of the other, or make it [1, C, 1, 1] or one value."


@choice("Add", advice=SHAPES)
def sum_shapes(site: Site, target: Target) -> str | None:
    """Add takes two computed tensors of one shape; or one of them, or a constant, is [1, C, 1, 1] or one value."""
    return _odd_operand(site)


@choice("Mul", advice=SHAPES)
def product_shapes(site: Site, target: Target) -> str | None:
    """Mul takes two computed tensors of one shape; or one of them, or a constant, is [1, C, 1, 1] or one value."""
    return _odd_operand(site)


@choice("Mul", advice="Square it on the host, or by a second convolution that makes the factor.")
def product_of_two(site: Site, target: Target) -> str | None:
    """The factors of Mul are not the same tensor."""
    return f"both are '{site.inputs[0]}'" if site.inputs[0] == site.inputs[1] else None


@choice("Sub", advice="Write it as an addition of the negated operand.")
def difference_shapes(site: Site, target: Target) -> str | None:
    """One operand of Sub is [1, C, 1, 1] or one value."""
    data = shape_of(site, site.outputs[0])
    if any(_is_one_value(shape_of(site, name)) or _is_per_channel(shape_of(site, name), data) for name in site.inputs):
        return None
    return f"the operands have the shapes {_shapes(site)}"


@choice("Clip", advice="Use ReLU6, HardTanh, or ReLU, which is Clip without an upper bound.")
def clip_bounds(site: Site, target: Target) -> str | None:
    """The bounds of Clip are 0 and 6, or -1 and 1."""
    bounds = (float(site.attrs["min"]), float(site.attrs["max"]))
    return None if bounds in CLIPS else f"they are {bounds[0]:g} and {bounds[1]:g}"


@choice("HardSigmoid", advice="Export HardSigmoid with alpha 1/6 and beta 1/2, as PyTorch has it.")
def hard_sigmoid_slope(site: Site, target: Target) -> str | None:
    """HardSigmoid has alpha 1/6 within 5e-6 and beta 0.5."""
    alpha, beta = float(site.attrs["alpha"]), float(site.attrs["beta"])
    good = abs(alpha - SIXTH) <= SIXTH_TOLERANCE and beta == 0.5
    return None if good else f"alpha is {alpha:g} and beta {beta:g}"


@choice("Selu", advice="Use Selu with the constants that ONNX gives by default.")
def selu_default(site: Site, target: Target) -> str | None:
    """Selu has its default alpha 1.67326 and gamma 1.0507."""
    found = (float(site.attrs["alpha"]), float(site.attrs["gamma"]))
    good = all(math.isclose(one, other, rel_tol=1e-6) for one, other in zip(found, SELU, strict=True))
    return None if good else f"alpha is {found[0]:g} and gamma {found[1]:g}"


@choice("PRelu", advice="Give the slope one value, or one for each channel.")
def prelu_slope(site: Site, target: Target) -> str | None:
    """The slope of PRelu is one value, or one for each channel, [C, 1, 1]."""
    slope, data = shape_of(site, site.inputs[1]), shape_of(site, site.inputs[0])
    good = _is_one_value(slope) or _is_per_channel(slope, data)
    return None if good else f"the slope has the shape {slope} for data of {data}"


def _odd_operand(site: Site) -> str | None:
    """The shapes of the operands, where they are neither equal and computed, nor one of them small."""
    shapes = [shape_of(site, name) for name in site.inputs]
    computed = all(name not in site.constants for name in site.inputs)
    if computed and shapes[0] == shapes[1]:
        return None
    data = shape_of(site, site.outputs[0])
    for shape, other in (shapes, reversed(shapes)):
        if other == data and (_is_one_value(shape) or _is_per_channel(shape, data)):
            return None
    fixed = "" if computed else ", one of them constant"
    return f"the operands have the shapes {_shapes(site)}{fixed}"


def _is_one_value(shape: tuple[int, ...]) -> bool:
    return math.prod(shape) == 1


def _is_per_channel(shape: tuple[int, ...], data: tuple[int, ...]) -> bool:
    """[1, C, 1, 1] or [C, 1, 1], which broadcasts alike, of data [1, C, H, W]."""
    return len(data) == 4 and shape in ((1, data[1], 1, 1), (data[1], 1, 1))


def _shapes(site: Site) -> str:
    return " and ".join(str(shape_of(site, name)) for name in site.inputs)
