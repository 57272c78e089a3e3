"""Pools and means over space  ->  max_pool and avg_pool layers; Resize  ->  resize_nearest and resize_linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from axtool.ops.limits_movement import resize_factors
from axtool.ops.window_counts import window_counts
from axtool.plan.convert import multiplier
from axtool.plan.layout import FIRST, axes_of, layout_for, stored_shape, wanted_layout
from axtool.plan.lower_activation import ending
from axtool.plan.lower_builder import Builder, spatial
from axtool.plan.lower_wide import sized
from axtool.types import Layout, Site


def lower_max_pool(b: Builder, site: Site) -> None:
    """Padding never wins; the format stays."""
    a = site.attrs
    window = {"kernel": a["kernel"], "stride": a["strides"], "dilation": a["dilations"], "pad": tuple(a["pads"][:2])}
    b.keep("max_pool", b.read(site.inputs[0], FIRST), site, window, FIRST)


def lower_global_max_pool(b: Builder, site: Site) -> None:
    """One window as large as the image."""
    x = b.read(site.inputs[0], FIRST)
    window = {"kernel": b.tensors[x].shape[1:3], "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0)}
    b.keep("max_pool", x, site, window, FIRST)


def lower_average_pool(b: Builder, site: Site) -> None:
    """One constant for each number of cells that a window may count."""
    a = site.attrs
    window = {
        "kernel": a["kernel"], "stride": a["strides"], "dilation": (1, 1), "pad": tuple(a["pads"][:2]),
        "pad_end": tuple(a["pads"][2:]), "include_pad": a["count_include_pad"],
    }  # fmt: skip
    _emit_average(b, site, b.read(site.inputs[0], FIRST), window, FIRST)


def lower_mean(b: Builder, site: Site) -> None:
    """GlobalAveragePool, or ReduceMean over the spatial axes: one window as large as the image."""
    rank = len(site.shapes[site.inputs[0]])
    layout = wanted_layout(site) or layout_for(rank, FIRST)
    x = b.read(site.inputs[0], layout)
    window = {
        "kernel": b.tensors[x].shape[1:3], "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0), "pad_end": (0, 0),
        "include_pad": 0,
    }  # fmt: skip
    _emit_average(b, site, x, window, layout)


def lower_reduction(b: Builder, site: Site) -> None:
    """ReduceSum or ReduceMax: one window as long as the axes that go. A sum is a mean that is not divided."""
    rank = len(site.shapes[site.inputs[0]])
    layout = wanted_layout(site) or layout_for(rank, FIRST)
    x = b.read(site.inputs[0], layout)
    rows, columns = (
        size if axis is None or axis in site.attrs["axes"] else 1
        for size, axis in zip(b.tensors[x].numbers[:2], axes_of(rank, layout)[:2], strict=True)
    )
    window = {"kernel": (rows, columns), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0)}
    if site.op == "ReduceMax":
        b.keep("max_pool", x, site, window, layout)
    else:
        _emit_average(b, site, x, {**window, "pad_end": (0, 0), "include_pad": 0}, layout, divided=False)


def _emit_average(
    b: Builder, site: Site, x: str, window: dict[str, Any], layout: Layout, *, divided: bool = True
) -> None:
    end = ending(b, site, mac=False)
    fmt, out = b.tensors[x].format, end.format
    # a mean over space may drop the axes that it leaves at one: h and w of the layer's output come from the window
    size = stored_shape(site.shapes[site.outputs[0]], layout)[1:3]
    counts = window_counts(b.tensors[x].shape[1:3], size, window)
    rows = [(count, *multiplier(fmt.scale[0] / (out.scale[0] * (count if divided else 1)))) for count in counts]
    table = b.constant(f"{end.out}/counts", np.asarray(rows, np.int32))
    ends = {"zp": fmt.zero_point[0], "out_zp": out.zero_point[0], "lo": end.lo, "hi": end.hi}
    op, attrs = sized("avg_pool", {**window, **ends}, x=fmt, out=out)
    b.make(op, (x, table), site, attrs, layout, end.out, end.origin)


def lower_resize(b: Builder, site: Site) -> None:
    """Each pixel repeated, or weighted sums of four with integer weights over 4 fy fx."""
    factors = resize_factors(site)
    assert factors is not None
    layout = wanted_layout(site) or b.layouts[site.inputs[0]]
    x = b.read(site.inputs[0], layout)
    fy, fx, _ = spatial(factors, axes_of(len(factors), layout), 1)
    if fy == fx == 1:
        b.alias(x, site, layout)
    elif site.attrs["mode"] == "nearest":
        b.keep("resize_nearest", x, site, {"factor": (fy, fx)}, layout)
    else:
        fmt, out = b.tensors[x].format, b.format(site.outputs[0])
        m, f = multiplier(fmt.scale[0] / (out.scale[0] * 4 * fy * fx))
        attrs = {"factor": (fy, fx), "mode": int(site.attrs["coordinate"] == "asymmetric")}
        b.make(
            "resize_linear", (x,), site,
            {**attrs, "zp": fmt.zero_point[0], "m": m, "f": f, "out_zp": out.zero_point[0]}, layout,
        )  # fmt: skip
