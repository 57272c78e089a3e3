"""Is a Plan legal? Slots apart, boxes covered once, and every operand where the commands say it is.

The commands are run on shadow memories that hold, for each byte, which element of which tensor lies there. A wrong
slot, offset, order or box shows as an operand that is not the element it should be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from axtool.ops.boxes import contains, intersect, is_empty, whole
from axtool.ops.copies import copied_boxes
from axtool.ops.encoding import dims_of, encode_layer, ragged
from axtool.ops.regions import needed, written
from axtool.plan.groups import groups_of
from axtool.plan.local_memory import local_bytes
from axtool.plan.order import padded
from axtool.plan.same_numbers import Origin, corner, held_numbers, itself, kin, minus
from axtool.plan.tile_needs import boxed_inputs, job_of, whole_box
from axtool.sim.checks import check_command, read_layers
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Command, Plan, Program, Slot, Tile, View

Stamps = NDArray[np.uint32]  # 1 + the number of an element among all elements of the program; 0 for nothing
ROUTES = {"load": ("dma_read", "ext", "ocm"), "store": ("dma_write", "ocm", "ext")}


def verify_plan(plan: Plan, target: Target | None = None) -> None:
    """Raises ValueError with the first reason why the plan would not compute the program on the chip.

    Without a target, the one of the package that the plan names.
    """
    target = load_target(plan.target) if target is None else target
    _check_slots(plan, target)
    _check_local(plan, target)
    _check_cover(plan)
    shadow = _Shadow(plan, target)
    for index, (command, now) in enumerate(zip(plan.commands, _times(plan.commands), strict=True)):
        try:
            shadow.run(command, now)
        except ValueError as error:
            raise ValueError(f"command {index} ({command.kind} of layer {command.layer}): {error}") from None
    for name in plan.program.outputs:
        shadow.check_external(name)


def _times(commands: Sequence[Command]) -> list[int]:
    """The layer that each command runs with: its own, or for a load ahead of its layer the next one to compute."""
    times, now = [], commands[-1].layer if commands else 0
    for command in reversed(commands):
        now = command.layer if command.kind != "load" else min(now, command.layer)
        times.append(now)
    return times[::-1]


def _check_slots(plan: Plan, target: Target) -> None:
    if plan.target != target.name:
        raise ValueError(f"a plan for {plan.target}, checked against {target.name}")
    if plan.sizes["ocm"] > target.memory.ocm_bytes:
        raise ValueError(f"the plan uses {plan.sizes['ocm']} bytes of ocm, the chip has {target.memory.ocm_bytes}")
    for slot in plan.slots:
        if slot.size < 0 or slot.offset < 0 or slot.offset + slot.size > plan.sizes[slot.memory]:
            raise ValueError(f"{_named(slot)} leaves {slot.memory} of {plan.sizes[slot.memory]} bytes")
        if not 0 <= slot.first <= slot.last < max(len(plan.program.layers), 1):
            raise ValueError(f"{_named(slot)} lives for layers that do not exist")
    related = kin(plan.program)
    for memory in ("ext", "ocm"):
        _check_apart([slot for slot in plan.slots if slot.memory == memory and slot.size], related)


def _check_apart(slots: Sequence[Slot], related: Mapping[str, str]) -> None:
    """No two slots that live at one time share a byte: each is compared with those that begin before it ends.

    But for tensors that copies or ops in place tie together: what their commands read and write says whether they may.
    """
    ordered = sorted(slots, key=lambda s: s.offset)
    for i, slot in enumerate(ordered):
        for other in ordered[i + 1 :]:
            if other.offset >= slot.offset + slot.size:
                break
            one, two = related.get(slot.tensor), related.get(other.tensor)
            tied = one is not None and one == two and slot.tensor != other.tensor
            if other.first <= slot.last and slot.first <= other.last and not tied:
                raise ValueError(f"{_named(slot)} and {_named(other)} overlap")


def _check_local(plan: Plan, target: Target) -> None:
    """The elements of the array have room for what each command keeps in them."""
    room, program = target.memory.lrm_bytes_per_pe, plan.program
    seen = {(c.layer, c.tile.n) for c in plan.commands if c.kind == "compute" and 0 <= c.layer < len(program.layers)}
    for at, channels in sorted(seen):
        layer = program.layers[at]
        needed = 0 if layer.op == "concat" else local_bytes(layer, program, target, channels)
        if needed > room:
            raise ValueError(
                f"layer {at} {layer.op} '{layer.name}': a command of {channels} channels needs {needed} bytes in each"
                f" element, the chip has {room}"
            )


def _named(slot: Slot) -> str:
    end = slot.offset + slot.size
    return f"slot '{slot.tensor}' [{slot.offset}, {end}) of {slot.memory}, layers {slot.first}..{slot.last},"


def _check_cover(plan: Plan) -> None:
    """The boxes of a layer's compute commands cover its output exactly once.

    What is a copy may be in place instead; what passes on while its layer is still at work may be made again.
    """
    passing = {layer for layers in groups_of(plan) for layer in layers[:-1]}
    boxes: list[list[Tile]] = [[] for _ in plan.program.layers]
    for index, command in enumerate(plan.commands):
        if not 0 <= command.layer < len(boxes):
            raise ValueError(f"command {index}: layer {command.layer} does not exist")
        if command.kind == "compute":
            layer = plan.program.layers[command.layer]
            boxes[command.layer].append(written(job_of(layer, plan.program, command.tile, command.part)))
    for at, layer in enumerate(plan.program.layers):
        area = whole_box(plan.program, layer.outputs[0])
        for box in boxes[at]:
            if is_empty(box) or not contains(area, box):
                raise ValueError(f"layer {at} {layer.name}: {box} is not a box of its output {area}")
        counts = _cover(boxes[at], area, [copied.box for copied in copied_boxes(layer, plan.program)])
        if at in passing and plan.program.layers[at].outputs[0] not in plan.program.outputs:
            counts = np.minimum(counts, 1)
        if (counts != 1).any():
            what = "not at all" if (counts == 0).any() else "more than once"
            raise ValueError(f"layer {at} {layer.name}: part of its output is computed {what}")


def _cover(boxes: Sequence[Tile], area: Tile, spare: Sequence[Tile]) -> NDArray[np.int32]:
    """How often each cell of the grid that all the boxes' edges make is covered; once by itself in a `spare` box."""
    every = (*boxes, *spare)
    edges = [
        sorted({0, size, *(b[0] for b in spans), *(b[1] for b in spans)})
        for size, spans in zip(
            (area.h, area.w, area.n),
            (
                [(b.y, b.y + b.h) for b in every],
                [(b.x, b.x + b.w) for b in every],
                [(b.c, b.c + b.n) for b in every],
            ),
            strict=True,
        )
    ]
    at = [{edge: i for i, edge in enumerate(axis)} for axis in edges]
    counts = np.zeros([len(axis) - 1 for axis in edges], np.int32)

    def cells(b: Tile) -> tuple[slice, slice, slice]:
        ends = (b.y + b.h, b.x + b.w, b.c + b.n)
        return tuple(slice(axis[i], axis[j]) for axis, i, j in zip(at, (b.y, b.x, b.c), ends, strict=True))  # type: ignore[return-value]

    for b in boxes:
        counts[cells(b)] += 1
    for b in spare:
        np.maximum(counts[cells(b)], 1, out=counts[cells(b)])
    return counts


