"""The boxes of a layer, in order -> what each step loads, computes and stores, and how many cycles all of them take.

The costs of the commands, and the paths to the memories beside the chip, are those of `axtool.timing`; here they are of
one layer alone, whose engines are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from axtool.plan.order import padded
from axtool.plan.tile_boxes import Step, TileJob, box_bytes, channel_parts, command_size, in_lines
from axtool.plan.tile_needs import boxed_inputs
from axtool.timing.cost import OUTPUT, WEIGHTS
from axtool.timing.transfers import Paths
from axtool.types import Tile, View


class Work(NamedTuple):
    """Cycles of one step: of each load of weights and of boxes, of its commands, and of its store (0: none)."""

    slices: tuple[int, ...]
    boxes: tuple[int, ...]
    array: int
    store: int


@dataclass
class Flow:
    """Steps with what each one does, and what the layer stages.

    `sizes` and `boxes` are the bytes of the largest box and the number of boxes by staging key: the index of an input,
    0 for all parts of a concat, OUTPUT.
    """

    steps: tuple[Step, ...] = ()
    work: list[Work] = field(default_factory=list)
    slices: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    boxes: dict[int, int] = field(default_factory=dict)

    def stage(self, key: int, size: int) -> None:
        """One more box of an operand."""
        self.sizes[key] = max(self.sizes.get(key, 0), size)
        self.boxes[key] = self.boxes.get(key, 0) + 1


def flow_of(job: TileJob, steps: Iterable[Step], channels: int) -> Flow:
    """What the steps move and compute, each box of `channels` channels at most."""
    flow, moved = Flow(tuple(steps)), _Moved(job)
    sliced, concat = job.sliced(channels), job.layer.op == "concat"
    held: dict[int, Tile] = {}
    block: tuple[int, int] | None = None
    for step in flow.steps:
        box, boxes = step.box, list[int]()
        slices: tuple[int, ...] = ()
        again = block == (box.c, box.n)
        if sliced and not again:
            flow.slices += 1
            slices = moved.slices(box.n)
        block = (box.c, box.n)
        for index in (step.part,) if concat else job.staged_inputs:
            if index not in job.staged_inputs:
                continue
            key, wanted = 0 if concat else index, job.need(index, box)
            if concat or held.get(key) != wanted:
                held[key] = wanted
                flow.stage(key, box_bytes(job, wanted))
                boxes.append(moved.box(index, wanted))
        store = 0
        if job.stores:
            flow.stage(OUTPUT, box_bytes(job, box))
            store = moved.box(OUTPUT, box)
        flow.work.append(Work(slices, tuple(boxes), array_cycles(job, step, held=again), store))
    return flow


def frame_cycles(job: TileJob, flow: Flow, double: bool, late: bool = False) -> float:
    """Cycles of the layer, its loads a step ahead of its commands where there are two buffers, `late` but for weights.

    Constants that are whole come while the layer in front computes: they only make the path to the memory busier. Where
    activations are external it is busy with those of the layer in front: constants come first then.
    """
    paths, constants, work = Paths(job.target), _whole_constants(job, flow), flow.work
    if constants and job.target.memory.activations == "external":
        paths.read.request(0, constants)
    buffers = 2 if double and flow.boxes.get(OUTPUT, 0) > 1 else 1
    done = arrived = 0
    left: list[int] = []  # when the store of each step is done

    def load(loads: Iterable[int]) -> int:
        """When the operands of the next step are there, of which these loads are issued now."""
        last = arrived
        for cycles in loads:
            _, last = paths.read.request(done, cycles)
        return last

    for at, now in enumerate(work):
        if at == 0:
            arrived = load((*now.slices, *now.boxes))
        after = work[at + 1] if at + 1 < len(work) else Work((), (), 0, 0)
        ahead = load(((() if late else after.slices) + after.boxes) if double else ())
        done = max(done, arrived, left[at - buffers] if at >= buffers and now.store else 0) + now.array
        if now.store:
            left.append(paths.write.request(done, now.store)[1])
        arrived = ahead
        arrived = load((after.slices if late else ()) if double else (*after.slices, *after.boxes))
    reads = sum(sum(step.slices) + sum(step.boxes) for step in work) + constants
    writes = sum(step.store for step in work)
    busy = max(reads, writes) if job.target.external.duplex else reads + writes
    return max(done, busy, *left[-1:])


def array_cycles(job: TileJob, step: Step, *, held: bool = False) -> int:
    """Cycles of the commands of a step; `held`: the box in front had the same channels, whose weights are there."""
    box = step.box
    indices = (step.part,) if job.layer.op == "concat" else range(boxed_inputs(job.layer))
    needs = [job.need(index, box) for index in indices]
    key = (step.part, held, box.h, box.w, box.n, *((need.h, need.w, need.n) for need in needs))
    known = job.known_cycles.get(key)
    if known is None:
        known = job.known_cycles[key] = _commands(job, step, held)
    return known


def _commands(job: TileJob, step: Step, held: bool) -> int:
    box, model = step.box, job.model
    rows, columns = command_size((box.h, box.w, box.n), job.target, lines=in_lines(job.layer))
    total = 0
    for y in range(box.y, box.y + box.h, rows):
        for x in range(box.x, box.x + box.w, columns):
            h, w = min(rows, box.y + box.h - y), min(columns, box.x + box.w - x)
            for c, n in channel_parts([job], box):
                tile = Tile(y, x, c, h, w, n)
                cost = model.cost(0, tile, step.part)
                if held and cost.blocks == 1:
                    cost = model.cost(0, tile, step.part, frozenset({WEIGHTS}))
                total += cost.total
    return total


def _whole_constants(job: TileJob, flow: Flow) -> int:
    """Cycles that constants which come whole keep the path busy."""
    constants, sliced = job.program.constants, (1, 2) if flow.slices else ()
    size = sum(
        constants[name].nbytes * (job.weight_factor if index == WEIGHTS else 1.0)
        for index, name in enumerate(job.layer.inputs)
        if name in constants and index not in sliced
    )
    return ceil(size / job.target.read_bytes_per_cycle)


class _Moved:
    """Cycles that boxes and slices of a layer keep a path busy; equal ones are worked out once."""

    def __init__(self, job: TileJob) -> None:
        self.job, self.paths = job, Paths(job.target)
        self.known: dict[tuple[int, int, int, int], int] = {}

    def slices(self, channels: int) -> tuple[int, int]:
        """The weights and the parameters of so many channels."""
        weights, params = self.job.slice_bytes(channels)
        return self._line(weights), self._line(params)

    def box(self, index: int, box: Tile) -> int:
        """A box of an input, or of the output."""
        key = (index, box.h, box.w, box.n)
        known = self.known.get(key)
        if known is None:
            layer, paths = self.job.layer, self.paths
            name = layer.outputs[0] if index == OUTPUT else layer.inputs[index]
            _, _, width, channels = self.job.program.tensors[name].shape
            pixel = padded(channels, self.job.target)
            rate = paths.write_rate if index == OUTPUT else paths.read_rate
            view = View("ext", 0, box, width * pixel, pixel)
            known = self.known[key] = paths.cycles(box.h * box.w * box.n, rate, view)
        return known

    def _line(self, size: int) -> int:
        return self.paths.cycles(size, self.paths.read_rate, View("ext", 0, Tile(0, 0, 0, 1, 1, size), size, size))
