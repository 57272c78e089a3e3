"""What a site computes in, where some compute in fx32 or fp16 and others only pass such numbers on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from axtool.ops.limits_movement import RESIZE, SHAPE_OPS
from axtool.ops.wide import no_wide_form
from axtool.types import Precision, Site

PRECISE: tuple[Precision, ...] = ("fx32", "fp16")
NOTHING: Mapping[str, Precision] = MappingProxyType({})
_MOVES = frozenset(
    {
        *SHAPE_OPS,
        *RESIZE,
        "Transpose",
        "Slice",
        "Split",
        "Pad",
        "DepthToSpace",
        "SpaceToDepth",
        "Concat",
        "Identity",
        "Dropout",
    }
)


def computes_in(site: Site, precision: Mapping[str, Precision], precise: Collection[str] = ()) -> Precision:
    """What a site computes in: "int8" stands for int16 as well. What only moves numbers of the `precise` tensors is as
    precise as they are, whatever is said of it.
    """
    if not precision and not precise:
        return "int8"
    if moves_whole(site):
        return "fx32" if any(name in precise for name in site.inputs) else "int8"
    said = precision.get(site.outputs[0], "int8")
    return said if said in PRECISE else "int8"


def moves_whole(site: Site) -> bool:
    """Whether a site only moves numbers and keeps the bytes of each together: its output has its input's format."""
    return site.op in _MOVES and not no_wide_form(site)


def is_bias(site: Site) -> bool:
    """Whether a site adds a constant to all that it reads: what may be the bias of the layer before."""
    fixed = [name for name in site.inputs if name in site.constants]
    return site.op == "Add" and len(fixed) == 1 and len(site.inputs) == 2
