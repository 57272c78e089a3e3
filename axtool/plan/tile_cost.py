"""The boxes of a layer -> what they stage on chip and about how many cycles they take.

With one buffer, transfers and array take turns; with two, the next box is loaded and the last one stored while the
array computes. The estimate, by the costs and paths of `axtool.timing`, chooses between tilings; what a plan costs is
what its commands cost there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from axtool.ops.encoding import dims_of
from axtool.plan.tile_boxes import Size, Step, TileJob, areas, box_bytes, clipped, constant_sizes, steps_of
from axtool.plan.tile_flow import Flow, array_cycles, flow_of, frame_cycles
from axtool.types import Tile


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


def evaluate(job: TileJob, size: Size, by_channel: bool = True, double: bool = False) -> Tiling:
    """The tiling in boxes of that size, channels outermost or innermost, with one or two buffers."""
    return tiling_of(job, size, flow_of(job, steps_of(job, size, by_channel), size[2]), double)


def both(job: TileJob, size: Size, by_channel: bool = True) -> tuple[Tiling, ...]:
    """The same boxes with two buffers, where the chip lets activations have them, and with one."""
    flow = flow_of(job, steps_of(job, size, by_channel), size[2])
    single = tiling_of(job, size, flow, False)
    return (tiling_of(job, size, flow, True), single) if job.target.memory.double_buffers else (single,)


def ways(job: TileJob, size: Size, by_channel: bool = True) -> tuple[Tiling, ...]:
    """The same boxes with two buffers, with one, and where weights come in slices with one for these alone."""
    flow = flow_of(job, steps_of(job, size, by_channel), size[2])
    found = [tiling_of(job, size, flow, True), tiling_of(job, size, flow, False)]
    if flow.slices > 1:
        found.append(tiling_of(job, size, flow, True, late=True))
    return tuple(tiling for tiling in found if job.target.memory.double_buffers or not _ahead(tiling))


def both_in(job: TileJob, steps: Sequence[Step]) -> tuple[Tiling, ...]:
    """The tilings in boxes that somebody else has cut, of all channels, with two buffers and with one; as `both`."""
    size = (max(step.box.h for step in steps), max(step.box.w for step in steps), job.dims[2])
    flow = flow_of(job, steps, size[2])
    single = tiling_of(job, size, flow, False)
    return (tiling_of(job, size, flow, True), single) if job.target.memory.double_buffers else (single,)


def _ahead(tiling: Tiling) -> bool:
    """Whether boxes of activations come or go while the array computes."""
    return tiling.double and len(tiling.steps) > 1 and bool(tiling.staged)


def tiling_of(job: TileJob, size: Size, flow: Flow, double: bool, late: bool = False) -> Tiling:
    """The tiling of a flow; `late`: slices of weights have one buffer whatever the boxes have."""
    sliced = job.sliced(size[2])
    names = job.layer.inputs[1:3] if sliced else ()
    twice = 2 if double and flow.slices > 1 and not late else 1
    return Tiling(
        flow.steps,
        {key: Buffers(most, 2 if double and flow.boxes[key] > 1 else 1) for key, most in flow.sizes.items()},
        {name: Buffers(size_, twice if name in names else 1) for name, size_ in constant_sizes(job, size[2]).items()},
        sliced,
        double,
        frame_cycles(job, flow, double, late),
    )


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
    """Cycles that boxes of that size cannot do without: the array's, or those of a request for each box stored, or for
    each place read.
    """
    counts = [-(-whole // part) for whole, part in zip(job.dims, size, strict=True)]
    requests = math.prod(counts) if job.stores else counts[0] * counts[1] if job.staged_inputs else 0
    full = math.prod(whole // part for whole, part in zip(job.dims, size, strict=True))
    external = job.target.external
    latency = external.latency_cycles if external.in_flight == 1 else 0
    return max(requests * latency, full * array_cycles(job, Step(Tile(0, 0, 0, *size))))


def _reshape_bytes(job: TileJob, size: Size) -> int:
    """An upper bound: whole rows around as many consecutive elements as a box spans."""
    h, w, c = dims_of(job.program.tensors[job.layer.inputs[0]].shape)
    span = (size[0] - 1) * job.dims[1] * job.dims[2] + (size[1] - 1) * job.dims[2] + size[2]
    rows = min(h, (span - 1) // (w * c) + 2)
    return box_bytes(job, Tile(0, 0, 0, rows, w, c))
