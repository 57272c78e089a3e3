"""Functions of one value: a table of their own, a clamp inside the layer before, or its interpolated table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS
from axtool.ops.limits_elementwise import slope_axis
from axtool.ops.tables import Function, interp_table, interp_table_wide, lut256, lut256_wide, prelu_luts
from axtool.plan.chains import Chain, chain_after, chain_from, data_of, swallow
from axtool.plan.lower_builder import Builder, step_of
from axtool.plan.lower_wide import sized
from axtool.types import QFormat, Site

INT16_MAX = 32767
SMALLEST_RANGE = 1e-30  # of a value that was always zero
# How far the argument of a table may reach, in times the range that was seen: 8 costs three of its 16 bits.
REACHES = (1.0, 1.125, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


@dataclass(frozen=True, slots=True)
class Ending:
    """What a layer does after its sum: bounds in its output's steps, or a table over `scale16` steps of int16."""

    out: str
    origin: tuple[Site, ...]
    format: QFormat
    lo: int
    hi: int
    table: NDArray[np.int16] | None = None
    scale16: float = 0.0


def lower_unary(b: Builder, site: Site) -> None:
    """One table of 256 entries for the site and for the functions that follow it."""
    chain = chain_from(b, site)
    assert chain is not None
    lower_chain(b, chain)


def lower_chain(b: Builder, chain: Chain) -> None:
    """One table: 256 entries, or points for an argument of 16 bits, of which a lone clamp needs none."""
    site = chain.sites[0]
    swallow(b, chain.sites[1:])
    layout = b.layouts[chain.out]
    x = b.read(data_of(site), layout)
    have, want = b.tensors[x].format, b.format(chain.out)
    bounds = clamp_of(site) if len(chain.sites) == 1 else None
    if have.kind == want.kind == "int8":
        _lut(b, chain.sites, x, lut256(chain, have, want), per_channel=0)
    elif bounds is not None:
        b.requantize(x, site, layout, chain.out, bounds)
    else:
        _lut_wide(b, chain, x)


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
    chain = chain_after(b, y)
    if chain is None:
        return _plain(y, sites, b.format(y))
    bounds = clamp_of(chain.sites[0])
    wide = b.format(chain.out).kind == "int16"
    tabled = mac and (b.target.vector_unit or wide)
    if bounds is not None and not (tabled and len(chain.sites) > 1):
        after = chain.sites[0]
        swallow(b, (after,))
        fmt = b.format(after.outputs[0])
        return Ending(after.outputs[0], (*sites, after), fmt, step_of(bounds[0], fmt), step_of(bounds[1], fmt))
    if not tabled:
        return _plain(y, sites, b.format(y))
    fmt = b.format(chain.out)
    if wide and y in b.quantization.given and b.format(y).kind == "int16":
        return _plain(y, sites, b.format(y))
    scale16 = _reach(b, y, chain, fmt) / INT16_MAX
    if wide:  # the tables behind a sum make int8: the argument itself is the result, and a layer of its own follows
        return _plain(y, sites, QFormat("int16", (scale16,)))
    swallow(b, chain.sites)
    return Ending(chain.out, (*sites, *chain.sites), fmt, *LIMITS["int8"], interp_table(chain, scale16, fmt), scale16)


def _plain(out: str, sites: tuple[Site, ...], fmt: QFormat) -> Ending:
    return Ending(out, sites, fmt, *LIMITS[fmt.kind])


def clamp_of(site: Site) -> tuple[float, float] | None:
    """The bounds of a Relu or Clip."""
    if site.op == "Relu":
        return 0.0, inf
    if site.op == "Clip":  # where min is above max, max counts
        return min(site.attrs["min"], site.attrs["max"]), site.attrs["max"]
    return None


def _lut(b: Builder, sites: Sequence[Site], x: str, table: NDArray[np.int8], *, per_channel: int) -> None:
    out = sites[-1].outputs[0]
    name = b.constant(f"{out}/table", np.asarray(table, np.int8), b.format(out))
    b.make("lut", (x, name), sites[0], {"per_channel": per_channel}, b.layouts[out], out, sites)


def _lut_wide(b: Builder, chain: Chain, x: str) -> None:
    """A table for numbers of 16 bits: an entry for each int8, or points for an int16."""
    have, want = b.tensors[x].format, b.format(chain.out)
    if have.kind == "int8":
        table = b.constant(f"{chain.out}/table", lut256_wide(chain, have, want), want)
    else:
        table = b.constant(f"{chain.out}/table", interp_table_wide(chain, have.scale[0], want))
    lo, hi = LIMITS[want.kind]
    op, attrs = sized("lut", {"lo": lo, "hi": hi}, x=have, out=want)
    b.make(op, (x, table), chain.sites[0], attrs, b.layouts[chain.out], chain.out, chain.sites)


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
    lo, hi = LIMITS[fmt.kind]
    return (lo - fmt.zero_point[0]) * fmt.scale[0], (hi - fmt.zero_point[0]) * fmt.scale[0]
