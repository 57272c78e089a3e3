"""Which tensors hold the same numbers: each as boxes of the tensors in which those numbers first were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from axtool.ops.boxes import intersect, is_empty, whole
from axtool.ops.copies import copied_boxes
from axtool.ops.encoding import dims_of
from axtool.plan.tile_needs import concat_box
from axtool.types import Layer, Program, Tile

# Ops whose output box may take the place of the very same box of an operand.
IN_PLACE = (
    "add", "mul", "lut", "requantize", "wide_add", "wide_mul", "wide_lut", "wide_requantize",
    "fx_add", "fx_mul", "fx_requantize", "fx_lut",
)  # fmt: skip
Origin = tuple[int, int, int]  # (y, x, channel byte)


@dataclass(frozen=True, slots=True)
class Held:
    """A box of a tensor holds what `source` holds from `start` on."""

    box: Tile
    source: str
    start: Origin

    @property
    def shift(self) -> Origin:
        """From a place in the source to the same number here."""
        return minus(corner(self.box), self.start)


def held_numbers(program: Program) -> dict[str, tuple[Held, ...]]:
    """The boxes of each layer's output. A tensor that no copy fills is one box of itself."""
    known: dict[str, tuple[Held, ...]] = {}
    for layer in program.layers:
        known[layer.outputs[0]] = tuple(_boxes(layer, program, known))
    return known


def itself(program: Program, name: str) -> tuple[Held, ...]:
    """A tensor that holds its own numbers."""
    return (Held(whole(dims_of(program.tensors[name].shape)), name, (0, 0, 0)),)


def kin(program: Program) -> dict[str, str]:
    """A common name for tensors that may share bytes: those tied by copies, or by ops that may work in place."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for layer in program.layers:
        shape = program.tensors[layer.outputs[0]].shape
        tied = [layer.inputs[copied.index] for copied in copied_boxes(layer, program)]
        if layer.op in IN_PLACE:
            tied = [name for name in layer.inputs if program.tensors[name].shape == shape]
        for name in tied:
            if name not in program.constants:
                parent[root(name)] = root(layer.outputs[0])
    return {name: root(name) for name in parent}


def _boxes(layer: Layer, program: Program, known: Mapping[str, tuple[Held, ...]]) -> Iterator[Held]:
    copies = copied_boxes(layer, program)
    for copied in copies:
        name = layer.inputs[copied.index]
        area = Tile(*copied.start, copied.box.h, copied.box.w, copied.box.n)
        for held in known.get(name) or itself(program, name):
            cut = intersect(held.box, area)
            if not is_empty(cut):
                place = plus(corner(copied.box), minus(corner(cut), copied.start))
                start = plus(held.start, minus(corner(cut), corner(held.box)))
                yield Held(Tile(*place, cut.h, cut.w, cut.n), held.source, start)
    out, copied_parts = layer.outputs[0], {copied.index for copied in copies}
    if layer.op == "concat":
        for index in range(len(layer.inputs)):
            if index not in copied_parts:
                box = concat_box(layer, program, index)
                yield Held(box, out, corner(box))
    elif not copies:
        yield from itself(program, out)


def corner(box: Tile) -> Origin:
    """Where a box begins."""
    return box.y, box.x, box.c


def plus(a: Origin, b: Origin) -> Origin:
    """The sum on each axis."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def minus(a: Origin, b: Origin) -> Origin:
    """The difference on each axis."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]
