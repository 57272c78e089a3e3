"""Where a layer's output is a box of an input, byte for byte: parts of a concat that keep their format, plain slices.

Such a box need not be copied when both tensors lie in the same bytes (`axtool.plan.homes`).
"""

from __future__ import annotations

from dataclasses import dataclass

from axtool.ops.boxes import Job, whole
from axtool.ops.encoding import dims_of
from axtool.ops.reference_elementwise import part_box
from axtool.types import Layer, Program, Tile


@dataclass(frozen=True, slots=True)
class Copied:
    """`box` of the output holds what input `index` holds from `start` (y, x, channel byte) on."""

    index: int
    box: Tile
    start: tuple[int, int, int]


def copied_boxes(layer: Layer, program: Program) -> tuple[Copied, ...]:
    """The boxes of a layer's output that are copies, at most one for each input; none for other ops."""
    out = dims_of(program.tensors[layer.outputs[0]].shape)
    if layer.op == "slice":
        if any(int(step) != 1 for step in layer.attrs["step"]):
            return ()
        y, x, c = (int(at) for at in layer.attrs["start"])
        return (Copied(0, whole(out), (y, x, c)),)
    if layer.op != "concat":
        return ()
    found = []
    for index, name in enumerate(layer.inputs):
        if layer.attrs["parts"][4 * index + 2] == 0:  # no factor: the bytes stay
            dims = dims_of(program.tensors[name].shape)
            box = part_box(Job(layer.op, dims, out, layer.attrs, whole(out), index))
            found.append(Copied(index, box, (0, 0, 0)))
    return tuple(found)
