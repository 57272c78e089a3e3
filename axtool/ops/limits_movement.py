"""Limits of the ops that move values: concat, split, slice, pad, resize, reshape, transpose, space and depth."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from axtool.errors import plural
from axtool.ops.limits_core import data_inputs, has_kernel, limit, shape_of
from axtool.target import Target
from axtool.types import Site

SHAPE_OPS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
RESIZE = ("Resize", "Upsample")

has_kernel((*SHAPE_OPS, "Transpose", "Concat", "Split", "Slice"))


@limit("Concat", advice="Fold the constant into the op that reads it, or concatenate on the host.")
def concat_operands(site: Site, target: Target) -> str | None:
    """The operands of Concat that hold elements are computed at run time."""
    fixed = [name for name in site.inputs if name in site.constants and site.constants[name].size]
    return f"'{fixed[0]}' is a constant" if fixed else None


@limit("Split", "Slice", "Pad", *SHAPE_OPS, *RESIZE, advice="Make the parameters initializers.")
def constant_parameters(site: Site, target: Target) -> str | None:
    """Shapes, sizes, starts, steps and pads are known at compile time, and the data is the first input."""
    inputs = data_inputs(site)
    if inputs[0] != site.inputs[0]:
        return f"the first input, '{site.inputs[0]}', is a constant"
    return None if len(inputs) == 1 else f"'{inputs[1]}' is known only at run time"


@limit("Pad", advice="Use the mode constant, reflect or edge.")
def pad_mode(site: Site, target: Target) -> str | None:
    """Pad modes are constant (with a finite value), reflect and edge."""
    mode = site.attrs["mode"]
    if mode not in ("constant", "reflect", "edge"):
        return f"the mode is {mode}"
    if mode == "constant" and not math.isfinite(site.attrs["value"]):
        return f"the value is {site.attrs['value']}"
    return None


@limit("Pad", advice="Crop with a Slice first, then pad.")
def pad_amounts(site: Site, target: Target) -> str | None:
    """Only a constant pad may crop, and reflect needs more elements than it adds."""
    before, after = tuple(site.attrs["before"]), tuple(site.attrs["after"])
    if site.attrs["mode"] == "constant":
        shape = shape_of(site, site.inputs[0])
        gone = [n + min(b, 0) + min(a, 0) <= 0 for n, b, a in zip(shape, before, after, strict=True)]
        return f"pads {before} and {after} leave nothing of {shape}" if any(gone) else None
    if min(before + after) < 0:
        return f"the mode is {site.attrs['mode']} with pads {before} and {after}"
    shape = shape_of(site, site.inputs[0])
    if site.attrs["mode"] == "reflect" and any(max(b, a) >= n for n, b, a in zip(shape, before, after, strict=True)):
        return f"pads are {before} and {after} of {shape}"
    return None


@limit(*RESIZE, advice="Use an integer factor on the spatial axes.")
def resize_factor(site: Site, target: Target) -> str | None:
    """Resize enlarges one or two spatial axes by integer factors."""
    if resize_factors(site) is not None:
        return None
    data, out = shape_of(site, site.inputs[0]), shape_of(site, site.outputs[0])
    return f"it makes {out} of {data} with scales {tuple(site.attrs['scales'])}"


@limit(*RESIZE, advice="Export with mode nearest or linear and no antialias.")
def resize_mode(site: Site, target: Target) -> str | None:
    """Resize is nearest or linear, without antialiasing."""
    if site.attrs["mode"] not in ("nearest", "linear"):
        return f"the mode is {site.attrs['mode']}"
    return "antialias is 1" if site.attrs.get("antialias", 0) else None


@limit(*RESIZE, advice="Use asymmetric with floor, the plain repetition of pixels.")
def nearest_repeats(site: Site, target: Target) -> str | None:
    """Nearest repeats each pixel: out[i] = in[i // factor] under its coordinate and rounding rules."""
    factors = resize_factors(site)
    if site.attrs["mode"] != "nearest" or factors is None:
        return None
    rule = (str(site.attrs["coordinate"]), str(site.attrs["nearest"]))
    for factor, size in zip(factors, shape_of(site, site.inputs[0]), strict=True):
        if factor == 1:
            continue
        if not np.array_equal(nearest_indices(size, factor, *rule), np.arange(size * factor) // factor):
            return f"{rule[0]} with {rule[1]} at a factor of {factor} picks other pixels"
    return None


@limit(*RESIZE, advice="Use half_pixel coordinates (align_corners=False).")
def linear_coordinates(site: Site, target: Target) -> str | None:
    """Linear resize uses half_pixel, pytorch_half_pixel or asymmetric coordinates."""
    if site.attrs["mode"] != "linear" or resize_factors(site) is None:
        return None
    rule = site.attrs["coordinate"]
    return None if rule in ("half_pixel", "pytorch_half_pixel", "asymmetric") else f"they are {rule}"


@limit("DepthToSpace", "SpaceToDepth", advice="Reshape and transpose on the host.")
def block_rank(site: Site, target: Target) -> str | None:
    """DepthToSpace and SpaceToDepth take 4 dimensions and divide them evenly."""
    shape, block = shape_of(site, site.inputs[0]), site.attrs["block"]
    if len(shape) != 4:
        return f"it has {plural(len(shape), 'dimension')}"
    even = shape[1] % block**2 == 0 if site.op == "DepthToSpace" else all(n % block == 0 for n in shape[2:])
    return None if even else f"a block of {block} does not divide {shape}"


def resize_factors(site: Site) -> tuple[int, ...] | None:
    """The integer factor of each axis, or None where one is not an integer or more than the spatial axes change."""
    data, out = shape_of(site, site.inputs[0]), shape_of(site, site.outputs[0])
    scales = tuple(site.attrs["scales"])
    factors = tuple(round(s) for s in scales)
    exact = all(
        abs(s - f) < 1e-6 and f >= 1 and n * f == m for s, f, n, m in zip(scales, factors, data, out, strict=True)
    )
    changed = [axis for axis, f in enumerate(factors) if f > 1]
    spatial = {4: ((2, 3), (1, 2)), 3: ((2,), (1,))}.get(len(data), ())
    return factors if exact and any(set(changed) <= set(pair) for pair in spatial) else None


def nearest_indices(size: int, factor: int, coordinate: str, nearest: str) -> NDArray[np.int64]:
    """The input index that ONNX's nearest Resize reads for each of `size * factor` outputs. Empty: an unknown rule."""
    at = np.arange(size * factor, dtype=np.float64)
    if coordinate == "asymmetric":
        places = at / factor
    elif coordinate == "align_corners":
        places = at * (size - 1) / max(at.size - 1, 1)
    elif coordinate == "tf_half_pixel_for_nn":
        places = (at + 0.5) / factor
    elif coordinate in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        places = (at + 0.5) / factor - 0.5
    else:
        return np.zeros(0, np.int64)
    match nearest:
        case "floor":
            rounded = np.floor(places)
        case "ceil":
            rounded = np.ceil(places)
        case "round_prefer_floor":
            rounded = np.ceil(places - 0.5)
        case "round_prefer_ceil":
            rounded = np.floor(places + 0.5)
        case _:
            return np.zeros(0, np.int64)
    return np.clip(rounded, 0, size - 1).astype(np.int64)
