"""A plan and names of tensors  ->  taps that copy those tensors out as they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import intersect, is_empty
from axtool.ops.copies import copied_boxes
from axtool.sim.engine import Tap
from axtool.types import Command, Plan, Program, Tensor, Tile, View


class Watch:
    """Taps on the tensors `names`, and `arrays`, uint8 of the stored shapes (1, h, w, c), that every run fills anew."""

    def __init__(self, plan: Plan, names: Sequence[str]) -> None:
        self.names = tuple(names)
        tensors = plan.program.tensors
        self.arrays = {name: np.zeros(tensors[name].shape, np.uint8) for name in self.names}
        made = _writers(plan)
        self.taps = [
            Tap(after, view, _box(self.arrays[name], view.tile))
            for name in self.names
            for after, view in _looks(plan.program, name, made)
        ]


Made = dict[str, list[tuple[int, int, Command]]]  # by tensor: see `_writers`


def _writers(plan: Plan) -> Made:
    """By tensor: (number of the command, its number among those that compute or move, the command)."""
    made: Made = {}
    working = 0
    for index, command in enumerate(plan.commands):
        if command.kind in ("compute", "move"):
            made.setdefault(plan.program.layers[command.layer].outputs[0], []).append((index, working, command))
            working += 1
    return made


def _looks(program: Program, name: str, made: Made) -> list[tuple[int, View]]:
    """Where to look for a tensor, and after which command. What was never copied is where it was made."""
    own = made.get(name, [])
    looks = _views(program.tensors[name], own) if own else []
    layer = next((layer for layer in program.layers if name in layer.outputs), None)
    if layer is None:
        return looks
    for copied in copied_boxes(layer, program):
        if any(command.part == copied.index for _, _, command in own):
            continue
        area = Tile(*copied.start, copied.box.h, copied.box.w, copied.box.n)
        for after, view in _looks(program, layer.inputs[copied.index], made):
            cut = intersect(view.tile, area)
            if not is_empty(cut):
                y, x, c = (at - start for at, start in zip((cut.y, cut.x, cut.c), copied.start, strict=True))
                box = replace(cut, y=y + copied.box.y, x=x + copied.box.x, c=c + copied.box.c)
                looks.append((after, replace(_part(view, cut), tile=box)))
    return looks


def _views(tensor: Tensor, made: list[tuple[int, int, Command]]) -> list[tuple[int, View]]:
    """Where to look, and after which command: once, where the tensor is made in one piece, or else tile by tile.

    In one piece: all tiles go into one view of the whole tensor, with no other layer's work between them, and fill it.
    """
    (_, begin, first), (last, end, _) = made[0], made[-1]
    view = first.writes[0]
    _, h, w, c = tensor.shape
    size = sum(command.tile.h * command.tile.w * command.tile.n for _, _, command in made)
    whole = view.tile == Tile(0, 0, 0, h, w, c) and end - begin + 1 == len(made) and size == h * w * c
    if whole and all(command.writes[0] == view for _, _, command in made):
        return [(last, view)]
    return [(index, _part(command.writes[0], command.tile)) for index, _, command in made]


def _part(view: View, tile: Tile) -> View:
    """The tile within a view that holds it."""
    down, right, deep = tile.y - view.tile.y, tile.x - view.tile.x, tile.c - view.tile.c
    return replace(view, offset=view.offset + down * view.row_stride + right * view.pixel_stride + deep, tile=tile)


def _box(whole: NDArray[np.uint8], tile: Tile) -> NDArray[np.uint8]:
    return whole[0, tile.y : tile.y + tile.h, tile.x : tile.x + tile.w, tile.c : tile.c + tile.n]
