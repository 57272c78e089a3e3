"""Add, Sub, Mul, Div, Sum, BatchNormalization  ->  add and mul layers, or a depthwise one for per-channel constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS, quantize_host
from axtool.plan.chains import chain_from
from axtool.plan.convert import multiplier
from axtool.plan.layout import FIRST, axes_of, layout_for
from axtool.plan.lower_activation import Ending, ending, lower_chain
from axtool.plan.lower_builder import Builder, spatial
from axtool.plan.lower_mac import lower_affine
from axtool.plan.lower_mac_layer import is_per_channel
from axtool.plan.lower_wide import as_bytes, sized
from axtool.types import Kind, Layout, QFormat, Site

Real = NDArray[np.float64]


def lower_binary(b: Builder, site: Site) -> None:
    """Two activations, or one and a constant: a single number before other functions is part of their table."""
    chain = chain_from(b, site)
    if chain is not None:
        lower_chain(b, chain)
        return
    fixed = [name for name in site.inputs if name in site.constants]
    layout = b.layouts[site.outputs[0]]
    rank = len(site.shapes[site.outputs[0]])
    if not fixed:
        reads = [b.read(name, layout, rank) for name in site.inputs]
        _emit_pair(b, site, reads, layout)
        return
    values = np.asarray(site.constants[fixed[0]], np.float64)
    values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    data = next(name for name in site.inputs if name != fixed[0])
    if site.shapes[data] == site.shapes[site.outputs[0]] and is_per_channel(values, rank, layout):
        factor, shift = _affine(site, values, first=site.inputs[0] == fixed[0])
        lower_affine(b, site, factor, shift, layout)
        return
    _emit_with_constant(b, site, values, data, layout)


def lower_batch_norm(b: Builder, site: Site) -> None:
    """(x - mean) / sqrt(var + epsilon) * scale + bias, as a factor and a shift for each channel."""
    scale, bias, mean, var = (np.asarray(site.constants[name], np.float64) for name in site.inputs[1:5])
    factor = scale / np.sqrt(var + site.attrs["epsilon"])
    lower_affine(b, site, factor, bias - mean * factor, layout_for(len(site.shapes[site.inputs[0]]), FIRST))


def _affine(site: Site, values: Real, *, first: bool) -> tuple[Real, Real]:
    """x op c, or c op x when the constant is the first input, as (factor, shift)."""
    one, zero = np.ones_like(values), np.zeros_like(values)
    if site.op == "Mul":
        return values, zero
    if site.op == "Div":
        return 1 / values, zero
    if site.op == "Sub":
        return (-one, values) if first else (one, -values)
    return one, values


def _emit_with_constant(b: Builder, site: Site, values: Real, data: str, layout: Layout) -> None:
    """The constant as a tensor beside the data: of int16 where the result is, else of int8."""
    rank = values.ndim
    real = 1 / values if site.op == "Div" else values
    fmt = format_of(real, b.format(site.outputs[0]).kind)
    axes = axes_of(rank, layout)
    kept = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(rank) if axis not in kept]
    stored = quantize_host(real.transpose(rest + kept).reshape(1, *spatial(values.shape, axes, 1)), fmt)
    name = b.constant(f"{site.outputs[0]}/constant", as_bytes(stored), fmt)
    x = b.read(data, layout, rank)
    _emit_pair(b, site, [x if name_ == data else name for name_ in site.inputs], layout)


def format_of(values: Real, kind: Kind = "int8") -> QFormat:
    """int8 over the range of a constant and zero, or int16 over its magnitude."""
    lo, hi = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    if kind == "int16":
        return QFormat(kind, (max(-lo, hi, 1e-30) / LIMITS[kind][1],))
    scale = max((hi - lo) / 255, 1e-30)
    return QFormat("int8", (scale,), (int(np.clip(np.rint(-128 - lo / scale), -128, 127)),))


def _emit_pair(b: Builder, site: Site, reads: list[str], layout: Layout) -> None:
    end = ending(b, site, mac=False)
    if site.op in ("Mul", "Div"):
        op, attrs = "mul", _product(b, reads, end)
    else:
        op, attrs = "add", _sum(b, reads, end, subtract=site.op == "Sub")
    left, right = (b.tensors[name] for name in reads)
    attrs |= {"a": left.numbers, "b": right.numbers}
    op, attrs = sized(op, attrs, a=left.format, b=right.format, out=end.format)
    b.make(op, reads, site, attrs, layout, end.out, end.origin)


def _product(b: Builder, reads: list[str], end: Ending) -> dict[str, Any]:
    left, right = (b.tensors[name].format for name in reads)
    out = end.format
    m, f = multiplier(left.scale[0] * right.scale[0] / out.scale[0])
    zeros = {"zp_a": left.zero_point[0], "zp_b": right.zero_point[0], "out_zp": out.zero_point[0]}
    return {**zeros, "m": m, "f": f, "lo": end.lo, "hi": end.hi}


def _sum(b: Builder, reads: list[str], end: Ending, *, subtract: bool) -> dict[str, Any]:
    out = end.format
    attrs: dict[str, Any] = {"out_zp": out.zero_point[0], "lo": end.lo, "hi": end.hi, "sub": int(subtract)}
    for side, name in zip("ab", reads, strict=True):
        fmt = b.tensors[name].format
        m, f = multiplier(fmt.scale[0] / out.scale[0])
        attrs |= {f"zp_{side}": fmt.zero_point[0], f"m_{side}": m, f"f_{side}": f}
    return attrs
