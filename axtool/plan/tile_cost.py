"""The boxes of a layer -> what they stage on chip and about how many cycles they take.

With one buffer, transfers and array take turns; with two, the next box is loaded and the last one stored while the
array computes. The estimate chooses between tilings; what a plan costs is what its commands cost (`axtool.timing`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from axtool.ops.encoding import dims_of
from axtool.plan.tile_boxes import (
    Size,
    Step,
    TileJob,
    areas,
    box_bytes,
    clipped,
    constant_sizes,
    steps_of,
)
from axtool.target import Target
from axtool.types import Tile

OUTPUT = -1  # the staging key of the output; inputs have their index, all parts of a concat share 0


@dataclass(frozen=True, slots=True)
class Buffers:
    """`count` equal areas of `size` bytes that one operand's boxes take in turn."""

    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """The steps of a layer and what they stage: by input index, -1 for the output, and constants by name."""

    steps: tuple[Step, ...]
    staged: Mapping[int, Buffers] = field(default_factory=dict)
    constants: Mapping[str, Buffers] = field(default_factory=dict)
    sliced: bool = False  # weights and parameters come in slices, one for each range of channels
    double: bool = False  # the loads of a step are issued before the step in front of it computes
    cycles: float = 0.0

    @property
    def constant_bytes(self) -> int:
        return sum(b.size * b.count for b in self.constants.values())

    @property
    def bytes(self) -> int:
        """On-chip bytes beyond the resident tensors."""
        return sum(b.size * b.count for b in self.staged.values()) + self.constant_bytes


@dataclass(slots=True)
class _Tally:
    """Bytes and requests of the boxes of a layer, and the largest box and the number of boxes by staging key."""

    read: int = 0
    written: int = 0
    requests: int = 0
    array: float = 0.0  # cycles that the array computes
    slices: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    boxes: dict[int, int] = field(default_factory=dict)

    def box(self, key: int, size: int) -> None:
        self.sizes[key] = max(self.sizes.get(key, 0), size)
        self.boxes[key] = self.boxes.get(key, 0) + 1
        self.requests += 1


def evaluate(job: TileJob, size: Size, by_channel: bool = True, double: bool = False) -> Tiling:
    """The tiling in boxes of that size, channels outermost or innermost, with one or two buffers."""
    steps = tuple(steps_of(job, size, by_channel))
    return tiling_of(job, size, steps, _count(job, size, steps), double)


def both(job: TileJob, size: Size, by_channel: bool = True) -> tuple[Tiling, Tiling]:
    """The same boxes with two buffers and with one."""
    steps = tuple(steps_of(job, size, by_channel))
    tally = _count(job, size, steps)
    return tiling_of(job, size, steps, tally, True), tiling_of(job, size, steps, tally, False)


def tiling_of(job: TileJob, size: Size, steps: tuple[Step, ...], tally: _Tally, double: bool) -> Tiling:
    """The tiling of a tally."""
    sliced = job.sliced(size[2])
    names = job.layer.inputs[1:3] if sliced else ()
    twice = 2 if double and tally.slices > 1 else 1
    array = tally.array
    external = job.target.external
    moved = tally.requests * request_cycles(job.target) + job.target.clock_hz * (
        tally.read / external.read_bytes_per_s + tally.written / external.write_bytes_per_s
    )
    overlapped = max(array, moved) + min(array, moved) / max(len(steps), 1)
    return Tiling(
        steps,
        {key: Buffers(size_, 2 if double and tally.boxes[key] > 1 else 1) for key, size_ in tally.sizes.items()},
        {name: Buffers(size_, twice if name in names else 1) for name, size_ in constant_sizes(job, size[2]).items()},
        sliced,
        double,
        overlapped if double else array + moved,
    )


