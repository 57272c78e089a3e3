"""One layer of a Layout -> its loads, the views that its commands read and write, its stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from axtool.ops.encoding import MAC_OPS, PRODUCTS
from axtool.ops.moves import COPIES, GATHERS
from axtool.plan.order import padded
from axtool.plan.tile_boxes import Step, TileJob, staged_pixel
from axtool.plan.tile_needs import boxed_inputs, need, slices, whole_box
from axtool.target import Target
from axtool.timing.cost import OUTPUT
from axtool.types import Command, Engine, Layer, Slot, Tile, View

if TYPE_CHECKING:
    from axtool.plan.addresses import Layout


def engine_of(op: str) -> Engine:
    """The part of the chip that runs an op."""
    if op in (*MAC_OPS, *PRODUCTS):
        return "mac"
    return "array" if op in (*COPIES, *GATHERS) else "vector"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A step with the commands that bring its operands, and the views in which they will be.

    `late` are loads of weights into the only buffer that they have: not before the step in front has computed.
    """

    step: Step
    late: tuple[Command, ...]
    loads: tuple[Command, ...]
    reads: tuple[View | None, ...]  # None for what the layer in front passes on


class LayerWriter:
    """Writes the commands of one layer."""

    def __init__(self, layout: Layout, at: int, constants: list[tuple[int, str]]) -> None:
        self.layout, self.at = layout, at
        self.program, self.target = layout.program, layout.target
        self.layer, self.tiling = layout.program.layers[at], layout.tilings[at]
        self.engine = engine_of(self.layer.op)
        self.job = TileJob(self.layer, self.program, self.target, layout.spilled)
        cut = self.layer.inputs[1:3] if self.tiling.sliced else ()
        self.own = [key for key in constants if key[0] == at and key[1] not in cut]
        self.held: dict[int, View] = {}  # the box that each staged operand is in now
        self.turns: dict[int | str, int] = {}  # how often each set of buffers was filled
        self.slices: dict[str, View] = {}
        self.slice_now: tuple[int, int] | None = None

    @property
    def stores(self) -> bool:
        """Whether what the layer makes goes to external memory box by box."""
        return self.layer.outputs[0] in self.layout.spilled

    def begin(self) -> Iterator[Command]:
        """What the layer needs before its first box: inputs of the program and its own constants."""
        yield from self._load_inputs()
        for key in self.own:
            yield from self.load_constant(*key)

    def end(self) -> Iterator[Command]:
        """An output of the program that lives on chip goes to its place outside."""
        output = self.layer.outputs[0]
        if output in self.program.outputs and output in self.layout.resident:
            yield self.store(self._resident(output), whole_box(self.program, output))

    def place(self, box: Tile) -> View:
        """Where the layer writes a box: in the resident tensor, or in the next of its buffers."""
        output = self.layer.outputs[0]
        if output in self.layout.resident:
            return self._resident(output)
        return self._staged(self._turn(OUTPUT, self.layout.staged[self.at, OUTPUT]), box)

    def reads(self, prepared: Prepared, made: Mapping[str, View]) -> tuple[View, ...]:
        """The operands of a step, those from the layers in front where these have just put them."""
        views = iter(prepared.reads)
        names = self.layer.inputs if self.layer.op != "concat" else (self.layer.inputs[prepared.step.part],)
        found = tuple(view or made[name] for view, name in zip(views, names, strict=True))
        return prepared.reads if found == prepared.reads else found  # type: ignore[return-value]

    def prepare(self, number: int) -> Prepared:
        """Decides where the operands of a step are, and what must be loaded for it."""
        step = self.tiling.steps[number]
        slices, boxes = tuple(self._load_slices(step.box)), tuple(self._stage(step))
        reads = (*(self._input(index) for index in self._boxed(step)), *self._flat_constants())
        names = self.layer.inputs[1:3] if slices else ()
        alone = any(len(self.layout.constants[self.at, name]) == 1 for name in names)
        return Prepared(step, slices if alone else (), boxes if alone else (*slices, *boxes), reads)

    def _turn(self, key: int | str, buffers: tuple[Slot, ...]) -> Slot:
        """The buffer that is filled next."""
        turn = self.turns[key] = self.turns.get(key, -1) + 1
        return buffers[turn % len(buffers)]

    def _load_inputs(self) -> Iterator[Command]:
        """Program inputs that live on chip arrive when their first reader does, padding channels included."""
        for name in dict.fromkeys(self.layer.inputs):
            slot = self.layout.resident.get(name)  # it may live from the first layer of the reader's group on
            if slot is None or name not in self.program.inputs:
                continue
            if not any(name in layer.inputs for layer in self.program.layers[: self.at]):
                source = self.layout.external[name]
                yield self._move("load", self.at, _flat(source, 0, source.size), _flat(slot, 0, source.size))

    def load_constant(self, at: int, name: str) -> Iterator[Command]:
        """A whole constant of this or of a later layer."""
        layer, array = self.program.layers[at], self.program.constants[name]
        source, (slot, *_) = self.layout.external[name], self.layout.constants[at, name]
        if name in layer.inputs[: boxed_inputs(layer)]:
            box = whole_box(self.program, name)
            yield self._move("load", at, _packed(source, box), _staged(slot, box, layer, self.target))
        else:
            yield self._move("load", at, _flat(source, 0, array.nbytes), _flat(slot, 0, array.nbytes))

    def _load_slices(self, box: Tile) -> Iterator[Command]:
        """The blocks of weights and parameters for the channels of a step, where they differ from the last step's."""
        if not self.tiling.sliced or self.slice_now == (box.c, box.n):
            return
        self.slice_now = (box.c, box.n)
        for name, cut in zip(self.layer.inputs[1:3], slices(self.layer, self.program, box), strict=True):
            start, size = cut.c, cut.n
            slot = self._turn(name, self.layout.constants[self.at, name])
            self.slices[name] = _flat(slot, start, size, skipped=start)
            yield self._move("load", self.at, _flat(self.layout.external[name], start, size), self.slices[name])

    def _stage(self, step: Step) -> Iterator[Command]:
        """The boxes of external inputs that a step reads, where they are not on chip already."""
        for index in self._boxed(step):
            key = 0 if self.layer.op == "concat" else index
            buffers = self.layout.staged.get((self.at, key))
            name = self.layer.inputs[index]
            if buffers is None or name in self.layout.resident or name in self.program.constants:
                continue
            box = need(self.layer, self.program, index, step.box)
            held = self.held.get(key)
            if self.layer.op == "concat" or held is None or held.tile != box:
                self.held[key] = self._staged(self._turn(key, buffers), box)
                yield self._move("load", self.at, self._external_box(name, box), self.held[key])

    def _boxed(self, step: Step) -> tuple[int, ...]:
        return (step.part,) if self.layer.op == "concat" else tuple(range(boxed_inputs(self.layer)))

    def _input(self, index: int) -> View | None:
        name = self.layer.inputs[index]
        if name in self.layout.groups.passing:
            return None
        if name in self.layout.resident:
            return self._resident(name)
        if name in self.program.constants:
            return self._staged(self.layout.constants[self.at, name][0], whole_box(self.program, name))
        return self.held[0 if self.layer.op == "concat" else index]

    def _flat_constants(self) -> tuple[View, ...]:
        views = []
        for name in self.layer.inputs[boxed_inputs(self.layer) :]:
            slot = self.layout.constants[self.at, name][0]
            views.append(self.slices.get(name) or _flat(slot, 0, self.program.constants[name].nbytes))
        return tuple(views)

    def store(self, view: View, box: Tile) -> Command:
        """A box of the output to external memory; bytes of padding channels stay behind."""
        place = self._external_box(self.layer.outputs[0], box)
        if view.pixel_stride == box.n == place.pixel_stride and view.row_stride == place.row_stride:
            size = box.h * box.w * box.n
            return self._move("store", self.at, _line(view, size), _line(place, size))
        return self._move("store", self.at, view, place)

    def _resident(self, name: str) -> View:
        """A whole tensor where it lies in its home."""
        slot, (pixel, row) = self.layout.resident[name], self.layout.homes.strides(name, self.target)
        return View(slot.memory, slot.offset, whole_box(self.program, name), row, pixel)

    def _staged(self, slot: Slot, box: Tile) -> View:
        return _staged(slot, box, self.layer, self.target)

    def _external_box(self, name: str, box: Tile) -> View:
        """A box inside a whole tensor in external memory."""
        slot, (_, w, c) = self.layout.external[name], self.program.tensors[name].shape[1:]
        if name in self.layout.outside.of:
            pixel, row = self.layout.outside.strides(name, self.target)
        else:  # an output that lives on chip
            pixel = padded(c, self.target)
            row = w * pixel
        return View("ext", slot.offset + box.y * row + box.x * pixel + box.c, box, row, pixel)

    def _move(self, kind: str, at: int, source: View, place: View) -> Command:
        if kind == "load":
            return Command("load", "dma_read", at, place.tile, (source,), (place,))
        return Command("store", "dma_write", at, source.tile, (source,), (place,))


def _staged(slot: Slot, box: Tile, layer: Layer, target: Target) -> View:
    """A box that fills a slot of its own."""
    pixel = staged_pixel(layer, box.n, target)
    return View(slot.memory, slot.offset, box, box.w * pixel, pixel)


def _flat(slot: Slot, start: int, size: int, skipped: int = 0) -> View:
    """Bytes [start, start + size) of a slot; of one that holds a constant from byte `skipped` on, those from there."""
    return View(slot.memory, slot.offset + start - skipped, Tile(0, 0, start, 1, 1, size), size, size)


def _line(view: View, size: int) -> View:
    return View(view.memory, view.offset, Tile(0, 0, 0, 1, 1, size), size, size)


def _packed(slot: Slot, box: Tile) -> View:
    """A constant tensor as it is stored: no padding between pixels."""
    return View(slot.memory, slot.offset, box, box.w * box.n, box.n)
