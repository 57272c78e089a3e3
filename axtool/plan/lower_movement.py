"""Concat, Split, Slice, Pad, Transpose, Reshape and its kin, DepthToSpace, SpaceToDepth: values that only move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axtool.ops.limits_core import data_outputs
from axtool.ops.precise import PRECISE
from axtool.plan.convert import multiplier
from axtool.plan.layout import (
    FIRST,
    LAST,
    Perm,
    axes_of,
    cheapest_reshape,
    layout_for,
    moves_nothing,
    permutation,
    stored_shape,
    transposed_axes,
)
from axtool.plan.lower_builder import Builder, Held, spatial, step_of
from axtool.plan.lower_wide import in_byte_channels
from axtool.types import Layout, Site, Tensor

MODES = {"constant": 0, "reflect": 1, "edge": 2}


def lower_identity(b: Builder, site: Site) -> None:
    """The same tensor under another name."""
    name = next(x for x in site.inputs if 0 not in site.shapes.get(x, ()))
    layout = b.layouts[site.outputs[0]]
    b.alias(b.read(name, layout), site, layout)


def lower_concat(b: Builder, site: Site) -> None:
    """Each input in the output's steps, one behind the other; empty inputs are dropped.

    The layer itself changes steps of int8; with larger numbers on either side it only copies.
    """
    out = site.outputs[0]
    names = [name for name in site.inputs if 0 not in site.shapes[name]]
    if len(names) == 1:
        lower_identity(b, site)
        return
    layout, fmt = b.layouts[out], b.format(out)
    axis = axes_of(len(site.shapes[out]), layout).index(site.attrs["axis"])
    reads = [b.read(name, layout) for name in names]
    if {fmt.kind, *(b.tensors[x].format.kind for x in reads)} != {"int8"}:
        same = {x: b.in_format(x, fmt) for x in dict.fromkeys(reads)}
        reads = [same[x] for x in reads]
    parts: list[int] = []
    offset = 0
    for tensor in (b.tensors[x] for x in reads):
        have = tensor.format
        m, f = (0, 0) if have == fmt else multiplier(have.scale[0] / fmt.scale[0])
        parts += [offset, have.zero_point[0], m, f]
        offset += tensor.shape[1 + axis]
    b.make("concat", reads, site, {"axis": axis, "out_zp": fmt.zero_point[0], "parts": tuple(parts)}, layout)


def lower_split(b: Builder, site: Site) -> None:
    """A slice for each output that is read."""
    start = 0
    for name, size in zip(site.outputs, site.attrs["sizes"], strict=True):
        if name in data_outputs(site) and b.is_used(name):
            rank = len(site.shapes[name])
            starts = tuple(start if axis == site.attrs["axis"] else 0 for axis in range(rank))
            _slice(b, site, name, starts, (1,) * rank)
        start += size


def lower_slice(b: Builder, site: Site) -> None:
    """A slice with its starts and steps in stored axes."""
    _slice(b, site, site.outputs[0], site.attrs["starts"], site.attrs["steps"])


def _slice(b: Builder, site: Site, out: str, starts: tuple[int, ...], steps: tuple[int, ...]) -> None:
    picked = [axis for axis, (n, step) in enumerate(zip(site.shapes[out], steps, strict=True)) if n > 1 and step != 1]
    layout = _layout_beside(b, site.inputs[0], b.layouts[out], picked)
    x = b.read(site.inputs[0], layout)
    shape = site.shapes[out]
    if shape == site.shapes[site.inputs[0]] and all(n == 1 or step > 0 for n, step in zip(shape, steps, strict=True)):
        b.alias(x, site, layout, out)
        return
    axes = axes_of(len(shape), layout)
    # an axis of which one element is kept has no step; any would do, and some are beyond its end
    kept = tuple(1 if n == 1 else step for n, step in zip(shape, steps, strict=True))
    attrs = {"start": spatial(starts, axes, 0), "step": spatial(kept, axes, 1)}
    b.keep("slice", x, site, attrs, layout, out)


def lower_pad(b: Builder, site: Site) -> None:
    """A crop where pads are negative, then the padding."""
    out = site.outputs[0]
    before, after = site.attrs["before"], site.attrs["after"]
    mirrored = site.attrs["mode"] != "constant"
    padded = [axis for axis, n in enumerate(zip(before, after, strict=True)) if mirrored and any(n)]
    layout, rank = _layout_beside(b, site.inputs[0], b.layouts[out], padded), len(site.shapes[out])
    x = b.read(site.inputs[0], layout)
    if min(before + after) < 0:
        x = _crop(b, site, x, layout)
    if max(before + after) <= 0:
        b.alias(x, site, layout)
        return
    mode = MODES[site.attrs["mode"]]
    fmt = b.tensors[x].format
    if fmt.kind != "int8" and mode == 0 and site.attrs["value"]:
        raise ValueError(f"{site} pads {fmt.kind} with {site.attrs['value']}; only zeros are the same in every byte")
    value = step_of(site.attrs["value"], fmt) if mode == 0 and fmt.kind == "int8" else 0
    attrs = {"before": spatial([max(n, 0) for n in before], axes_of(rank, layout), 0), "mode": mode, "value": value}
    b.keep("pad", x, site, attrs, layout)


def _layout_beside(b: Builder, name: str, wish: Layout, axes: Sequence[int]) -> Layout:
    """The layout to move a tensor in: the one wished for, unless that has one of these axes as channels of int16.

    Channels are counted in bytes there, and bytes of a number stay together only while channels are not picked apart.
    """
    held = b.seen(name)
    if b.tensors[held.tensor].format.kind == "int8":
        return wish
    layouts = (wish, *(layout for layout in (FIRST, LAST) if layout != wish))
    free = [layout for layout in layouts if axes_of(len(held.shape), layout)[2] not in axes]
    if not free:
        raise ValueError(f"'{name}' is int16: axes {list(axes)} cannot all be picked apart")
    return free[0]


def _crop(b: Builder, site: Site, x: str, layout: Layout) -> str:
    before, after = site.attrs["before"], site.attrs["after"]
    full = site.shapes[site.inputs[0]]
    shape = tuple(n + min(lo, 0) + min(hi, 0) for n, lo, hi in zip(full, before, after, strict=True))
    start = spatial([max(-n, 0) for n in before], axes_of(len(shape), layout), 0)
    name = b.free_name(f"{site.outputs[0]}/crop")
    made = b.describe(name, shape, layout, b.tensors[x].format)
    attrs = in_byte_channels({"start": start, "step": (1, 1, 1)}, made.number_bytes)
    return b.layer("slice", (x,), made, attrs, (site,))


def lower_transpose(b: Builder, site: Site) -> None:
    """Nothing where the two layouts already say it, else a transpose of the stored axes."""
    out = site.outputs[0]
    held = b.seen(site.inputs[0])
    layout = b.layouts[out]
    perm = permutation(axes_of(len(held.shape), held.layout), transposed_axes(site, layout))
    _permute(b, held.tensor, perm, site, layout)


def _permute(b: Builder, x: str, perm: Perm, site: Site, layout: Layout) -> None:
    """The output of a site from a stored tensor whose axes are permuted."""
    out = site.outputs[0]
    tensor = b.tensors[x]
    if moves_nothing((1, *tensor.numbers), perm):
        b.alias(x, site, layout)
    elif tensor.format.kind == "int8":
        b.keep("transpose", x, site, {"perm": perm}, layout)
    else:
        as_ = Held("", site.shapes[out], layout)
        b.alias(b.transposed(x, perm, as_, f"{out}/{layout}", (site,)), site, layout)


def lower_reshape(b: Builder, site: Site) -> None:
    """Nothing, or a reshape of the stored elements, with a transpose beside it where their order is not ONNX's.

    A flattened image that only feeds Gemm and MatMul is not made at all: they read the image itself.
    """
    name, out = site.inputs[0], site.outputs[0]
    held, made = b.seen(name), site.shapes[out]
    flattened = len(made) == 2 and made[0] == 1 and len(held.shape) > 2
    if flattened and _feeds_gemms_only(b, out) and not b.is_precise(name):
        b.flat[out] = name
        return
    wish = b.layouts[out]
    first, last = cheapest_reshape(held.shape, layout_for(len(held.shape), held.layout), made, wish)
    x = b.read(name, first)
    size = b.tensors[x].number_bytes
    target = stored_shape(made, last, size)
    perm = permutation(axes_of(len(made), last), axes_of(len(made), wish))
    if moves_nothing(stored_shape(made, last), perm):
        if b.tensors[x].shape == target:
            b.alias(x, site, wish)
        else:
            b.keep("reshape", x, site, {}, wish)
        return
    if b.tensors[x].shape != target:
        raw = Tensor(b.free_name(f"{out}/{last}"), target, b.tensors[x].format, last, made)
        x = b.layer("reshape", (x,), raw, {}, (site,))
    _permute(b, x, perm, site, wish)


def _feeds_gemms_only(b: Builder, name: str) -> bool:
    readers = b.readers.get(name, ())
    return (
        name not in b.outputs
        and bool(readers)
        and all(x.op in ("Gemm", "MatMul") and b.precision(x) not in PRECISE for x in readers)
    )


def lower_depth_to_space(b: Builder, site: Site) -> None:
    """Channels become pixels."""
    attrs: dict[str, Any] = {"block": site.attrs["block"], "mode": int(site.attrs["mode"] == "CRD")}
    b.keep("depth_to_space", b.read(site.inputs[0], FIRST), site, attrs, FIRST)


def lower_space_to_depth(b: Builder, site: Site) -> None:
    """Pixels become channels."""
    b.keep("space_to_depth", b.read(site.inputs[0], FIRST), site, {"block": site.attrs["block"]}, FIRST)
