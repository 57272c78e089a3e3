"""Groups of layers in bands of rows: what spilled between them stays on chip, and rows at the seams are made twice.

A band of the last layer's output says which rows of each layer in front are needed; where windows overlap, neighbouring
bands compute the same rows again. Only tensors that nobody else reads pass through; every layer's constants are loaded
once and stay for as long as the group runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from axtool.ops.encoding import MAC_OPS
from axtool.plan.groups import Group, Groups
from axtool.plan.same_numbers import IN_PLACE
from axtool.plan.tile_boxes import Step, TileJob, box_bytes, command_size, constant_sizes
from axtool.plan.tile_cost import Buffers, Tiling, both_in
from axtool.plan.tile_flow import array_cycles
from axtool.target import Target
from axtool.timing.cost import OUTPUT
from axtool.types import Program, Tile

LONGEST = 8  # groups in one cascade
HEIGHTS = (32, 16, 8, 4, 2, 1)  # rows of a band, by level of thrift
PARTS, WIDEST, SEAMS = 9, 3, 3  # equal parts, bands in rows of the array, and rows of overlap that are looked at
NOTHING = Tile(0, 0, 0, 0, 0, 0)
TRIED = 3  # heights that fit, before the search for the best is content
POOLS = ("max_pool", "avg_pool")
BANDED = (*MAC_OPS, *IN_PLACE, *POOLS, "resize_nearest", "resize_linear", "wide_avg_pool")


def may_band(target: Target, program: Program, groups: Sequence[Group]) -> bool:
    """Whether a chip can run such groups, which follow each other, in bands.

    One that keeps no activation on chip cannot, but for a pool with the MAC layer in front of it: where engines are
    pipelined, the pool takes the rows as they come.
    """
    memory = target.memory
    if not memory.bands or memory.activations == "resident":
        return memory.bands
    first, second = (program.layers[group.first].op for group in groups[:2])
    return target.engines.pipelined and len(groups) == 2 and first in MAC_OPS and second in POOLS


def joined(program: Program, groups: Sequence[Group]) -> Group | None:
    """One group of several that follow each other, or None where a tensor between them is needed whole."""
    layers = [at for group in groups for at in group.layers]
    inside, inner = set(layers), layers[:-1]
    names = {program.layers[at].outputs[0] for at in inner}
    if any(program.layers[at].op not in BANDED for at in layers) or names & set(program.outputs):
        return None
    read: set[str] = set()
    for at, layer in enumerate(program.layers):
        taken = names & set(layer.inputs)
        read |= taken
        if taken and at not in inside:
            return None
    return (
        Group(tuple(bundle for group in groups for bundle in group.bundles), frozenset(names))
        if read == names
        else None
    )


def cascade_bytes(jobs: Sequence[TileJob], group: Group, level: int) -> int:
    """On-chip bytes of the group beyond its resident tensors, in bands of the height of a level, with one buffer."""
    height = HEIGHTS[min(level, len(HEIGHTS) - 1)]
    return _bytes(jobs, group, _steps(jobs, group, height))


def choose_cascade(jobs: Sequence[TileJob], group: Group, room: int) -> tuple[Tiling, ...] | None:
    """Tilings of all layers in bands, with the fewest estimated cycles in that room; None where no band fits."""
    found: list[tuple[Tiling, ...]] = []
    fitting = 0
    if _bytes(jobs, group, _steps(jobs, group, 1)) > room:
        return None
    for height in sorted(_heights(jobs[-1]), key=lambda height: (_array_cycles(jobs, group, height), -height)):
        steps = _steps(jobs, group, height)
        if _bytes(jobs, group, steps) <= room:
            fitting += 1
            found += [tilings for tilings in _tilings(jobs, group, steps) if sum(t.bytes for t in tilings) <= room]
        if fitting == TRIED:
            break
    return min(found, key=_cycles, default=None)


def find_cascades(
    program: Program,
    groups: Groups,
    may_join: Sequence[bool],
    jobs: Sequence[TileJob],
    tilings: Sequence[Tiling],
    free: Sequence[int],
) -> Groups:
    """The groups, those joined that take fewer estimated cycles in bands than one by one.

    `may_join` is by group; `jobs`, `tilings` and `free`, the bytes that no resident tensor takes, are by layer.
    """
    found: list[Group] = []
    at = 0
    while at < len(groups.groups):
        chain = takewhile(lambda number: may_join[number], range(at, min(at + LONGEST, len(may_join))))
        best = _best(program, [groups.groups[number] for number in chain], jobs, tilings, free)
        found.append(best[0] if best else groups.groups[at])
        at += best[1] if best else 1
    return Groups(tuple(found))


def _best(
    program: Program,
    chain: Sequence[Group],
    jobs: Sequence[TileJob],
    tilings: Sequence[Tiling],
    free: Sequence[int],
) -> tuple[Group, int] | None:
    """The start of a chain of groups that gains most by running in bands, and how many groups it is."""
    best: tuple[float, Group, int] | None = None
    for count in range(2, len(chain) + 1):
        if any(program.layers[at].op not in BANDED for at in chain[count - 1].layers):
            break
        if not may_band(jobs[0].target, program, chain[:count]):
            continue
        group = joined(program, chain[:count])
        if group is None:
            continue
        passing = [at for at in group.layers if program.layers[at].outputs[0] in group.passing]
        if not any(jobs[at].stores for at in passing):
            continue
        apart = sum(tilings[at].cycles for at in group.layers)
        room = min(free[at] for at in group.layers)
        chosen = choose_cascade([jobs_inside(jobs[at], group) for at in group.layers], group, room)
        gain = apart - _cycles(chosen) if chosen else 0.0
        if gain > (best[0] if best else 0.0):
            best = gain, group, count
    return best[1:] if best else None


def jobs_inside(job: TileJob, group: Group) -> TileJob:
    """The work of a layer when it is in the group: what passes is neither stored nor loaded."""
    return replace(job, external=job.external - group.passing)


Steps = Sequence[tuple[Step, ...]]  # the boxes of each layer, band by band


def _tilings(jobs: Sequence[TileJob], group: Group, steps: Steps) -> Iterator[tuple[Tiling, ...]]:
    """The tilings of all layers with two buffers and with one."""
    pairs = [both_in(job, boxes) for job, boxes in zip(jobs, steps, strict=True)]
    passing = _passing(jobs, group, steps)
    for tilings in zip(*pairs, strict=True):
        yield (
            *(
                replace(tiling, staged={**tiling.staged, OUTPUT: Buffers(size, 1)})
                for tiling, size in zip(tilings[:-1], passing, strict=True)
            ),
            tilings[-1],
        )


def _bytes(jobs: Sequence[TileJob], group: Group, steps: Steps) -> int:
    """On-chip bytes with one buffer for each operand: boxes from outside, what passes, all constants."""
    total = sum(_passing(jobs, group, steps))
    for job, boxes in zip(jobs, steps, strict=True):
        for index in job.staged_inputs:
            total += max(box_bytes(job, job.need(index, step.box)) for step in boxes)
        total += max(box_bytes(job, step.box) for step in boxes) if job.stores else 0
        total += sum(constant_sizes(job, job.dims[2]).values())
    return total


def _passing(jobs: Sequence[TileJob], group: Group, steps: Steps) -> list[int]:
    """Bytes of what each layer but the last hands on: a band, or inside a bundle a tile of the array."""
    ends = {bundle[-1] for bundle in group.bundles}
    sizes = []
    for at, job, boxes in zip(group.layers, jobs[:-1], steps[:-1], strict=False):
        handed = [step.box if at in ends else _tile(step.box, job) for step in boxes]
        sizes.append(max(box_bytes(job, box) for box in handed))
    return sizes


def _tile(box: Tile, job: TileJob) -> Tile:
    rows, columns = command_size((box.h, box.w, box.n), job.target)
    return replace(box, h=min(box.h, rows), w=min(box.w, columns))


def _steps(jobs: Sequence[TileJob], group: Group, height: int) -> list[tuple[Step, ...]]:
    """The boxes of each layer, band by band."""
    rows = jobs[-1].dims[0]
    bands = [_band(jobs, group, y, min(height, rows - y)) for y in range(0, rows, height)]
    return [tuple(Step(band[at]) for band in bands) for at in range(len(jobs))]


def _band(jobs: Sequence[TileJob], group: Group, y: int, height: int) -> list[Tile]:
    """The box of each layer for one band of the last one's output."""
    number = {job.layer.outputs[0]: at for at, job in enumerate(jobs)}
    _, w, c = jobs[-1].dims
    boxes: list[Tile] = [NOTHING] * len(jobs)
    boxes[-1] = Tile(y, 0, 0, height, w, c)
    for at in reversed(range(len(jobs))):
        for index, name in enumerate(jobs[at].layer.inputs):
            if name in group.passing:
                front = number[name]
                boxes[front] = _hull(boxes[front], _full(jobs[at].need(index, boxes[at]), jobs[front]))
    return boxes


