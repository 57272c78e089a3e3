"""Concat, Split, Slice, Pad, Transpose, Reshape and its kin, DepthToSpace, SpaceToDepth: values that only move."""

from __future__ import annotations

from typing import Any

from axtool.ops.limits_core import data_outputs
from axtool.plan.layout import (
    FIRST,
    axes_of,
    cheapest_reshape,
    layout_for,
    moves_nothing,
    permutation,
    stored_shape,
    transposed_axes,
)
from axtool.plan.lower_builder import Builder, multiplier, spatial, step_of
from axtool.types import Layout, Site, Tensor

MODES = {"constant": 0, "reflect": 1, "edge": 2}


def lower_identity(b: Builder, site: Site) -> None:
    """The same tensor under another name."""
    name = next(x for x in site.inputs if 0 not in site.shapes.get(x, ()))
    layout = b.layouts[site.outputs[0]]
    b.alias(b.read(name, layout), site, layout)


def lower_concat(b: Builder, site: Site) -> None:
    """Each input in the output's steps, one behind the other; empty inputs are dropped."""
    out = site.outputs[0]
    names = [name for name in site.inputs if 0 not in site.shapes[name]]
    if len(names) == 1:
        lower_identity(b, site)
        return
    layout, fmt = b.layouts[out], b.format(out)
    axis = axes_of(len(site.shapes[out]), layout).index(site.attrs["axis"])
    reads = [b.read(name, layout) for name in names]
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
    layout = b.layouts[out]
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
    layout, rank = b.layouts[out], len(site.shapes[out])
    x = b.read(site.inputs[0], layout)
    before, after = site.attrs["before"], site.attrs["after"]
    if min(before + after) < 0:
        x = _crop(b, site, x, layout)
    if max(before + after) <= 0:
        b.alias(x, site, layout)
        return
    mode = MODES[site.attrs["mode"]]
    value = step_of(site.attrs["value"], b.tensors[x].format) if mode == 0 else 0
    attrs = {"before": spatial([max(n, 0) for n in before], axes_of(rank, layout), 0), "mode": mode, "value": value}
    b.keep("pad", x, site, attrs, layout)


def _crop(b: Builder, site: Site, x: str, layout: Layout) -> str:
    before, after = site.attrs["before"], site.attrs["after"]
    full = site.shapes[site.inputs[0]]
    shape = tuple(n + min(lo, 0) + min(hi, 0) for n, lo, hi in zip(full, before, after, strict=True))
    start = spatial([max(-n, 0) for n in before], axes_of(len(shape), layout), 0)
    name = b.free_name(f"{site.outputs[0]}/crop")
    made = Tensor(name, stored_shape(shape, layout), b.tensors[x].format, layout, shape)
    return b.layer("slice", (x,), made, {"start": start, "step": (1, 1, 1)}, (site,))


def lower_transpose(b: Builder, site: Site) -> None:
    """Nothing where the two layouts already say it, else a transpose of the stored axes."""
    out = site.outputs[0]
    held = b.held[site.inputs[0]]
    layout = b.layouts[out]
    perm = permutation(axes_of(len(held.shape), held.layout), transposed_axes(site, layout))
    if moves_nothing(b.tensors[held.tensor].shape, perm):
        b.alias(held.tensor, site, layout)
    else:
        b.keep("transpose", held.tensor, site, {"perm": perm}, layout)


def lower_reshape(b: Builder, site: Site) -> None:
    """Nothing, or a reshape of the stored elements, with a transpose beside it where their order is not ONNX's.

    A flattened image that only feeds Gemm and MatMul is not made at all: they read the image itself.
    """
    name, out = site.inputs[0], site.outputs[0]
    held, made = b.held[name], site.shapes[out]
    if _feeds_gemms_only(b, out) and len(made) == 2 and len(held.shape) > 2:
        b.flat[out] = name
        return
    wish = b.layouts[out]
    first, last = cheapest_reshape(held.shape, layout_for(len(held.shape), held.layout), made, wish)
    x = b.read(name, first)
    target = stored_shape(made, last)
    perm = permutation(axes_of(len(made), last), axes_of(len(made), wish))
    if moves_nothing(target, perm):
        if b.tensors[x].shape == target:
            b.alias(x, site, wish)
        else:
            b.keep("reshape", x, site, {}, wish)
        return
    if b.tensors[x].shape != target:
        raw = Tensor(b.free_name(f"{out}/{last}"), target, b.tensors[x].format, last, made)
        x = b.layer("reshape", (x,), raw, {}, (site,))
    b.keep("transpose", x, site, {"perm": perm}, wish)


def _feeds_gemms_only(b: Builder, name: str) -> bool:
    readers = b.readers.get(name, ())
    return name not in b.outputs and bool(readers) and all(x.op in ("Gemm", "MatMul") for x in readers)


def lower_depth_to_space(b: Builder, site: Site) -> None:
    """Channels become pixels."""
    attrs: dict[str, Any] = {"block": site.attrs["block"], "mode": int(site.attrs["mode"] == "CRD")}
    b.keep("depth_to_space", b.read(site.inputs[0], FIRST), site, attrs, FIRST)


def lower_space_to_depth(b: Builder, site: Site) -> None:
    """Pixels become channels."""
    b.keep("space_to_depth", b.read(site.inputs[0], FIRST), site, {"block": site.attrs["block"]}, FIRST)
