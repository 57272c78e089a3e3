"""Softmax, LayerNormalization, ArgMax  ->  softmax, layer_norm, arg_max: a row of channels decides together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axtool.ops.exponential import exp_table, iterated_exp_table
from axtool.ops.reference_rows import LOG_ROOT, NARROW_MEAN, affine_pairs, epsilon_fields
from axtool.plan.convert import multiplier
from axtool.plan.layout import LAST, wanted_layout
from axtool.plan.lower_activation import ending
from axtool.plan.lower_attention import EXPONENTIALS, exponential_is_table
from axtool.plan.lower_builder import Builder
from axtool.types import BYTES, QFormat, Site

EXACT_TABLE = 1  # form of a softmax
WHOLE = QFormat("int32", (1.0,))  # indices of channels


def lower_softmax(b: Builder, site: Site) -> None:
    """The table of the exponential of each difference of two inputs, and one division a row."""
    layout = wanted_layout(site) or LAST
    x = b.read(site.inputs[0], layout)
    end = ending(b, site, mac=False)
    looked_up = exponential_is_table(b, rows=b.tensors[x].numbers[0] * b.tensors[x].numbers[1])
    values = (exp_table if looked_up else iterated_exp_table)(b.tensors[x].format.scale[0])
    table = b.constant(f"{end.out}/exponentials", values, EXPONENTIALS)
    m, f = multiplier(1.0 / end.format.scale[0])
    attrs = {"m": m, "f": f, "out_zp": end.format.zero_point[0], "lo": end.lo, "hi": end.hi}
    attrs["form"] = EXACT_TABLE if looked_up else 0
    b.make("softmax", (x, table), site, attrs, layout, end.out, end.origin)


def lower_layer_norm(b: Builder, site: Site) -> None:
    """A factor and an offset for each channel; epsilon in the units of the input's squares."""
    layout = wanted_layout(site) or LAST
    x = b.read(site.inputs[0], layout)
    end = ending(b, site, mac=False)
    channels = b.tensors[x].numbers[2]
    pairs, f = affine_pairs(*affine_of(site, channels), end.format.scale[0], channels)
    table = b.constant(f"{end.out}/affine", pairs)
    attrs = {
        "f": f, "out_zp": end.format.zero_point[0], "lo": end.lo, "hi": end.hi,
        **epsilon_fields(site.attrs["epsilon"], b.tensors[x].format.scale[0], channels), "form": norm_form(b),
    }  # fmt: skip
    b.make("layer_norm", (x, table), site, attrs, layout, end.out, end.origin)


def lower_arg_max(b: Builder, site: Site) -> None:
    """Numbers are compared as they are held. Without its axis the pixels of a row lie side by side."""
    layout = wanted_layout(site) or LAST
    held = b.tensors[b.held[site.inputs[0]].tensor].format.kind
    x = b.read(site.inputs[0], layout, kind="int8" if held == "fp16" else held)
    attrs = {
        "flat": 1 - site.attrs["keepdims"], "last": site.attrs["select_last_index"],
        "x_bytes": b.tensors[x].number_bytes, "out_bytes": BYTES[WHOLE.kind],
    }  # fmt: skip
    b.make("arg_max", (x,), site, attrs, layout if site.attrs["keepdims"] else LAST, fmt=WHOLE)


def norm_form(b: Builder) -> int:
    """How a layer_norm finds mean and 1 / sigma, by the optimisations that are on."""
    log_root, narrow_mean = "log-sigma" not in b.without, "int32-mean" not in b.without
    return LOG_ROOT * log_root + NARROW_MEAN * narrow_mean


def affine_of(site: Site, channels: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scale (input 1) and the bias (input 2, zeros where there is none) of each channel."""
    names = [*site.inputs[1:3], ""][:2]
    values = [np.asarray(site.constants[name] if name else 0.0, np.float64).reshape(-1) for name in names]
    return np.broadcast_to(values[0], (channels,)), np.broadcast_to(values[1], (channels,))