def _array_cycles(jobs: Sequence[TileJob], group: Group, height: int) -> int:
    """About the cycles of all commands in bands of that height: a band in the middle, as often as there are bands."""
    rows = jobs[-1].dims[0]
    count = -(-rows // height)
    boxes = _band(jobs, group, count // 2 * height, min(height, rows - count // 2 * height))
    return count * sum(array_cycles(job, Step(box)) for job, box in zip(jobs, boxes, strict=True))


def _full(box: Tile, job: TileJob) -> Tile:
    """The rows of a box, in full width and with all channels: what is beside them is needed by no other band."""
    _, w, c = job.dims
    return Tile(box.y, 0, 0, box.h, w, c)


def _hull(a: Tile, b: Tile) -> Tile:
    if a is NOTHING:
        return b
    y = min(a.y, b.y)
    return replace(b, y=y, h=max(a.y + a.h, b.y + b.h) - y)


def _heights(job: TileJob) -> set[int]:
    """Bands worth a look: equal parts of the rows, rows of the array less those at the seams, small ones."""
    rows, array = job.dims[0], job.target.array.rows
    seams = {array * count - seam for count in range(1, WIDEST + 1) for seam in range(SEAMS)}
    found = {-(-rows // parts) for parts in range(1, PARTS)} | seams | set(HEIGHTS)
    return {height for height in found if 0 < height <= rows}


def _cycles(tilings: Sequence[Tiling]) -> float:
    return sum(tiling.cycles for tiling in tilings)
