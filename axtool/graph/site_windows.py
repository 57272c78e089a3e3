"""Canonical attributes of the ops with a sliding window: Conv, ConvTranspose and the pools.

`pads` are (begin of each spatial axis, end of each): (t, l, b, r) for two. One spatial axis becomes two, the first of
extent one: kernel (1, k), pads (0, l, 0, r). Three stay three, for a limit to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axtool.graph.site_attrs import Facts

Attrs = dict[str, Any]
Ints = tuple[int, ...]


def conv(facts: Facts) -> Attrs:
    """kernel, strides, dilations, pads, group."""
    kernel = _ints(facts, "kernel_shape") or facts.shape(1)[2:]
    return _window(facts, kernel) | {"group": int(facts.raw.get("group", 1))}


def pool(facts: Facts) -> Attrs:
    """kernel, strides, dilations, pads, ceil_mode, count_include_pad."""
    attrs = _window(facts, _ints(facts, "kernel_shape"), pool=True)
    attrs["ceil_mode"] = int(facts.raw.get("ceil_mode", 0))
    attrs["count_include_pad"] = int(facts.raw.get("count_include_pad", 0))
    if facts.op == "LpPool":
        attrs["p"] = int(facts.raw.get("p", 2))
    return attrs


def conv_transpose(facts: Facts) -> Attrs:
    """As `conv`, with pads such that out = (in - 1) * s + (k - 1) * d + 1 - begin - end; end may be negative.

    `output_padding` makes the end smaller. `output_shape` and SAME decide the sum of the pads: the odd one goes to
    the end for SAME_UPPER and to the start otherwise.
    """
    kernel = _ints(facts, "kernel_shape") or facts.shape(1)[2:]
    extents, axes = facts.shape()[2:], len(kernel)
    strides = _ints(facts, "strides") or (1,) * axes
    dilations = _ints(facts, "dilations") or (1,) * axes
    extra = _ints(facts, "output_padding") or (0,) * axes
    pads = _ints(facts, "pads") or (0,) * (2 * axes)
    auto = str(facts.raw.get("auto_pad", "NOTSET"))
    wanted: Sequence[int | None] = _ints(facts, "output_shape")[-axes:] or (None,) * axes
    if auto.startswith("SAME") and wanted[0] is None:
        wanted = tuple(extent * stride for extent, stride in zip(extents, strides, strict=True))
    begins, ends = [], []
    for at in range(axes):
        full = (extents[at] - 1) * strides[at] + (kernel[at] - 1) * dilations[at] + 1
        target = wanted[at]
        if target is None:
            begin, end = (0, -extra[at]) if auto == "VALID" else (pads[at], pads[axes + at] - extra[at])
        else:
            total = max(0, full + extra[at] - target)
            begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
            # SAME keeps the rule out = full + extra - total, which may be above in * stride; output_shape is exact.
            end = full - begin - (target if _ints(facts, "output_shape") else full + extra[at] - total)
        begins.append(begin)
        ends.append(end)
    attrs = _two_axes(kernel, strides, dilations, (*begins, *ends))
    return attrs | {"group": int(facts.raw.get("group", 1))}


def _window(facts: Facts, kernel: Ints, *, pool: bool = False) -> Attrs:
    axes = len(kernel)
    strides = _ints(facts, "strides") or (1,) * axes
    dilations = _ints(facts, "dilations") or (1,) * axes
    auto = str(facts.raw.get("auto_pad", "NOTSET"))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        # The SAME pads of a pool are those of its kernel without dilations: so onnxruntime has it.
        spread = (1,) * axes if pool else dilations
        pads = _same(facts.shape()[2:], kernel, strides, spread, upper=auto == "SAME_UPPER")
    elif auto == "VALID":
        pads = (0,) * (2 * axes)
    else:
        pads = _ints(facts, "pads") or (0,) * (2 * axes)
    return _two_axes(kernel, strides, dilations, pads)


def _same(extents: Ints, kernel: Ints, strides: Ints, dilations: Ints, *, upper: bool) -> Ints:
    """Pads that make out = ceil(in / stride)."""
    begins, ends = [], []
    for extent, k, stride, dilation in zip(extents, kernel, strides, dilations, strict=True):
        out = -(-extent // stride)
        total = max(0, (out - 1) * stride + (k - 1) * dilation + 1 - extent)
        small, big = total // 2, total - total // 2
        begins.append(small if upper else big)
        ends.append(big if upper else small)
    return (*begins, *ends)


def _two_axes(kernel: Ints, strides: Ints, dilations: Ints, pads: Ints) -> Attrs:
    if len(kernel) == 1:
        kernel, strides, dilations = (1, *kernel), (1, *strides), (1, *dilations)
        pads = (0, pads[0], 0, pads[1])
    return {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": pads}


def _ints(facts: Facts, name: str) -> Ints:
    return tuple(int(v) for v in facts.raw.get(name, ()))
