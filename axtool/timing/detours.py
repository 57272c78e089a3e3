"""A program without some optimisations -> what it does besides, layer by layer: data that is moved more than once.

The numbers of a plan are the same with and without: only when bytes are fetched, where they land and how they are
walked differs. So a plan is laid out with every optimisation, names those that it is without (`Plan.without`), and the
clock charges what the straightforward program does in their place, by the primitive costs of the target.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

from axtool.ops.boxes import Job
from axtool.ops.encoding import MAC_OPS, dims_of, window_of
from axtool.ops.regions import needed
from axtool.optimizations import is_off
from axtool.target import Target
from axtool.timing.array import array_fills
from axtool.timing.kernels import KERNELS_OF_AN_ENTRY, kernel_starts
from axtool.types import Layer, Program, Tile

Kind = Literal["entry", "walk", "copy", "scatter", "spill", "constants"]
BUFFER_SHARE = 2  # kernels with the largest constants that hold one part in so many of all


@dataclass(frozen=True, slots=True)
class Detour:
    """In front of a layer, `count` times `size` bytes.

    entry: starts of the program. walk: reads of a tile flow by the array. copy: through the array, by tiles. scatter:
    random stores, a fence behind each. spill: written to external memory, and fetched from there when it is asked for.
    constants: waited for, all in one request.
    """

    layer: int
    kind: Kind
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places of an optimisation, counted from 1, and what the program does without it there."""

    name: str
    number: int
    detours: tuple[Detour, ...]


def detours_of(program: Program, target: Target, without: Collection[str]) -> dict[int, tuple[Detour, ...]]:
    """By layer, what a program without these optimisations does in front of it."""
    if not without:
        return {}
    found: dict[int, tuple[Detour, ...]] = {}
    for place in places(program, target):
        if is_off(place.name, place.number, without):
            for detour in place.detours:
                found[detour.layer] = (*found.get(detour.layer, ()), detour)
    return found


def places(program: Program, target: Target) -> Iterator[Place]:
    """Every place where an optimisation of data movement makes a difference, in order."""
    look = _Look(program, target)
    for name, find in (
        ("single-walk", look.walks),
        ("stage-activations", look.activations),
        ("prefetch-weights", look.constants),
        ("branches-in-place", look.branches),
        ("single-entry", look.entries),
        ("share-layer-norm", look.norms),
        ("packed-space-to-depth", look.stores),
    ):
        for number, detours in enumerate(find(), start=1):
            yield Place(name, number, detours)


