"""A layer, what of it is in external memory, and the room on chip -> the output boxes that it runs in.

A step is one output box. What a step reads from external memory is staged on chip first, once for each change of box;
what it writes is stored after. A layer with nothing external and room for its constants is one step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from axtool.ops.encoding import MAC_OPS, dims_of
from axtool.plan.memory import align
from axtool.plan.order import padded
from axtool.plan.tile_needs import block_bytes, boxed_inputs, concat_box, need, whole_box
from axtool.target import Target
from axtool.types import Layer, Program, Tile

BLOCK = 16  # output channels of one block of weights
LEVELS = 6  # how small a box may get, from a band of the array's height to one element
CANDIDATES = 2  # spatial sizes tried for each channel split
MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """One output box of a layer; `part` is the input that a concat copies in it."""

    box: Tile
    part: int = 0


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layer and the bytes that they stage: by input index, -1 for the output, and constants."""

    steps: tuple[Step, ...]
    staged: dict[int, int] = field(default_factory=dict)
    constants: int = 0  # bytes of all flat constants, or of the largest slice of them
    sliced: bool = False
    traffic: float = 0.0  # external bytes, latency included

    @property
    def bytes(self) -> int:
        """On-chip bytes beyond the resident tensors."""
        return sum(self.staged.values()) + self.constants


@dataclass(frozen=True)
class TileJob:
    """A layer to be tiled: which of its tensors are external, and on which chip."""

    layer: Layer
    program: Program
    target: Target
    external: frozenset[str]

    @property
    def dims(self) -> tuple[int, int, int]:
        return dims_of(self.program.tensors[self.layer.outputs[0]].shape)

    @property
    def staged_inputs(self) -> tuple[int, ...]:
        """Inputs that are not whole on chip: external activations. Constants read in boxes are loaded whole."""
        return tuple(i for i in range(boxed_inputs(self.layer)) if self.layer.inputs[i] in self.external)

    @property
    def stores(self) -> bool:
        return self.layer.outputs[0] in self.external


def choose(job: TileJob, room: int) -> Tiling | None:
    """The tiling with the least external traffic that needs at most `room` bytes, or None where none fits."""
    full = evaluate(job, job.dims)
    if full is not None and full.bytes <= room:
        return full
    fitting = [tiling for n in _channel_options(job) for tiling in _fitting(job, n, room)]
    if not fitting:
        sizes = (level_size(job, level) for level in range(LEVELS))
        fitting = [t for t in (evaluate(job, size) for size in sizes) if t is not None and t.bytes <= room]
    return min(fitting, key=lambda tiling: tiling.traffic, default=None)


def _fitting(job: TileJob, n: int, room: int) -> list[Tiling]:
    """The largest few boxes of `n` channels that fit, each with its channels outermost and innermost."""
    found: list[Tiling] = []
    for h, w in _spatial_options(job):
        tiling = evaluate(job, (h, w, n)) if _bytes_at(job, (h, w, n)) <= room else None
        if tiling is None or tiling.bytes > room:
            continue
        found.append(tiling)
        if n < job.dims[2] and (h, w) != job.dims[:2]:
            found += [other] if (other := evaluate(job, (h, w, n), by_channel=False)) else []
        if len(found) >= 2 * CANDIDATES:
            break
    return found


def smallest(job: TileJob, level: int) -> int:
    """On-chip bytes that the layer needs beyond its resident tensors, at a level of thrift (0 .. LEVELS - 1)."""
    return _bytes_at(job, level_size(job, level))


def level_size(job: TileJob, level: int) -> tuple[int, int, int]:
    """The box (h, w, n) of a level: a band, a tile of the array, fewer channels, fewer rows, a line, an element."""
    h, w, c = job.dims
    rows, columns = array_tile(job.dims, job.target)
    unit = channel_unit(job)
    block = max(unit, BLOCK)
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


def channel_unit(job: TileJob) -> int:
    """Output channels that a box must not split: a block of weights, or a group whose blocks begin inside others."""
    if job.layer.op not in MAC_OPS:
        return 1
    share = job.dims[2] // (1 if job.layer.op == "depthwise" else job.layer.attrs["group"])
    return BLOCK if share % BLOCK == 0 or share == job.dims[2] else share


