"""A layer, what of it is in external memory, and the room on chip -> the output boxes that it runs in.

A step is one output box. What a step reads from external memory is staged on chip first, once for each change of box;
what it writes is stored after. A layer with nothing external and room for its constants is one step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from axtool.plan.tile_boxes import BLOCK, Size, TileJob, array_tile, channel_unit, in_lines
from axtool.plan.tile_cost import Tiling, bytes_at, evaluate, least_cycles, ways

LEVELS = 6  # how small a box may get, from a band of the array's height to one element
CANDIDATES = 3  # spatial sizes tried for each channel split
MAX_STEPS = 4096  # of a tiling that is searched for; the smallest boxes may be more


def choose(job: TileJob, room: int, buffers: int | None = None) -> Tiling | None:
    """The tiling with the fewest estimated cycles that needs at most `room` bytes, or None where none fits.

    `buffers` 1 or 2 leaves only tilings with so many for each staged operand.
    """
    if not job.staged_inputs and not job.stores:
        full = evaluate(job, job.dims)
        if full.bytes <= room:
            return full
    best: Tiling | None = None
    for n in _channel_options(job):
        found = _fitting(job, n, room, best.cycles if best else math.inf)
        found = _buffered(found, buffers)
        if not found:
            continue
        here = min(found, key=lambda tiling: tiling.cycles)
        if best is not None and here.cycles >= best.cycles:
            break  # fewer channels only mean more requests from here on
        best = here
    if best is None and buffers != 2:
        sizes = (level_size(job, level) for level in range(LEVELS))
        best = next((evaluate(job, size) for size in sizes if bytes_at(job, size) <= room), None)
    return best


def _buffered(found: list[Tiling], buffers: int | None) -> list[Tiling]:
    """Those with so many buffers; where two are wanted, those in which they take turns, if there are any."""
    if buffers is None:
        return found
    fitting = [tiling for tiling in found if tiling.double == (buffers == 2)]
    turning = [tiling for tiling in fitting if buffers == 1 or len(tiling.steps) > 1]
    return turning or fitting


def _fitting(job: TileJob, n: int, room: int, bound: float) -> list[Tiling]:
    """Tilings in the largest boxes of `n` channels that fit and may take less than `bound` cycles."""
    found: list[Tiling] = []
    doubles = 0
    for h, w in _spatial_options(job):
        size = (h, w, n)
        if least_cycles(job, size) >= bound or _count(job, size) > MAX_STEPS:
            break
        if bytes_at(job, size) > room:
            continue
        tilings = [*ways(job, size)]
        if n < job.dims[2] and (h, w) != job.dims[:2]:
            tilings += ways(job, size, by_channel=False)
        fitting = [tiling for tiling in tilings if tiling.bytes <= room]
        found += fitting
        doubles += any(tiling.double and len(tiling.steps) > 1 for tiling in fitting)
        if doubles >= CANDIDATES or len(found) >= 4 * CANDIDATES:
            break
    return found


def smallest(job: TileJob, level: int) -> int:
    """On-chip bytes that the layer needs beyond its resident tensors, at a level of thrift (0 .. LEVELS - 1)."""
    return bytes_at(job, level_size(job, level))


def level_size(job: TileJob, level: int) -> Size:
    """The box of a level: a band, a tile of the array, fewer channels, fewer rows, a line, an element."""
    h, w, c = job.dims
    rows, columns = array_tile(job.dims, job.target, lines=in_lines(job.layer))
    unit = channel_unit(job)
    block = max(1, BLOCK // unit) * unit
    quarter = max(4 * block, -(-c // 4 // unit) * unit)
    sizes = (
        (rows, w, c),
        (rows, columns, c),
        (rows, columns, quarter),
        (min(rows, 8), columns, block),
        (1, columns, block),
        (1, 1, unit),
    )
    size = sizes[level]
    return min(h, size[0]), min(w, size[1]), min(c, size[2])


def _count(job: TileJob, size: Size) -> int:
    return math.prod(-(-whole // part) for whole, part in zip(job.dims, size, strict=True))


def _channel_options(job: TileJob) -> list[int]:
    """All channels, then halves of them, down to the smallest number that may stand alone."""
    unit = channel_unit(job)
    return _halves(job.dims[2], max(unit, BLOCK // unit * unit), unit)


def _spatial_options(job: TileJob) -> Sequence[tuple[int, int]]:
    """Row bands from tall to one array tile, then boxes of fewer columns, then of fewer rows."""
    h, w, _ = job.dims
    rows, columns = array_tile(job.dims, job.target, lines=in_lines(job.layer))
    if not job.staged_inputs and not job.stores:
        return [(h, w)]
    bands = [(band, w) for band in _halves(h, rows, rows)]
    boxes = [(min(rows, h), width) for width in _halves(w, columns, columns) if width < w]
    lines = [(height, min(columns, w)) for height in _halves(min(rows, h), 1, 1)]
    pixels = [(1, width) for width in _halves(min(columns, w), 1, 1)]
    return list(dict.fromkeys([*bands, *boxes, *lines, *pixels]))


def _halves(size: int, unit: int, least: int) -> list[int]:
    """size, then about a half, a quarter …, in multiples of `unit` while larger than it, of `least` below."""
    found = [size]
    parts = 2
    while True:
        step = -(-size // parts)
        step = -(-step // unit) * unit if step > unit else -(-step // least) * least
        if step < found[-1]:
            found.append(step)
        if step <= least or parts > size:
            return found
        parts *= 2
