"""Functions of one value: a table of their own, a clamp inside the layer before, or its interpolated table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from axtool.ops.limits_elementwise import slope_axis
from axtool.ops.tables import Function, interp_table, lut256, prelu_luts
from axtool.ops.unary import UNARY, evaluate
from axtool.plan.lower_builder import Builder, step_of
from axtool.types import QFormat, Site

INT16_MAX = 32767
SMALLEST_RANGE = 1e-30  # of a value that was always zero
# How far the argument of a table may reach, in times the range that was seen: 8 costs three of its 16 bits.
REACHES = (1.0, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
AFFINE: Mapping[str, Callable[..., NDArray[np.float64]]] = MappingProxyType(
    {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
)


@dataclass(frozen=True, slots=True)
class Ending:
    """What a layer does after its sum: bounds in its output's steps, or a table over `scale16` steps of int16."""

    out: str
    origin: tuple[Site, ...]
    lo: int = -128
    hi: int = 127
    table: NDArray[np.int16] | None = None
    scale16: float = 0.0


def lower_unary(b: Builder, site: Site) -> None:
    """One table of 256 entries."""
    layout = b.layouts[site.outputs[0]]
    x = b.read(site.inputs[0], layout)
    function = function_of(site)
    assert function is not None
    origin, function = with_affine(b, (site,), function)
    table = lut256(function, b.tensors[x].format, b.format(origin[-1].outputs[0]))
    _lut(b, origin, x, table, per_channel=0)


def lower_prelu(b: Builder, site: Site) -> None:
    """One table, or one for each channel."""
    if not slope_axis(site):
        lower_unary(b, site)
        return
    x = b.read(site.inputs[0], b.layouts[site.outputs[0]])
    have, want = b.tensors[x].format, b.format(site.outputs[0])
    tables = prelu_luts(site.constants[site.inputs[1]], have, want).reshape(-1, 256)
    _lut(b, (site,), x, tables, per_channel=1)


def ending(b: Builder, *sites: Site, mac: bool) -> Ending:
    """The clamp or the function that the layer of these sites can do for the only reader of its output, if any."""
    y = sites[-1].outputs[0]
    after = b.only_reader(y)
    if after is None or after.inputs[0] != y:
        return Ending(y, sites)
    out, origin = after.outputs[0], (*sites, after)
    bounds = clamp_of(after)
    if bounds is not None:
        b.fused.add(after.index)
        fmt = b.format(out)
        return Ending(out, origin, step_of(bounds[0], fmt), step_of(bounds[1], fmt))
    function = function_of(after)
    if function is None or not mac or not b.target.vector_unit:
        return Ending(y, sites)
    b.fused.add(after.index)
    origin, function = with_affine(b, origin, function)
    out = origin[-1].outputs[0]
    scale16 = _reach(b, y, function, b.format(out)) / INT16_MAX
    return Ending(out, origin, table=interp_table(function, scale16, b.format(out)), scale16=scale16)


def with_affine(b: Builder, origin: tuple[Site, ...], function: Function) -> tuple[tuple[Site, ...], Function]:
    """The sites of a table and those behind them that scale and shift all values alike: the table does it all.

    Such are the learned scale and offset behind an activation (PP-LCNetV3) that a padded convolution reads: no weights
    can take the offset. Each would be one more rounding to int8.
    """
    while (after := b.only_reader(origin[-1].outputs[0])) is not None:
        line = _line_of(after)
        if line is None:
            break
        b.fused.add(after.index)
        origin, function = (*origin, after), _composed(line, function)
    return origin, function


def _line_of(site: Site) -> Function | None:
    """x op c or c op x as a function of x, for one number c and x of the output's shape; else None."""
    fixed = [name for name in site.inputs if name in site.constants]
    if site.op not in AFFINE or len(site.inputs) != 2 or len(fixed) != 1 or site.constants[fixed[0]].size != 1:
        return None
    data = next(name for name in site.inputs if name != fixed[0])
    number = float(np.asarray(site.constants[fixed[0]]).reshape(-1)[0])
    first = site.inputs[0] == fixed[0]
    if site.shapes[data] != site.shapes[site.outputs[0]] or not np.isfinite(number) or (site.op == "Div" and first):
        return None
    op = AFFINE[site.op]
    return (lambda x: op(number, x)) if first else (lambda x: op(x, number))


def _composed(outer: Function, inner: Function) -> Function:
    return lambda x: outer(inner(x))


def clamp_of(site: Site) -> tuple[float, float] | None:
    """The bounds of a Relu or Clip."""
    if site.op == "Relu":
        return 0.0, inf
    if site.op == "Clip":  # where min is above max, max counts
        return min(site.attrs["min"], site.attrs["max"]), site.attrs["max"]
    return None


def function_of(site: Site) -> Function | None:
    """The function of an op that treats every channel alike, or None."""
    if site.op in UNARY and site.op != "Identity":
        return lambda x: evaluate(site.op, x, site.attrs)
    if site.op == "PRelu" and slope_axis(site) == 0:
        alpha = float(np.asarray(site.constants[site.inputs[1]]).reshape(-1)[0])
        return lambda x: evaluate("LeakyRelu", x, {"alpha": alpha})
    return None


def _lut(b: Builder, origin: tuple[Site, ...], x: str, table: NDArray[np.int8], *, per_channel: int) -> None:
    out = origin[-1].outputs[0]
    name = b.constant(f"{out}/table", np.asarray(table, np.int8), b.format(out))
    b.make("lut", (x, name), origin[0], {"per_channel": per_channel}, b.layouts[out], out, origin)


def _reach(b: Builder, name: str, function: Function, out: QFormat) -> float:
    """The largest argument of a table: what was seen of the tensor or, where the output can show more, further.

    The range of the argument may be cut (percentile, mse) where that of the output is not, and a Sigmoid's output goes
    from 0 to 1 whatever its argument did: an argument beyond its range would be held where the output still changes.
    """
    lo, hi = b.quantization.ranges[name] if name in b.quantization.ranges else _span(b.format(name))
    seen = max(abs(lo), abs(hi), SMALLEST_RANGE)

    def shown(reach: float) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return np.clip(np.nan_to_num(function(np.array([-reach, reach]))), *_span(out))

    end = shown(seen * REACHES[-1])
    enough = (reach for reach in REACHES if np.abs(shown(seen * reach) - end).max() <= out.scale[0] / 2)
    return seen * next(enough)


def _span(fmt: QFormat) -> tuple[float, float]:
    return (-128 - fmt.zero_point[0]) * fmt.scale[0], (127 - fmt.zero_point[0]) * fmt.scale[0]
