"""Attention, and MatMul of two activations  ->  attention and matmul layers: scores never become a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from axtool.ops.arithmetic import quantize_host
from axtool.ops.exponential import EXP_BITS, exp_table, iterated_exp_table
from axtool.ops.limits_mac import is_pair
from axtool.plan.convert import multiplier
from axtool.plan.layout import LAST, axes_of
from axtool.plan.lower_activation import ending
from axtool.plan.lower_builder import Builder, spatial
from axtool.plan.lower_elementwise import format_of
from axtool.plan.lower_mac import lower_matmul
from axtool.plan.lower_wide import as_bytes
from axtool.types import QFormat, Site

EXPONENTIALS = QFormat("int16", (2.0**-EXP_BITS,))


def lower_attention(b: Builder, site: Site) -> None:
    """One layer: heads lie side by side in the channels, and the format of the scores is that of the second output."""
    q, k, v = (_operand(b, site, name) for name in site.inputs[:3])
    mask = _operand(b, site, site.inputs[3], rank=4) if len(site.inputs) > 3 and site.inputs[3] else None
    scores, out = b.format(site.outputs[1]), b.format(site.outputs[0])
    have = {name: b.tensors[tensor].format for name, tensor in zip("qkv", (q, k, v), strict=True)}
    looked_up = exponential_is_table(b, rows=b.tensors[q].numbers[1])
    scale = float(site.attrs["scale"])
    m_s, f_s = multiplier(have["q"].scale[0] * have["k"].scale[0] * scale / scores.scale[0])
    m, f = multiplier(have["v"].scale[0] / out.scale[0])
    attrs: dict[str, Any] = {f"zp_{name}": fmt.zero_point[0] for name, fmt in have.items()}
    attrs |= {"heads": int(site.attrs["heads"]), "keys": b.tensors[k].numbers[1], "form": int(looked_up)}
    attrs |= {"m_s": m_s, "f_s": f_s, "zp_s": scores.zero_point[0], "m": m, "f": f, "out_zp": out.zero_point[0]}
    attrs |= {"mask": 0, "zp_m": 0, "m_m": 1, "f_m": 31}
    reads = [q, k, v]
    if mask is not None:
        fmt, rows = b.tensors[mask].format, b.tensors[mask].numbers[1]
        m_m, f_m = multiplier(fmt.scale[0] / scores.scale[0])
        attrs |= {"mask": 1 if rows == 1 else 2, "zp_m": fmt.zero_point[0], "m_m": m_m, "f_m": f_m}
        reads.append(mask)
    values = exp_table(scores.scale[0]) if looked_up else iterated_exp_table(scores.scale[0])
    table = b.constant(f"{site.outputs[0]}/exponentials", values, EXPONENTIALS)
    b.make("attention", (*reads, table), site, attrs, LAST)


def exponential_is_table(b: Builder, rows: int) -> bool:
    """Whether the exponential of scores, of so many rows, is looked up and not iterated."""
    array = b.target.array
    name = "exp-table-multi-tile" if rows > array.rows * array.columns else "exp-table-single-tile"
    return name not in b.without


def lower_product(b: Builder, site: Site) -> None:
    """MatMul: of two activations a matmul layer, with the clamp behind it; else a convolution over the tokens."""
    if not is_pair(site):
        lower_matmul(b, site)
        return
    left, right = (b.read(name, LAST) for name in site.inputs)
    end = ending(b, site, mac=False)
    a, c = b.tensors[left].format, b.tensors[right].format
    m, f = multiplier(a.scale[0] * c.scale[0] / end.format.scale[0])
    attrs = {"b": b.tensors[right].numbers, "trans_b": 0, "zp_a": a.zero_point[0], "zp_b": c.zero_point[0]}
    attrs |= {"m": m, "f": f, "out_zp": end.format.zero_point[0], "lo": end.lo, "hi": end.hi}
    b.make("matmul", (left, right), site, attrs, LAST, end.out, end.origin)


def _operand(b: Builder, site: Site, name: str, rank: int = 0) -> str:
    """The stored tensor of an operand; one of a constant is made for the site."""
    if name not in site.constants:
        return b.read(name, LAST, rank)
    values = np.asarray(site.constants[name], np.float64)
    values = values.reshape((1,) * (rank - values.ndim) + values.shape)
    fmt = format_of(values)
    stored = quantize_host(values.reshape(1, *spatial(values.shape, axes_of(values.ndim, LAST), 1)), fmt)
    return b.constant(f"{site.outputs[0]}/{name}", as_bytes(stored), fmt)
