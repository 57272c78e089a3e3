"""A group of layers and the room on chip -> the output boxes in which all of them run, and what each stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from axtool.plan.cascade import cascade_bytes, choose_cascade
from axtool.plan.groups import Group
from axtool.plan.tile import LEVELS, level_size
from axtool.plan.tile_boxes import BLOCK, Size, TileJob, box_bytes, channel_unit, command_size, in_lines
from axtool.plan.tile_cost import Buffers, Tiling, both, bytes_at, evaluate
from axtool.target import Target
from axtool.timing.cost import OUTPUT
from axtool.types import Program, Tile

MAX_STEPS = 4096
TRIED = 6  # boxes that fit, of each number of channels, before the search is content


def jobs_of(program: Program, target: Target, external: frozenset[str], group: Group) -> tuple[TileJob, ...]:
    """The layers of a group as work to be tiled."""
    return tuple(TileJob(program.layers[at], program, target, external) for at in group.layers)


def group_bytes(jobs: Sequence[TileJob], size: Size) -> int:
    """On-chip bytes for boxes of that size with one buffer for each operand, and what passes between the layers."""
    return sum(bytes_at(job, size) for job in jobs) + sum(
        _passing(job, size, lines=in_lines(jobs[0].layer)).size for job in jobs[:-1]
    )


def group_smallest(jobs: Sequence[TileJob], group: Group, level: int) -> int:
    """On-chip bytes that the group needs beyond its resident tensors, at a level of thrift."""
    if len(group.bundles) > 1:
        return cascade_bytes(jobs, group, level)
    return group_bytes(jobs, level_size(jobs[0], level))


def choose_group(jobs: Sequence[TileJob], group: Group, room: int) -> tuple[Tiling, ...] | None:
    """Tilings in the same boxes for all layers, with the fewest estimated cycles in that room; None where none fits."""
    if len(group.bundles) > 1:
        return choose_cascade(jobs, group, room)
    staged = any(job.staged_inputs or job.stores for job in jobs)
    if not staged:
        full = _joined(jobs, jobs[0].dims, [evaluate(job, jobs[0].dims) for job in jobs])
        if _bytes(full) <= room:
            return full
    best: tuple[Tiling, ...] | None = None
    unit = channel_unit(jobs[0])
    for n in _halves(jobs[0].dims[2], unit, max(1, BLOCK // unit) * unit):
        found = [
            tilings
            for size in _areas(jobs[0], n, staged, room, jobs)
            for by_channel in ((True, False) if n < jobs[0].dims[2] else (True,))
            for tilings in _both(jobs, size, by_channel)
            if _bytes(tilings) <= room
        ]
        here = min(found, key=_cycles, default=None)
        if here is not None and best is not None and _cycles(here) >= _cycles(best):
            break  # fewer channels only mean more requests from here on
        best = here if here is not None else best
    if best is None:
        sizes = (level_size(jobs[0], level) for level in range(LEVELS))
        size = next((size for size in sizes if group_bytes(jobs, size) <= room), None)
        best = _joined(jobs, size, [evaluate(job, size) for job in jobs]) if size else None
    return best


def _areas(job: TileJob, n: int, staged: bool, room: int, jobs: Sequence[TileJob]) -> Iterator[Size]:
    """Boxes of `n` channels that fit, from all rows to one, the largest first; the whole where nothing is staged."""
    h, w, _ = job.dims
    rows, columns = command_size(job.dims, job.target, lines=in_lines(job.layer))
    tried = 0
    heights = [(height, w) for height in _halves(h, 1, rows)] if staged else [(h, w)]
    widths = [(min(rows, h), width) for width in _halves(w, 1, columns)[1:]] if staged else []
    for height, width in (*heights, *widths):
        steps = -(-h // height) * -(-w // width) * -(-job.dims[2] // n)
        if tried < TRIED and steps <= MAX_STEPS and group_bytes(jobs, (height, width, n)) <= room:
            tried += 1
            yield height, width, n


def _both(jobs: Sequence[TileJob], size: Size, by_channel: bool) -> Iterator[tuple[Tiling, ...]]:
    for tilings in zip(*(both(job, size, by_channel) for job in jobs), strict=True):
        yield _joined(jobs, size, tilings)


def _joined(jobs: Sequence[TileJob], size: Size, tilings: Sequence[Tiling]) -> tuple[Tiling, ...]:
    """The tilings with buffers for what passes: two, so that the next tile need not wait for the last to be read."""
    return (
        *(
            replace(tiling, staged={**tiling.staged, OUTPUT: _passing(job, size, lines=in_lines(jobs[0].layer))})
            for job, tiling in zip(jobs[:-1], tilings[:-1], strict=True)
        ),
        tilings[-1],
    )


def _passing(job: TileJob, size: Size, *, lines: bool) -> Buffers:
    """The buffer of what a layer hands to the next one: a tile of the array, or the box where one command makes it."""
    h, w, n = (min(part, whole) for part, whole in zip(size, job.dims, strict=True))
    rows, columns = command_size((h, w, n), job.target, lines=lines)
    box = Tile(0, 0, 0, min(h, rows), min(w, columns), n)
    return Buffers(box_bytes(job, box), 1)


def _bytes(tilings: Sequence[Tiling]) -> int:
    return sum(tiling.bytes for tiling in tilings)


def _cycles(tilings: Sequence[Tiling]) -> float:
    return sum(tiling.cycles for tiling in tilings)


def _halves(size: int, unit: int, least: int) -> list[int]:
    """size, about a half, a quarter … in multiples of `least` where larger, else of `unit`."""
    found = [size]
    for parts in (2**power for power in range(1, 16)):
        share = -(-size // parts)
        step = -(-share // least) * least if share > least else -(-share // unit) * unit
        if step < found[-1]:
            found.append(step)
        if step <= unit:
            break
    return found
