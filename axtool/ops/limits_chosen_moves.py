"""Rules that a target may choose, of the ops that move and pool values: concat, split, slice, pad, resize, pools."""

from __future__ import annotations

from axtool.errors import plural
from axtool.ops.limits_core import choice, shape_of
from axtool.ops.limits_movement import RESIZE, resize_factors
from axtool.target import Target
from axtool.types import Site

CHANNELS = 1  # the axis of NCHW
FLATTEN = ("Flatten", "Squeeze")


@choice("Concat", advice="Reshape to 4 dimensions around it, or concatenate on the host.")
def concat_axes(site: Site, target: Target) -> str | None:
    """Concat joins tensors of 4 dimensions along channels, rows or columns."""
    rank, axis = len(shape_of(site, site.outputs[0])), site.attrs["axis"]
    return None if rank == 4 and axis > 0 else f"it joins along axis {axis} of {plural(rank, 'dimension')}"


@choice("AveragePool", advice="Export with count_include_pad=1, or pad with a Pad in front of it.")
def average_counts_pads(site: Site, target: Target) -> str | None:
    """A padded AveragePool counts its pads: count_include_pad is 1."""
    pads = tuple(site.attrs["pads"])
    good = not any(pads) or site.attrs["count_include_pad"]
    return None if good else f"count_include_pad is 0 with pads {pads}"


@choice("AveragePool", advice="Pad less: a window should hold more data than padding.")
def average_pads_half(site: Site, target: Target) -> str | None:
    """The pads of an AveragePool are at most half of its window."""
    pads, kernel = tuple(site.attrs["pads"]), tuple(site.attrs["kernel"])
    over = any(pad > side // 2 for pad, side in zip(pads, (*kernel, *kernel), strict=True))
    return f"pads are {pads} of a window {kernel}" if over else None


@choice("MaxPool", advice="Export with storage_order 0; it only numbers the indices.")
def max_pool_order(site: Site, target: Target) -> str | None:
    """MaxPool has storage_order 0."""
    return "storage_order is 1" if site.raw.get("storage_order", 0) else None


@choice("Pad", advice="Pad with zeros, or let the convolution behind it pad.")
def pad_zeros(site: Site, target: Target) -> str | None:
    """Pad adds zeros: mode constant, value 0."""
    mode, value = site.attrs["mode"], site.attrs["value"]
    if mode != "constant":
        return f"the mode is {mode}"
    return None if value == 0 else f"the value is {value:g}"


@choice("Pad", advice="Pad rows and columns only, or a whole number of channel groups.")
def pad_axes(site: Site, target: Target) -> str | None:
    """Pad leaves the batch alone, and adds channels in multiples of {channel_multiple}."""
    before, after = tuple(site.attrs["before"]), tuple(site.attrs["after"])
    if before[0] or after[0]:
        return f"it adds {before[0]} and {after[0]} to the batch"
    if len(before) <= CHANNELS:
        return None
    added = (before[CHANNELS], after[CHANNELS])
    good = all(n % target.channel_multiple == 0 for n in added)
    return None if good else f"it adds {added[0]} and {added[1]} channels"


@choice("Slice", advice="Use one Slice for each axis.")
def slice_one_axis(site: Site, target: Target) -> str | None:
    """Slice cuts one axis."""
    axes = _cut(site)
    return None if len(axes) <= 1 else f"it cuts the axes {axes}"


@choice("Slice", advice="Take every element, and drop rows by a convolution or a pool with a stride.")
def slice_step(site: Site, target: Target) -> str | None:
    """Slice has a step other than 1 along channels only."""
    steps = tuple(site.attrs["steps"])
    odd = [axis for axis, step in enumerate(steps) if step != 1 and axis != CHANNELS]
    return f"the steps are {steps}" if odd else None


@choice("Slice", advice="Make the channels a multiple of that number, or slice at the end on the host.")
def slice_whole_groups(site: Site, target: Target) -> str | None:
    """Slice along rows or columns needs a multiple of {channel_multiple} channels."""
    shape = shape_of(site, site.inputs[0])
    spatial = [axis for axis in _cut(site) if axis > CHANNELS]
    good = not spatial or shape[CHANNELS] % target.channel_multiple == 0
    return None if good else f"it cuts axis {spatial[0]} of {shape}"


@choice("Split", advice="Split along channels, rows or columns.")
def split_axis(site: Site, target: Target) -> str | None:
    """Split divides an axis other than the batch."""
    return "the axis is 0" if site.attrs["axis"] == 0 else None


@choice("Split", advice="Split the data before it is fed, or behind the first layer.")
def split_not_first(site: Site, target: Target) -> str | None:
    """Split is not the first op of the network."""
    return f"it reads '{site.inputs[0]}', an input" if site.makers.get(site.inputs[0]) == "" else None


@choice(*RESIZE, advice="Resize rows and columns by one integer factor, with half_pixel coordinates.")
def resize_linear(site: Site, target: Target) -> str | None:
    """Linear Resize has one integer factor for rows and columns, and half_pixel coordinates."""
    if site.attrs["mode"] != "linear":
        return None
    factors = resize_factors(site)
    if factors is None or len(set(factors[2:])) > 1:
        return f"scales are {tuple(site.attrs['scales'])}"
    rule = site.attrs["coordinate"]
    return None if rule == "half_pixel" else f"coordinates are {rule}"


@choice(*RESIZE, advice="Export nearest with asymmetric coordinates and nearest_mode floor.")
def resize_nearest(site: Site, target: Target) -> str | None:
    """Nearest Resize with asymmetric coordinates rounds by floor."""
    if site.attrs["mode"] != "nearest" or site.attrs["coordinate"] != "asymmetric":
        return None
    rounding = site.attrs["nearest"]
    return None if rounding == "floor" else f"it rounds by {rounding}"


@choice(*FLATTEN, advice="Move it to the end of the network, or in front of a Gemm.")
def flatten_place(site: Site, target: Target) -> str | None:
    """Flatten and Squeeze stand in front of a Gemm or at the end of the network."""
    readers = set(site.readers.get(site.outputs[0], ()))
    return None if readers <= {"Gemm", ""} else f"{', '.join(sorted(readers - {'', 'Gemm'}))} reads it"


def _cut(site: Site) -> list[int]:
    """The axes of which a Slice leaves something out, or which it walks with a step."""
    data, out = shape_of(site, site.inputs[0]), shape_of(site, site.outputs[0])
    pairs = enumerate(zip(data, out, site.attrs["steps"], strict=True))
    return [axis for axis, (have, kept, step) in pairs if have != kept or step != 1]