class _Look:
    """A program as the optimisations see it: who makes and who reads what, sizes in tiles."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.maker = {name: at for at, layer in enumerate(program.layers) for name in layer.outputs}
        self.readers: dict[str, list[int]] = {}
        for at, layer in enumerate(program.layers):
            for name in dict.fromkeys(layer.inputs):
                self.readers.setdefault(name, []).append(at)
        self.starts = kernel_starts(program)
        self.tile_bytes = target.array.rows * target.array.columns

    def walks(self) -> Iterator[tuple[Detour, ...]]:
        """The window over the blocks of space-to-depth is read again for each output channel but the first."""
        for at, layer in enumerate(self.program.layers):
            source = self._made_by(layer.inputs[0])
            if layer.op in MAC_OPS and source is not None and source.op == "space_to_depth" and _reach(layer) > 1:
                h, w, c = self._dims(layer.outputs[0])
                rows, columns = self.target.array.rows, self.target.array.columns
                job = Job(layer.op, self._dims(layer.inputs[0]), (h, w, c), layer.attrs,
                          Tile(0, 0, 0, min(h, rows), min(w, columns), 1))  # fmt: skip
                box = needed(job, 0)
                kh, kw = layer.attrs["kernel"]
                size = box.n * (min(h, rows) + kh - 1) * (min(w, columns) + kw - 1)
                yield (Detour(at, "walk", (c - 1) * self._fills(h, w), size),)

    def activations(self) -> Iterator[tuple[Detour, ...]]:
        """A map of several tiles that a window with a step shrinks, unless it is an input: in external memory."""
        for at, layer in enumerate(self.program.layers):
            if layer.op in MAC_OPS and 1 < max(window_of(layer.attrs)["stride"]) < _reach(layer):
                h, w, c = self._dims(layer.inputs[0])
                if not self._enters(layer.inputs[0]) and self._fills(h, w) > 1:
                    yield (Detour(at, "spill", self._fills(h, w) * c, self.tile_bytes),)

    def constants(self) -> Iterator[tuple[Detour, ...]]:
        """The kernels that together hold most constants wait for them; the others' fit beside the kernel in front."""
        sizes = {start: self._constant_bytes(start, end) for start, end in self._spans() if start}
        left = sum(self._constant_bytes(start, end) for start, end in self._spans()) / BUFFER_SHARE
        chosen = []
        for start, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
            if left > 0:
                chosen.append(start)
                left -= size
        for start in sorted(chosen):
            yield (Detour(start, "constants", 1, sizes[start]),)

    def branches(self) -> Iterator[tuple[Detour, ...]]:
        """The parts of a Concat of channels that convolutions read are copied into a buffer first."""
        for layer in self.program.layers:
            reading = [at for at in self.readers.get(layer.outputs[0], ()) if self.program.layers[at].op in MAC_OPS]
            if layer.op == "concat" and layer.attrs["axis"] == 2 and reading:
                h, w, c = self._dims(layer.outputs[0])
                yield (Detour(reading[0], "copy", self._fills(h, w) * c, self.tile_bytes),)

    def entries(self) -> Iterator[tuple[Detour, ...]]:
        """A few kernels an entry point: more do not fit the local memory as one."""
        more = self.starts[KERNELS_OF_AN_ENTRY::KERNELS_OF_AN_ENTRY]
        if more:
            yield tuple(Detour(start, "entry", 1, 0) for start in more)

    def norms(self) -> Iterator[tuple[Detour, ...]]:
        """What a LayerNormalization of several tiles makes is copied for a reader of its kernel beside the linear one.

        One place for each number of tokens.
        """
        found: dict[int, list[Detour]] = {}
        for maker, layer in enumerate(self.program.layers):
            h, w, c = self._dims(layer.outputs[0])
            reading = [at for at in self.readers.get(layer.outputs[0], []) if self._kernel(at) == self._kernel(maker)]
            if layer.op == "layer_norm" and self._fills(h, w) > 1 and len(reading) > 1:
                moved = [at for at in reading if self._moves(at)]
                if moved and len(moved) < len(reading):
                    copied = Detour(moved[0], "copy", self._fills(h, w) * c, self.tile_bytes)
                    found.setdefault(h * w, []).append(copied)
        yield from (tuple(detours) for detours in found.values())

    def stores(self) -> Iterator[tuple[Detour, ...]]:
        """The blocks of the program's input are stored one tile-channel at a time."""
        for at, layer in enumerate(self.program.layers):
            if layer.op == "space_to_depth" and self._enters(layer.inputs[0]):
                h, w, c = self._dims(layer.outputs[0])
                yield (Detour(at, "scatter", self._fills(h, w) * c, self.tile_bytes),)

    def _kernel(self, at: int) -> int:
        """The number of the kernel that a layer is in, from 1."""
        return bisect_right(self.starts, at)

    def _made_by(self, name: str) -> Layer | None:
        at = self.maker.get(name)
        return None if at is None else self.program.layers[at]

    def _enters(self, name: str) -> bool:
        """Whether a tensor is an input of the program, or one that is only converted."""
        layer = self._made_by(name)
        return layer is None or (layer.op in ("fx_quantize", "requantize") and self._enters(layer.inputs[0]))

    def _moves(self, at: int) -> bool:
        """Whether a layer reads windows or blocks of a map, at once or behind a change of shape."""
        layer = self.program.layers[at]
        if layer.op == "reshape":
            return any(self._moves(reader) for reader in self.readers.get(layer.outputs[0], ()))
        return layer.op == "space_to_depth" or (layer.op in MAC_OPS and _reach(layer) > 1)

    def _spans(self) -> Iterator[tuple[int, int]]:
        yield from zip(self.starts, (*self.starts[1:], len(self.program.layers)), strict=True)

    def _constant_bytes(self, start: int, end: int) -> int:
        constants = self.program.constants
        names = {name for layer in self.program.layers[start:end] for name in layer.inputs if name in constants}
        return sum(constants[name].nbytes for name in names)

    def _dims(self, name: str) -> tuple[int, int, int]:
        return dims_of(self.program.tensors[name].shape)

    def _fills(self, h: int, w: int) -> int:
        return array_fills(self.target.array, h, w)


def _reach(layer: Layer) -> int:
    return int(max(window_of(layer.attrs)["kernel"]))


def port_cycles(detour: Detour, target: Target, costs: Mapping[str, float]) -> int:
    """Cycles of the on-chip port for a walk, a copy or random stores."""
    match detour.kind:
        case "walk":
            each = detour.size / target.memory.ocm_bytes_per_cycle + costs["flow"]
        case "copy":
            each = detour.size / 1024 * costs["copy_per_kib"]
        case "scatter":
            each = costs["gather"] + detour.size * costs["gather_per_element"] + costs["fence"]
        case _:
            return 0
    return ceil(detour.count * each)