def _count(job: TileJob, size: Size, steps: tuple[Step, ...]) -> _Tally:
    layer = job.layer
    sliced = job.sliced(size[2])
    tally = _Tally()
    last: dict[int, Tile] = {}
    slice_now: tuple[int, int] | None = None
    for step in steps:
        box = step.box
        tally.array += job.box_cycles(box, step.part)
        if sliced and (box.c, box.n) != slice_now:
            slice_now = (box.c, box.n)
            tally.slices += 1
            tally.read += sum(job.slice_bytes(box.n))
            tally.requests += 2
        for index in job.staged_inputs:
            if layer.op == "concat" and index != step.part:
                continue
            key = 0 if layer.op == "concat" else index
            wanted = job.need(index, box)
            if last.get(key) != wanted or layer.op == "concat":
                last[key] = wanted
                tally.box(key, box_bytes(job, wanted))
                tally.read += wanted.h * wanted.w * wanted.n
        if job.stores:
            tally.box(OUTPUT, box_bytes(job, box))
            tally.written += box.h * box.w * box.n
    return tally


def bytes_at(job: TileJob, size: Size) -> int:
    """On-chip bytes that are enough for boxes of that size with one buffer."""
    staged: dict[int, int] = {}
    for part, area in areas(job):
        for index in (part,) if job.layer.op == "concat" else job.staged_inputs:
            if index in job.staged_inputs:
                key = 0 if job.layer.op == "concat" else index
                staged[key] = max(staged.get(key, 0), _input_bytes(job, index, area, size))
    output = box_bytes(job, Tile(0, 0, 0, *size)) if job.stores else 0
    return output + sum(staged.values()) + sum(constant_sizes(job, size[2]).values())


def _input_bytes(job: TileJob, index: int, area: Tile, size: Size) -> int:
    """The largest extents on each axis, over output boxes at the ends and in the middle of the axis."""
    if job.layer.op == "reshape":
        return _reshape_bytes(job, size)
    starts = [_probes(*axis) for axis in zip((area.y, area.x, area.c), (area.h, area.w, area.n), size, strict=True)]
    middle = [axis[len(axis) // 2] for axis in starts]
    most = [0, 0, 0]
    for axis, places in enumerate(starts):
        for place in places:
            at = [*middle[:axis], place, *middle[axis + 1 :]]
            box = job.need(index, clipped(area, at[0], at[1], at[2], size))
            most = [max(a, b) for a, b in zip(most, (box.h, box.w, box.n), strict=True)]
    return box_bytes(job, Tile(0, 0, 0, *most))


def _probes(begin: int, length: int, step: int) -> list[int]:
    """Where boxes are looked at: the first and last two, and in the middle one for each phase of a small stride."""
    last, middle = (length - 1) // step, (length - 1) // step // 2
    counts = {0, 1, last - 1, last, *range(middle, middle + 4)}
    return [begin + at * step for at in sorted(counts) if 0 <= at <= last]


def least_cycles(job: TileJob, size: Size) -> float:
    """Cycles that boxes of that size cannot do without: a request for each box stored, or for each place read."""
    counts = [-(-whole // part) for whole, part in zip(job.dims, size, strict=True)]
    requests = math.prod(counts) if job.stores else counts[0] * counts[1] if job.staged_inputs else 0
    part, area = areas(job)[0]
    array = math.prod(counts) * job.box_cycles(clipped(area, area.y, area.x, area.c, size), part)
    return max(requests * request_cycles(job.target), array * 0.5)


def request_cycles(target: Target) -> float:
    """Cycles of a request beside those of its bytes: its latency, of which those in flight pay a part each."""
    return target.external.latency_cycles / target.external.in_flight


def _reshape_bytes(job: TileJob, size: Size) -> int:
    """An upper bound: whole rows around as many consecutive elements as a box spans."""
    h, w, c = dims_of(job.program.tensors[job.layer.inputs[0]].shape)
    span = (size[0] - 1) * job.dims[1] * job.dims[2] + (size[1] - 1) * job.dims[2] + size[2]
    rows = min(h, (span - 1) // (w * c) + 2)
    return box_bytes(job, Tile(0, 0, 0, rows, w, c))
