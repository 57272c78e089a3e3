"""Softmax and LayerNormalization that compute in fx32  ->  fx_softmax and fx_layer_norm."""

from __future__ import annotations

from typing import Any

from axtool.ops.reference_fx_rows import FX_BYTES, fx_affine
from axtool.ops.reference_rows import epsilon_fields
from axtool.plan.layout import LAST, wanted_layout
from axtool.plan.lower_attention import exponential_is_table
from axtool.plan.lower_builder import Builder
from axtool.plan.lower_rows import affine_of, norm_form
from axtool.types import QFormat, Site

SIZES = {"x_bytes": FX_BYTES, "out_bytes": FX_BYTES}


def lower_fx_softmax(b: Builder, site: Site) -> None:
    """In the fraction bits of the site's output."""
    x = b.read(site.inputs[0], wanted_layout(site) or LAST, kind="fx32")
    looked_up = exponential_is_table(b, rows=b.tensors[x].numbers[0] * b.tensors[x].numbers[1])
    _make(b, "fx_softmax", (x,), site, {"f_x": _bits(b, x), "f": _made_bits(b, site), "form": int(looked_up)})


def lower_fx_layer_norm(b: Builder, site: Site) -> None:
    """A factor and an offset for each channel, in the fraction bits of the site's output."""
    x = b.read(site.inputs[0], wanted_layout(site) or LAST, kind="fx32")
    channels = b.tensors[x].numbers[2]
    pairs, shift = fx_affine(*affine_of(site, channels), _made_bits(b, site), channels)
    epsilon = epsilon_fields(site.attrs["epsilon"], 2.0 ** -_bits(b, x), channels)
    table = b.constant(f"{site.outputs[0]}/affine", pairs)
    _make(b, "fx_layer_norm", (x, table), site, {"shift": shift, **epsilon, "form": norm_form(b)})


def _make(b: Builder, op: str, reads: tuple[str, ...], site: Site, attrs: dict[str, Any]) -> None:
    made = QFormat("fx32", fraction_bits=_made_bits(b, site))
    b.make(op, reads, site, attrs | SIZES, wanted_layout(site) or LAST, fmt=made)


def _made_bits(b: Builder, site: Site) -> int:
    """Fraction bits of the site's output."""
    home = b.format(site.outputs[0])
    if home.fraction_bits is None:
        raise ValueError(f"{site} makes fx32, its output is {home.kind}")
    return home.fraction_bits


def _bits(b: Builder, tensor: str) -> int:
    """Fraction bits of a stored tensor of fx32."""
    bits = b.tensors[tensor].format.fraction_bits
    assert bits is not None
    return bits
