"""Functions of one value: a table of their own, a clamp inside the layer before, or its interpolated table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from axtool.ops.limits_elementwise import slope_axis
from axtool.ops.tables import Function, interp_table, lut256, prelu_luts
from axtool.plan.chains import Chain, chain_after, chain_from, data_of, swallow
from axtool.plan.lower_builder import Builder, step_of
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
    lo: int = -128
    hi: int = 127
    table: NDArray[np.int16] | None = None
    scale16: float = 0.0


def lower_unary(b: Builder, site: Site) -> None:
    """One table of 256 entries for the site and for the functions that follow it."""
    chain = chain_from(b, site)
    assert chain is not None
    lower_chain(b, chain)


def lower_chain(b: Builder, chain: Chain) -> None:
    """One table of 256 entries."""
    site = chain.sites[0]
    swallow(b, chain.sites[1:])
    layout = b.layouts[chain.out]
    x = b.read(data_of(site), layout)
    table = lut256(chain, b.tensors[x].format, b.format(chain.out))
    _lut(b, chain.sites, x, table, per_channel=0)


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
        return Ending(y, sites)
    bounds = clamp_of(chain.sites[0])
    tabled = mac and b.target.vector_unit
    if bounds is not None and not (tabled and len(chain.sites) > 1):
        after = chain.sites[0]
        swallow(b, (after,))
        fmt = b.format(after.outputs[0])
        return Ending(after.outputs[0], (*sites, after), step_of(bounds[0], fmt), step_of(bounds[1], fmt))
    if not tabled:
        return Ending(y, sites)
    swallow(b, chain.sites)
    fmt = b.format(chain.out)
    scale16 = _reach(b, y, chain, fmt) / INT16_MAX
    return Ending(chain.out, (*sites, *chain.sites), table=interp_table(chain, scale16, fmt), scale16=scale16)


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
