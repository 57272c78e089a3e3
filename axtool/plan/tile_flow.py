"""The boxes of a layer, in order -> what each step loads, computes and stores, and how many cycles all of them take.

The costs of the commands, and the paths to the memories beside the chip, are those of `axtool.timing`; here they are of
one layer alone, whose engines are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

from axtool.plan.order import padded
from axtool.plan.tile_boxes import Step, TileJob, box_bytes, channel_parts, command_size
from axtool.plan.tile_needs import boxed_inputs
from axtool.timing.cost import OUTPUT, WEIGHTS
from axtool.timing.transfers import Paths
from axtool.types import Tile, View


@dataclass
class Flow:
    """Steps with the cycles of each one's loads, commands and store (0: none), and what the layer stages.

    `sizes` and `boxes` are the bytes of the largest box and the number of boxes by staging key: the index of an input,
    0 for all parts of a concat, OUTPUT.
    """

    steps: tuple[Step, ...] = ()
    work: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list)
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
        box, loads = step.box, []
        again = block == (box.c, box.n)
        if sliced and not again:
            flow.slices += 1
            loads += moved.slices(box.n)
        block = (box.c, box.n)
        for index in (step.part,) if concat else job.staged_inputs:
            if index not in job.staged_inputs:
                continue
            key, wanted = 0 if concat else index, job.need(index, box)
            if concat or held.get(key) != wanted:
                held[key] = wanted
                flow.stage(key, box_bytes(job, wanted))
                loads.append(moved.box(index, wanted))
        store = 0
        if job.stores:
            flow.stage(OUTPUT, box_bytes(job, box))
            store = moved.box(OUTPUT, box)
        flow.work.append((tuple(loads), array_cycles(job, step, held=again), store))
    return flow


def frame_cycles(job: TileJob, flow: Flow, double: bool) -> float:
    """Cycles of the layer, its loads a step ahead of its commands where there are two buffers.

    Constants that are whole come while the layer in front computes: they only make the path to the memory busier. Where
    activations are external it is busy with those of the layer in front: constants come first then.
    """
    paths, constants = Paths(job.target), _whole_constants(job, flow)
    if constants and job.target.memory.activations == "external":
        paths.read.request(0, constants)
    buffers = 2 if double and flow.boxes.get(OUTPUT, 0) > 1 else 1
    done = arrived = 0
    left: list[int] = []  # when the store of each step is done

    def load(step: int) -> int:
        """When the operands of a step are there, of which the loads are issued now."""
        last = arrived
        for cycles in flow.work[step][0] if step < len(flow.work) else ():
            _, last = paths.read.request(done, cycles)
        return last

    arrived = load(0)
    for at, (_, array, store) in enumerate(flow.work):
        ahead = load(at + 1) if double else 0
        done = max(done, arrived, left[at - buffers] if at >= buffers and store else 0) + array
        if store:
            left.append(paths.write.request(done, store)[1])
        arrived = ahead if double else load(at + 1)
    reads = sum(sum(loads) for loads, _, _ in flow.work) + constants
    writes = sum(store for _, _, store in flow.work)
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
    rows, columns = command_size((box.h, box.w, box.n), job.target)
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

    def slices(self, channels: int) -> list[int]:
        """The weights and the parameters of so many channels."""
        weights, params = self.job.slice_bytes(channels)
        return [self._line(weights), self._line(params)]

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