def array_tile(dims: tuple[int, int, int], target: Target) -> tuple[int, int]:
    """Rows and columns of output pixels of one step of the array; tokens in one line fill it too."""
    rows, columns = target.array.rows, target.array.columns
    if dims[0] == 1:
        return 1, rows * columns
    return (rows * columns, 1) if dims[1] == 1 else (rows, columns)


def evaluate(job: TileJob, size: tuple[int, int, int], by_channel: bool = True) -> Tiling | None:
    """The tiling in boxes of that size, channels outermost or innermost. None beyond MAX_STEPS steps."""
    layer, program, target = job.layer, job.program, job.target
    blocks = block_bytes(layer, program)
    sliced = bool(blocks) and size[2] < job.dims[2]
    if math.prod(-(-whole // part) for whole, part in zip(job.dims, size, strict=True)) > MAX_STEPS:
        return None
    steps = tuple(_steps(job, size, by_channel))
    staged: dict[int, int] = {}
    moved = requests = 0
    last: dict[int, Tile] = {}
    slice_now: tuple[int, int] | None = None
    for step in steps:
        if sliced and (step.box.c, step.box.n) != slice_now:
            slice_now = (step.box.c, step.box.n)
            moved += sum(blocks) * -(-step.box.n // BLOCK)
            requests += len(blocks)
        for index in job.staged_inputs:
            if layer.op == "concat" and index != step.part:
                continue
            box = need(layer, program, index, step.box)
            slot = 0 if layer.op == "concat" else index
            staged[slot] = max(staged.get(slot, 0), box_bytes(box, target))
            if last.get(slot) != box or layer.op == "concat":
                last[slot] = box
                moved += box.h * box.w * box.n
                requests += 1
        if job.stores:
            staged[-1] = max(staged.get(-1, 0), box_bytes(step.box, target))
            moved += step.box.h * step.box.w * step.box.n
            requests += 1
    constants = _constant_bytes(job, size[2])
    latency = target.external.latency_cycles * target.external.read_bytes_per_s / target.clock_hz
    return Tiling(steps, staged, constants, sliced, moved + requests * latency)


def box_bytes(box: Tile, target: Target) -> int:
    """Bytes of a staged box."""
    return align(box.h * box.w * padded(box.n, target))


def constant_sizes(job: TileJob, channels: int) -> list[tuple[str, int]]:
    """The constants that a layer loads and the bytes of each slot: flat ones for `channels`, boxes whole."""
    layer, program = job.layer, job.program
    blocks = block_bytes(layer, program) if channels < job.dims[2] else ()
    sizes = []
    for index, name in enumerate(layer.inputs):
        if name not in program.constants:
            continue
        if index < boxed_inputs(layer):
            size = box_bytes(whole_box(program, name), job.target)
        elif index - 1 < len(blocks):
            size = align(blocks[index - 1] * -(-channels // BLOCK))
        else:
            size = align(program.constants[name].nbytes)
        sizes.append((name, size))
    return list(dict(sizes).items())


def _constant_bytes(job: TileJob, channels: int) -> int:
    return sum(size for _, size in constant_sizes(job, channels))


def _bytes_at(job: TileJob, size: tuple[int, int, int]) -> int:
    """On-chip bytes for boxes of that size: the largest need, met at the edges of the output or next to them."""
    if job.layer.op == "reshape":
        return _reshape_bytes(job, size)
    largest: dict[int, int] = {}
    for step in _probes(job, size):
        for index in job.staged_inputs:
            if job.layer.op == "concat" and index != step.part:
                continue
            slot = 0 if job.layer.op == "concat" else index
            bytes_ = box_bytes(need(job.layer, job.program, index, step.box), job.target)
            largest[slot] = max(largest.get(slot, 0), bytes_)
        if job.stores:
            largest[-1] = max(largest.get(-1, 0), box_bytes(step.box, job.target))
    return sum(largest.values()) + _constant_bytes(job, size[2])


def _reshape_bytes(job: TileJob, size: tuple[int, int, int]) -> int:
    """An upper bound: whole rows around as many consecutive elements as a box spans."""
    h, w, c = dims_of(job.program.tensors[job.layer.inputs[0]].shape)
    span = (size[0] - 1) * job.dims[1] * job.dims[2] + (size[1] - 1) * job.dims[2] + size[2]
    rows = min(h, (span - 1) // (w * c) + 2)
    read = box_bytes(Tile(0, 0, 0, rows, w, c), job.target) if job.staged_inputs else 0
    return read + (box_bytes(Tile(0, 0, 0, *size), job.target) if job.stores else 0)


def _probes(job: TileJob, size: tuple[int, int, int]) -> Iterator[Step]:
    for part, area in _areas(job):
        starts = []
        for begin, length, step in zip((area.y, area.x, area.c), (area.h, area.w, area.n), size, strict=True):
            last = begin + (length - 1) // step * step
            starts.append(sorted({begin, min(begin + step, last), max(last - step, begin), last}))
        for y, x, c in itertools.product(*starts):
            yield Step(_box(area, y, x, c, size), part)


def _steps(job: TileJob, size: tuple[int, int, int], by_channel: bool) -> Iterator[Step]:
    for part, area in _areas(job):
        for box in grid(area, size, by_channel):
            yield Step(box, part)


def _areas(job: TileJob) -> list[tuple[int, Tile]]:
    """What is cut into boxes: the whole output, or what each input of a concat fills."""
    if job.layer.op == "concat":
        return [(i, concat_box(job.layer, job.program, i)) for i in range(len(job.layer.inputs))]
    return [(0, Tile(0, 0, 0, *job.dims))]


def grid(area: Tile, size: tuple[int, int, int], by_channel: bool) -> Iterator[Tile]:
    """The boxes of at most `size` (h, w, c) that cover `area` once, channels outermost or innermost."""
    h, w, n = size
    if by_channel:
        for c in range(area.c, area.c + area.n, n):
            for y in range(area.y, area.y + area.h, h):
                for x in range(area.x, area.x + area.w, w):
                    yield _box(area, y, x, c, size)
        return
    for y in range(area.y, area.y + area.h, h):
        for x in range(area.x, area.x + area.w, w):
            for c in range(area.c, area.c + area.n, n):
                yield _box(area, y, x, c, size)


def _box(area: Tile, y: int, x: int, c: int, size: tuple[int, int, int]) -> Tile:
    h, w, n = size
    return Tile(y, x, c, min(h, area.y + area.h - y), min(w, area.x + area.w - x), min(n, area.c + area.n - c))


def _channel_options(job: TileJob) -> list[int]:
    """All channels, then halves of them, down to the smallest number that may stand alone."""
    unit = channel_unit(job)
    return _halves(job.dims[2], max(unit, BLOCK // unit * unit), unit)


def _spatial_options(job: TileJob) -> Iterable[tuple[int, int]]:
    """Row bands from tall to one array tile, then boxes of fewer columns, then of fewer rows."""
    h, w, _ = job.dims
    rows, columns = array_tile(job.dims, job.target)
    if not job.staged_inputs and not job.stores:
        return [(h, w)]
    bands = [(band, w) for band in _halves(h, rows, rows)]
    boxes = [(min(rows, h), width) for width in _halves(w, columns, columns) if width < w]
    small = [(a, b) for a in _halves(min(rows, h), 1, 1) for b in _halves(min(columns, w), 1, 1)]
    return list(dict.fromkeys([*bands, *boxes, *sorted(small, key=lambda s: (-s[0] * s[1], -s[1]))]))


def _halves(size: int, unit: int, least: int) -> list[int]:
    """size, then about a half, a quarter …, in multiples of `unit`, at least `least`."""
    found = [size]
    parts = 2
    while True:
        step = -(-size // parts)
        step = max(least, -(-step // unit) * unit if step > unit else step)
        if step < found[-1]:
            found.append(step)
        if step <= least or parts > size:
            return found
        parts *= 2
