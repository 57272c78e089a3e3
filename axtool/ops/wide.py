"""Which ops can take or make numbers of 16 bits on the device, and why the others cannot."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from axtool.ops.limits_core import shape_of
from axtool.ops.limits_elementwise import BINARY, IDENTITY, VARIADIC, slope_axis
from axtool.ops.limits_mac import is_pair
from axtool.ops.limits_movement import RESIZE, SHAPE_OPS, resize_factors
from axtool.ops.unary import UNARY
from axtool.target import Target
from axtool.types import Site

ALWAYS = frozenset(
    {*UNARY, *BINARY, *IDENTITY, *VARIADIC, *SHAPE_OPS}
    | {"Conv", "Gemm", "MatMul", "BatchNormalization", "AveragePool", "GlobalAveragePool", "ReduceMean", "ArgMax"}
    | {"Transpose", "Concat", "Split", "SpaceToDepth"}
)
# What else has a form in int16, and when.
SOMETIMES: Mapping[str, str] = MappingProxyType(
    {
        "PRelu": "with one slope",
        "Slice": "with a step of 1 along the channels",
        "Pad": "with zeros, or by reflection or the edge beside the channels",
        "DepthToSpace": "in the order DCR",
        **dict.fromkeys(RESIZE, "by nearest"),
    }
)


def wide_rule(op: str) -> str:
    """Whether the values of a device op may be int16, as a sentence of the manual."""
    if op in SOMETIMES:
        return f"Values may be int16 {SOMETIMES[op]}."
    return "Values may be int16." if op in ALWAYS else "Values are int8, never int16."


def why_not_wide(site: Site, name: str, target: Target) -> str:
    """Why the site, which reads or makes the tensor `name`, has no form for it in int16; "" where it has one.

    The site is one that the device runs.
    """
    if "int16" not in target.formats:
        return f"{target.name} has no int16"
    if target.channel_multiple > 1 and target.channel_multiple % 2:
        return f"pixels of {target.name} are stored in multiples of {target.channel_multiple} bytes, an odd number"
    fault = no_wide_form(site)
    return f"{site} {'makes' if name in site.outputs else 'reads'} '{name}': {fault}" if fault else ""


def no_wide_form(site: Site) -> str:
    """Why an op has no form for numbers of more than a byte; "" where it has one."""
    if is_pair(site):
        return "a product of two activations is for int8 only"
    if site.op in ALWAYS:
        return ""
    match site.op:
        case "PRelu":
            return "" if slope_axis(site) == 0 else "a slope for each channel has tables for int8 only"
        case "Slice":
            steps = zip(site.shapes[site.outputs[0]], site.attrs["steps"], strict=True)
            return _beside(site, [axis for axis, (n, step) in enumerate(steps) if n > 1 and step != 1], "a step")
        case "Pad":
            return _padding(site)
        case "DepthToSpace":
            return "" if site.attrs["mode"] == "DCR" else "the order CRD would tear the bytes of a number apart"
    if site.op in RESIZE:
        changed = max(resize_factors(site) or (2,)) > 1
        return "" if site.attrs["mode"] == "nearest" or not changed else "linear interpolation is for int8 only"
    return f"{site.op} is for int8 only"


def _padding(site: Site) -> str:
    before, after, mode = site.attrs["before"], site.attrs["after"], site.attrs["mode"]
    if mode == "constant":
        return "" if site.attrs["value"] == 0 else "only zeros are the same in every byte"
    padded = [axis for axis, n in enumerate(zip(before, after, strict=True)) if any(n)]
    return _beside(site, padded, f"the mode {mode}")


def _beside(site: Site, axes: list[int], what: str) -> str:
    """Either layout keeps one axis as channels, whose bytes must stay in order: one of them has to be free."""
    rank = len(shape_of(site, site.inputs[0]))
    channels = {1, rank - 1} if rank > 2 else {rank - 1}
    return "" if channels - set(axes) else f"{what} along the channels would tear the bytes of a number apart"
