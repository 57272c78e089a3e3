"""What a node costs before any target is known: multiply-accumulates and parameters."""

from __future__ import annotations

from math import prod

from axtool.ops.limits_core import shape_of
from axtool.types import Site


def macs(site: Site) -> int:
    """Multiply-accumulates of Conv, ConvTranspose, Gemm, MatMul and Attention; 0 for other ops and unknown shapes."""
    try:
        return _macs(site)
    except (KeyError, IndexError, ValueError):
        return 0


def params(site: Site) -> int:
    """Elements of the floating-point constants that the node reads."""
    return sum(int(values.size) for values in site.constants.values() if values.dtype.kind == "f")


def _macs(site: Site) -> int:
    if site.op in ("Conv", "ConvTranspose"):
        weights = shape_of(site, site.inputs[1])  # conv (cout, cin / g, *k), transposed (cin, cout / g, *k)
        pixels = site.shapes[site.outputs[0] if site.op == "Conv" else site.inputs[0]][2:]
        return site.shapes[site.inputs[0]][0] * prod(pixels) * prod(weights)
    if site.op in ("Gemm", "MatMul"):
        shape = shape_of(site, site.inputs[0])
        depth = shape[0] if site.attrs.get("transA", 0) else shape[-1]
        return prod(site.shapes[site.outputs[0]]) * depth
    if site.op == "Attention":  # scores and context
        (_, length, depth), (_, keys, made) = shape_of(site, site.inputs[0]), shape_of(site, site.inputs[2])
        return length * keys * (depth + made)
    return 0
