"""The formats in which the device computes an op, beside int8: what a recipe may ask of a node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from axtool.ops.limits_elementwise import IDENTITY
from axtool.ops.moves import MOVES
from axtool.ops.unary import UNARY
from axtool.target import Target
from axtool.types import Site

# What only moves values has the format of what it reads, whatever is asked of it.
FOLLOWING = frozenset({*MOVES, *IDENTITY, "Concat", "Gather", "Pad", "Expand", "GlobalMaxPool", "ReduceMax"})
FP16_OPS = frozenset({"MatMul", "Gemm", "Attention", "Conv", "Add", "Relu"})
FX32_OPS = frozenset({"Add", "Sub", "Sum", "Mul", "Div", "LayerNormalization", "Softmax", *UNARY})
_BEHIND: Mapping[str, frozenset[str]] = MappingProxyType(
    {"Add": frozenset({"MatMul", "Gemm"}), "Relu": frozenset({"MatMul", "Gemm", "Conv", "Add"})}
)
OPS: Mapping[str, frozenset[str]] = MappingProxyType({"fp16": FP16_OPS, "fx32": FX32_OPS})


def why_not_precise(site: Site, kind: str, target: Target | None = None) -> str:
    """Why the device cannot compute a site in fp16 or fx32, or "" where it can.

    fp16 is for matrix products: of weights or of two activations, attention, convolutions of one tap, which are the
    same, and for the bias and the Relu behind one. fx32 is for what adds, normalizes or maps single values.
    """
    if target is not None and kind not in target.formats:
        return f"{target.name} has no {kind}: its formats are {', '.join(target.formats)}"
    if site.op in FOLLOWING:
        return ""
    if site.op not in OPS[kind]:
        other = next((name for name, ops in OPS.items() if site.op in ops), "")
        return f"{site} has no {kind}" + (f"; {site.op} has {other}" if other else "")
    if site.op == "Conv" and not _is_product(site):
        return f"{site} has no fp16: of convolutions only those of 1x1 taps, stride 1 and one group are matrix products"
    if kind == "fp16" and site.op in _BEHIND and not _BEHIND[site.op].intersection(site.makers.values()):
        return f"{site} has no fp16: it has where it is the bias or the Relu behind a matrix product"
    return ""


def _is_product(site: Site) -> bool:
    """Whether a convolution multiplies each pixel with one matrix."""
    weights = site.constants.get(site.inputs[1]) if len(site.inputs) > 1 else None
    taps = () if weights is None else weights.shape[2:]
    strides = site.attrs.get("strides", ())
    return bool(taps) and set(taps) == {1} and set(strides) <= {1} and site.attrs.get("group", 1) == 1
