"""What the compiler does to make a program faster, by name: the part of the road it acts on and what it promises.

An optimisation is on where the target lists it and nobody disables it. *Bit-exact* ones move data and leave every
number alone. *Measured* ones change arithmetic, in float or in the device's integers: what they cost in agreement is
to be measured, and `axtool compile --explain-passes` does so. *Approximate* ones are off unless somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from axtool.errors import UsageError, nearest

Contract = Literal["bit-exact", "measured", "approximate"]
Step = Literal["graph", "forms", "plan"]


@dataclass(frozen=True, slots=True)
class Optimization:
    """`step`: of the ONNX graph, of the arithmetic form of device ops, or of how a plan moves data.

    `phase` 1 moves data and is measured on its own over the base, 2 changes arithmetic and is measured in order.
    """

    name: str
    phase: Literal[1, 2]
    step: Step
    contract: Contract
    what: str


_ALL = (
    Optimization("single-walk", 1, "plan", "bit-exact",
                 "a convolution behind space-to-depth reads its tile flow once, not once an output channel"),
    Optimization("stage-activations", 1, "plan", "bit-exact",
                 "a map of several tiles lies on chip before the layer that shrinks it asks for it"),
    Optimization("prefetch-weights", 1, "plan", "bit-exact",
                 "the constants of a kernel arrive while the kernel in front runs"),
    Optimization("branches-in-place", 1, "plan", "bit-exact",
                 "the branches of a Concat are read where they are, without a fusion buffer"),
    Optimization("single-entry", 1, "plan", "bit-exact",
                 "one entry point for all kernels, with a fence in front of each"),
    Optimization("split-resize", 2, "graph", "measured",
                 "a linear resize by 4 or 8 becomes resizes by 2"),
    Optimization("share-layer-norm", 2, "plan", "bit-exact",
                 "all readers of a LayerNormalization of several tiles share its output on chip"),
    Optimization("exp-table-multi-tile", 2, "forms", "measured",
                 "the exponential of scores over several tiles is an exact table of 256 values"),
    Optimization("exp-table-single-tile", 2, "forms", "measured",
                 "the exponential of scores within one tile is an exact table of 256 values"),
    Optimization("log-sigma", 2, "forms", "measured",
                 "1/sigma of LayerNormalization is exp(-ln(v)/2): no square root, no division"),
    Optimization("int32-mean", 2, "forms", "bit-exact",
                 "the mean of LayerNormalization is a sum of 32 bits"),
    Optimization("packed-space-to-depth", 2, "plan", "bit-exact",
                 "space-to-depth in front of the stem is a packed flow, not random stores"),
    Optimization("fuse-before-upsample", 2, "graph", "measured",
                 "a 1x1 convolution of upsampled branches meets each branch at its own resolution"),
    Optimization("space-to-depth-stem", 2, "graph", "bit-exact",
                 "a strided window that overlaps becomes space-to-depth and a convolution of stride 1"),
    Optimization("space-to-depth-reduction", 2, "graph", "bit-exact",
                 "a wide window without overlap becomes packed space-to-depth passes and a 1x1 convolution"),
    Optimization("replicate-labels", 2, "graph", "approximate",
                 "labels of the small map are repeated: logits are not enlarged in front of ArgMax"),
)  # fmt: skip
OPTIMIZATIONS: Mapping[str, Optimization] = MappingProxyType({one.name: one for one in _ALL})


def enabled(listed: Iterable[str], disabled: Collection[str], step: Step | None = None) -> tuple[str, ...]:
    """The optimisations that are on, in order: of those that the target lists, without the disabled ones."""
    listed = frozenset(listed)
    return tuple(
        one.name
        for one in OPTIMIZATIONS.values()
        if one.name in listed and one.name not in disabled and step in (None, one.step)
    )


def check_names(disabled: Iterable[str], passes: Iterable[str]) -> None:
    """Raise UsageError for a disabled name that is neither a pass nor an optimisation.

    Of an optimisation that acts in several places, `NAME:2` is the second of them.
    """
    known = (*passes, *OPTIMIZATIONS)
    for name in disabled:
        stem, colon, place = name.partition(":")
        counted = not colon or (OPTIMIZATIONS.get(stem) is not None and place.isdigit() and int(place) > 0)
        if stem not in known or not counted:
            raise UsageError(f"no pass is called '{name}'", hint=nearest(stem, known), code="unknown-pass")


def is_off(name: str, place: int, disabled: Collection[str]) -> bool:
    """Whether an optimisation is off at a place, counted from 1."""
    return name in disabled or f"{name}:{place}" in disabled
