"""Sites that compute in fx32 and fp16  ->  fx_ and fp16_ layers, and what they read in the format that they want."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS
from axtool.ops.fixed_point import fit, fx_dequantize, to_fx
from axtool.ops.packing_fp16 import pack_bias, pack_linear
from axtool.ops.precise import is_bias
from axtool.ops.tables import fx_table
from axtool.ops.unary import UNARY
from axtool.plan.chains import Chain, chain_from, data_of, swallow
from axtool.plan.layout import FIRST, LAST, axes_of
from axtool.plan.lower_activation import clamp_of
from axtool.plan.lower_builder import Builder, spatial
from axtool.plan.lower_fx_rows import lower_fx_layer_norm, lower_fx_softmax
from axtool.plan.lower_wide import as_bytes
from axtool.types import BYTES, Kind, Layout, QFormat, Site

Real = NDArray[np.float64]
INT32 = LIMITS["int32"]
FLOAT = QFormat("float32")
HALF = QFormat("fp16")


def lower_sum(b: Builder, site: Site) -> None:
    """Add, Sub or Sum of two tensors, or of one and a constant: each shifted to the fraction bits of the result."""
    end = _ending(b, site)
    reads = _operands(b, site, end.bits)
    shifts = {f"shift_{side}": _bits(b, x) - end.bits for side, x in zip("ab", reads, strict=True)}
    _make(b, "fx_add", reads, end, {**_dims(b, reads), **shifts, "sub": int(site.op == "Sub")})


def lower_product(b: Builder, site: Site) -> None:
    """Mul of two tensors, or of one and a constant in the fit of its values; Div by one is Mul by its reciprocal."""
    end = _ending(b, site)
    reads = _operands(b, site, None)
    shift = sum(_bits(b, x) for x in reads) - end.bits
    _make(b, "fx_mul", reads, end, {**_dims(b, reads), "shift": shift})


def lower_function(b: Builder, site: Site) -> None:
    """A clamp, or a table over the range of what the site reads, with the functions behind it."""
    chain = chain_from(b, site)
    assert chain is not None
    if len(chain.sites) == 1 and clamp_of(site) is not None:
        x = b.read(data_of(site), b.layouts[site.outputs[0]], kind="fx32")
        end = _ending(b, site)
        _make(b, "fx_requantize", [x], end, {"shift": _bits(b, x) - end.bits})
        return
    swallow(b, chain.sites[1:])
    x = b.read(data_of(site), b.layouts[chain.out], kind="fx32")
    end = _End(b, site, chain.out, chain.sites)
    table, attrs = _table(b, chain, x, end.bits)
    _make(b, "fx_lut", [x, b.constant(f"{chain.out}/table", table)], end, attrs, bounded=False)


def lower_linear(b: Builder, site: Site) -> None:
    """MatMul, Gemm or a convolution of one tap with weights in fp16, and the bias and the Relu behind it."""
    layout = FIRST if site.op == "Conv" else LAST
    weights, shift = _weights(site)
    origin, out, relu = [site], site.outputs[0], 0
    rows = shift[None] if shift is not None else np.zeros((1, weights.shape[1]))
    after = b.only_reader(out)
    if after is not None and is_bias(after) and after.shapes[after.outputs[0]] == site.shapes[out]:
        swallow(b, (after,))
        fixed = next(np.asarray(value, np.float64) for value in after.constants.values())
        origin, out = [*origin, after], after.outputs[0]
        rows = rows + _by_pixel(fixed, after.shapes[out], layout)
        after = b.only_reader(out)
    if after is not None and after.op == "Relu":
        swallow(b, (after,))
        origin, out, relu = [*origin, after], after.outputs[0], 1
    if (rows == rows[:1]).all():
        rows = rows[:1]
    data = site.inputs[0]
    kind: Kind | None = "fx32" if b.tensors[b.held[data].tensor].format.kind == "int16" else None
    x = b.read(data, layout, kind=kind)
    have, want = b.tensors[x].format, b.format(out)
    attrs = {
        **_narrowing(have), "f": want.fraction_bits or 0, "relu": relu, "bias_rows": len(rows),
        "x_bytes": BYTES[have.kind], "out_bytes": BYTES[want.kind],
    }  # fmt: skip
    constants = [
        b.constant(f"{out}/weights", pack_linear(weights), HALF),
        b.constant(f"{out}/bias", pack_bias(rows), FLOAT),
    ]
    b.make("fp16_linear", [x, *constants], site, attrs, layout, out, origin)


class _End:
    """What the layers of a site make: the tensor `out` with `bits` fraction bits, between `bounds` in real units."""

    def __init__(
        self, b: Builder, site: Site, out: str, origin: tuple[Site, ...], bounds: tuple[float, float] = (-inf, inf)
    ) -> None:
        self.site, self.out, self.origin = site, out, origin
        self.layout = b.layouts[out]
        home = b.format(out)
        self.bits = fit(*b.quantization.ranges[out]) if home.fraction_bits is None else home.fraction_bits
        self.format = QFormat("fx32", fraction_bits=self.bits)
        lo, hi = (float(np.clip(np.rint(np.ldexp(bound, self.bits)), *INT32)) for bound in bounds)
        self.lo, self.hi = int(lo), int(hi)


def _ending(b: Builder, site: Site) -> _End:
    """The end of a site, with the clamp that alone reads it: both have the same fraction bits."""
    bounds = clamp_of(site) or (-inf, inf)
    out = site.outputs[0]
    origin: tuple[Site, ...] = (site,)
    after = b.only_reader(out)
    if after is not None and (also := clamp_of(after)) is not None and site.op in ("Add", "Sub", "Mul"):
        swallow(b, (after,))
        out, origin, bounds = after.outputs[0], (site, after), also
    return _End(b, site, out, origin, bounds)


def _make(b: Builder, op: str, reads: list[str], end: _End, attrs: dict[str, Any], *, bounded: bool = True) -> None:
    """The layer; an fp16 home is reached by a layer more."""
    tensors = reads[:2] if op in ("fx_add", "fx_mul") else reads[:1]
    names = ("a_bytes", "b_bytes") if len(tensors) == 2 else ("x_bytes",)
    sizes = {name: b.tensors[x].number_bytes for name, x in zip(names, tensors, strict=True)}
    attrs = {**attrs, **({"lo": end.lo, "hi": end.hi} if bounded else {}), **sizes, "out_bytes": 4}
    b.make(op, reads, end.site, attrs, end.layout, end.out, end.origin, end.format)
    if b.format(end.out).kind == "fp16":
        held = b.held[end.out]
        b.hold(end.out, b.in_format(held.tensor, HALF), held.shape, held.layout)


def _operands(b: Builder, site: Site, bits: int | None) -> list[str]:
    """Both operands in fx32; a constant with so many fraction bits, or those that fit its values."""
    out = site.outputs[0]
    layout, rank = b.layouts[out], len(site.shapes[out])
    return [
        _constant(b, site, name, layout, rank, bits) if name in site.constants else b.read(name, layout, rank, "fx32")
        for name in site.inputs
    ]


def _constant(b: Builder, site: Site, name: str, layout: Layout, rank: int, bits: int | None) -> str:
    values = np.asarray(site.constants[name], np.float64)
    values = 1 / values if site.op == "Div" else values
    values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    chosen = fit(float(values.min(initial=0.0)), float(values.max(initial=0.0))) if bits is None else bits
    axes = axes_of(rank, layout)
    kept = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(rank) if axis not in kept]
    stored = to_fx(values.transpose(rest + kept).reshape(1, *spatial(values.shape, axes, 1)), chosen)
    return b.constant(f"{site.outputs[0]}/constant", as_bytes(stored), QFormat("fx32", fraction_bits=chosen))


def _table(b: Builder, chain: Chain, x: str, bits: int) -> tuple[NDArray[np.int32], dict[str, int]]:
    """Points of a function, evenly spread over twice the range of its argument."""
    points, first, interval = fx_table(chain, b.quantization.ranges[data_of(chain.sites[0])], _bits(b, x), bits)
    return points, {"first": first, "interval": interval}


def _weights(site: Site) -> tuple[Real, Real | None]:
    """(k, n), and the bias (n,) that the site itself has."""
    w = np.asarray(site.constants[site.inputs[1]], np.float64)
    bias = np.asarray(site.constants[site.inputs[2]], np.float64) if len(site.inputs) > 2 and site.inputs[2] else None
    if site.op == "Conv":
        return w.reshape(w.shape[:2]).T, bias
    w = w.reshape(w.shape[-2:])
    if site.op == "Gemm":
        w = (w.T if site.attrs["transB"] else w) * site.attrs.get("alpha", 1.0)
        if bias is not None:
            bias = np.broadcast_to(bias.reshape(-1) * site.attrs.get("beta", 1.0), w.shape[1])
    return w, bias


def _by_pixel(values: Real, shape: tuple[int, ...], layout: Layout) -> Real:
    """A constant that is added to a tensor, as (pixels, channels) in the order in which that is stored."""
    full = np.broadcast_to(values, shape)
    kept = [axis for axis in axes_of(len(shape), layout) if axis is not None]
    rest = [axis for axis in range(len(shape)) if axis not in kept]
    return full.transpose(rest + kept).reshape(-1, shape[kept[-1]])


def _narrowing(have: QFormat) -> dict[str, int]:
    """How a linear layer sees numbers of a format on their way to fp16."""
    if have.kind == "int8":
        rule = fx_dequantize(have.scale[0], have.zero_point[0])
        return {"zp": rule.zero_point, "scale": rule.scale, "shift": rule.shift, "f_x": rule.fraction_bits}
    return {"zp": 0, "scale": 0, "shift": 0, "f_x": have.fraction_bits or 0}


def _dims(b: Builder, reads: list[str]) -> dict[str, Any]:
    return {"a": b.tensors[reads[0]].numbers, "b": b.tensors[reads[1]].numbers}


def _bits(b: Builder, tensor: str) -> int:
    bits = b.tensors[tensor].format.fraction_bits
    assert bits is not None
    return bits


Lowering = Callable[[Builder, Site], None]
FX32: Mapping[str, Lowering] = MappingProxyType(
    {**dict.fromkeys(UNARY, lower_function), "Mul": lower_product, "Div": lower_product}
    | dict.fromkeys(("Add", "Sub", "Sum"), lower_sum)
    | {"Softmax": lower_fx_softmax, "LayerNormalization": lower_fx_layer_norm}
)
FP16: Mapping[str, Lowering] = MappingProxyType(
    {
        **dict.fromkeys(("MatMul", "Gemm", "Conv"), lower_linear),
        "Add": lower_sum,  # a bias that no layer could take up
        "Relu": lower_function,
    }
)