class _Shadow:
    """Memories of stamps, and the commands' effect on them."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.program, self.target = plan, plan.program, target
        self.layers = read_layers(*ragged([encode_layer(layer, plan.program) for layer in plan.program.layers]))
        self.first = _first_stamps(plan.program)
        self.numbers = held_numbers(plan.program)
        self.memory = {name: np.zeros(size, np.uint32) for name, size in plan.sizes.items()}
        self.slots: dict[str, list[Slot]] = {"ext": [], "ocm": []}
        for slot in plan.slots:
            self.slots[slot.memory].append(slot)
        self.external = {slot.tensor: slot for slot in self.slots["ext"]}
        self.layer = -1  # the layer whose operands `checked` remembers
        self.checked: set[tuple[View, str, Tile]] = set()
        self.held: set[tuple[View, int, int]] = set()
        for name in (*self._used_constants(), *plan.program.inputs):
            self._host_writes(name)

    def run(self, command: Command, now: int) -> None:
        """Checks one command and does what it does while layer `now` runs."""
        check_command(command, self.layers, self.plan.sizes)
        for view in command.reads + command.writes:
            self._check_held(view, now, command.layer)
        if command.kind == "compute":
            if self.layer != command.layer:
                self.layer = command.layer
                self.checked.clear()
            self._compute(command)
            return
        if command.kind in ROUTES:
            engine, source, place = ROUTES[command.kind]
            if (command.engine, command.reads[0].memory, command.writes[0].memory) != (engine, source, place):
                raise ValueError(f"want {engine} from {source} to {place}")
        self._write(command.writes[0], self._seen(command.reads[0]).copy())

    def check_external(self, name: str) -> None:
        """An output is whole in external memory."""
        slot = self.external.get(name)
        if slot is None:
            raise ValueError(f"output '{name}' has no slot in ext")
        box = whole_box(self.program, name)
        if (self._seen(self._whole_view(name, slot)) != self._stamps(name, box)).any():
            raise ValueError(f"output '{name}' is not whole in ext at the end")

    def _compute(self, command: Command) -> None:
        layer = self.program.layers[command.layer]
        job = job_of(layer, self.program, command.tile, command.part)
        names = (layer.inputs[command.part],) if layer.op == "concat" else layer.inputs
        for index, (name, view) in enumerate(zip(names, command.reads, strict=True)):
            want = needed(job, index)
            if not is_empty(want) and (view, name, want) not in self.checked:
                flat = layer.op != "concat" and index >= boxed_inputs(layer)
                self._check_operand(index, name, view, want, flat)
        box, view = written(job), command.writes[0]
        self._cut(view, box)[...] = self._stamps(layer.outputs[0], box)
        self._forget(view)

    def _check_operand(self, index: int, name: str, view: View, want: Tile, flat: bool) -> None:
        stamps = self._flat_stamps(name, want) if flat else self._stamps(name, want)
        if (self._cut(view, want) != stamps).any():
            raise ValueError(f"operand {index} is not '{name}' {want}: other bytes are at {view.memory} {view.offset}")
        self.checked.add((view, name, want))

    def _write(self, view: View, stamps: Stamps) -> None:
        self._seen(view)[...] = stamps
        self._forget(view)

    def _forget(self, view: View) -> None:
        """What was checked under a view that now changes must be checked again."""
        low, high = view.offset, view.end
        stale = [key for key in self.checked if key[0].memory == view.memory and key[0].meets(low, high)]
        self.checked.difference_update(stale)

    def _check_held(self, view: View, now: int, layer: int) -> None:
        """The view lies inside one slot that lives from now until the command's layer."""
        if (view, now, layer) in self.held:
            return
        low, high = view.offset, view.end
        for slot in self.slots[view.memory]:
            inside = slot.offset <= low and high <= slot.offset + slot.size
            if inside and slot.first <= now and layer <= slot.last:
                self.held.add((view, now, layer))
                return
        raise ValueError(f"bytes {low}..{high} of {view.memory} are in no slot that lives at layer {now}")

    def _seen(self, view: View) -> Stamps:
        tile = view.tile
        start = self.memory[view.memory][view.offset :]
        strides = (view.row_stride * 4, view.pixel_stride * 4, 4)
        return as_strided(start, (tile.h, tile.w, tile.n), strides)

    def _cut(self, view: View, box: Tile) -> Stamps:
        y, x, c = box.y - view.tile.y, box.x - view.tile.x, box.c - view.tile.c
        return self._seen(view)[y : y + box.h, x : x + box.w, c : c + box.n]

    def _stamps(self, name: str, box: Tile) -> Stamps:
        """The stamps of a box: of a copy, those of the numbers that are copied."""
        parts = self.numbers.get(name) or itself(self.program, name)
        if len(parts) == 1 and parts[0].box == whole_box(self.program, name):
            return self._own_stamps(parts[0].source, replace(box, **_moved(box, parts[0].shift)))
        stamps = np.zeros((box.h, box.w, box.n), np.uint32)
        for part in parts:
            cut = intersect(part.box, box)
            if not is_empty(cut):
                y, x, c = minus(corner(cut), corner(box))
                source = replace(cut, **_moved(cut, part.shift))
                stamps[y : y + cut.h, x : x + cut.w, c : c + cut.n] = self._own_stamps(part.source, source)
        return stamps

    def _own_stamps(self, name: str, box: Tile) -> Stamps:
        _, w, c = dims_of(self.program.tensors[name].shape)
        y, x, z = np.ix_(
            np.arange(box.y, box.y + box.h), np.arange(box.x, box.x + box.w), np.arange(box.c, box.c + box.n)
        )
        return np.asarray((self.first[name] + (y * w + x) * c + z) % 2**32, np.uint32)

    def _flat_stamps(self, name: str, want: Tile) -> Stamps:
        return np.asarray((self.first[name] + np.arange(want.c, want.c + want.n)) % 2**32, np.uint32)

    def _host_writes(self, name: str) -> None:
        slot = self.external.get(name)
        if slot is None:
            raise ValueError(f"'{name}' has no slot in ext")
        if name in self.program.constants:
            size = self.program.constants[name].nbytes
            self.memory["ext"][slot.offset : slot.offset + size] = self._flat_stamps(name, Tile(0, 0, 0, 1, 1, size))
            return
        self._seen(self._whole_view(name, slot))[...] = self._stamps(name, whole_box(self.program, name))

    def _whole_view(self, name: str, slot: Slot) -> View:
        h, w, c = dims_of(self.program.tensors[name].shape)
        pixel = padded(c, self.target)
        return View("ext", slot.offset, whole((h, w, c)), w * pixel, pixel)

    def _used_constants(self) -> list[str]:
        used = {name for layer in self.program.layers for name in layer.inputs}
        return [name for name in self.program.constants if name in used]


def _moved(box: Tile, shift: Origin) -> dict[str, int]:
    """Where the box is before a shift."""
    y, x, c = minus(corner(box), shift)
    return {"y": y, "x": x, "c": c}


def _first_stamps(program: Program) -> dict[str, int]:
    """Where each tensor's numbers begin."""
    sizes = {name: int(np.prod(tensor.shape)) for name, tensor in program.tensors.items()}
    sizes |= {name: array.nbytes for name, array in program.constants.items()}
    starts = np.concatenate([[1], 1 + np.cumsum(list(sizes.values()))]).tolist()
    return {name: start for name, (start, _) in zip(sizes, pairwise(starts), strict=True)}
