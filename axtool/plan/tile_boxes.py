"""A layer and a box size -> its steps: the boxes of the output, in the order in which they run."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from axtool.ops.elements import narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, PRODUCTS, ROW_OPS, dims_of, window_of
from axtool.plan.local_memory import local_bytes
from axtool.plan.memory import align
from axtool.plan.order import padded
from axtool.plan.tile_needs import boxed_inputs, concat_box, need, sliceable, slices, whole_box
from axtool.target import Target
from axtool.timing.cost import WEIGHTS, CostModel
from axtool.timing.inside import LARGE_ARRAY
from axtool.types import Layer, Program, Tile

BLOCK = 16  # output channels of one block of weights
# An axis of a box is not that of its input.
TANGLED = ("transpose", "reshape", "depth_to_space", "space_to_depth", "arg_max")
Size = tuple[int, int, int]  # (h, w, channels) of a box


@dataclass(frozen=True, slots=True)
class Step:
    """One output box of a layer; `part` is the input that a concat copies in it."""

    box: Tile
    part: int = 0


@dataclass(frozen=True)
class TileJob:
    """A layer to be tiled: which of its tensors are external, and on which chip."""

    layer: Layer
    program: Program
    target: Target
    external: frozenset[str]

    @cached_property
    def dims(self) -> Size:
        return dims_of(self.program.tensors[self.layer.outputs[0]].shape)

    @cached_property
    def staged_inputs(self) -> tuple[int, ...]:
        """Inputs that are not whole on chip: external activations. Constants read in boxes are loaded whole."""
        return tuple(i for i in range(boxed_inputs(self.layer)) if self.layer.inputs[i] in self.external)

    @cached_property
    def stores(self) -> bool:
        return self.layer.outputs[0] in self.external

    def sliced(self, channels: int) -> bool:
        """Whether boxes of that many channels have their weights in slices."""
        return channels < self.dims[2] and sliceable(self.layer)

    def slice_bytes(self, channels: int) -> tuple[int, int]:
        """Bytes that the chip holds of the weights and of the parameters in the largest slice of so many channels."""
        known = self._slices.get(channels)
        if known is None:
            weights, params = slices(self.layer, self.program, Tile(0, 0, 0, 1, 1, min(channels, self.dims[2])))
            known = self._slices[channels] = (math.ceil(weights.n * self.weight_factor), params.n)
        return known

    @cached_property
    def _slices(self) -> dict[int, tuple[int, int]]:
        return {}

    @cached_property
    def _needs(self) -> dict[tuple[int, Tile], Tile]:
        return {}

    @cached_property
    def _lines(self) -> dict[tuple[int, int, int, int], tuple[int, int]]:
        return {}

    @cached_property
    def known_cycles(self) -> dict[tuple[object, ...], int]:
        """Cycles of boxes of this layer that are worked out already (see `axtool.plan.tile_flow`)."""
        return {}

    @cached_property
    def model(self) -> CostModel:
        """The costs of the layer alone: layer 0 of its program."""
        return CostModel(replace(self.program, layers=(self.layer,)), self.target)

    @cached_property
    def weight_factor(self) -> float:
        """Bytes that are read and held on chip for each byte of the weights."""
        return self.model.weight_factor(0) if self.layer.op in MAC_OPS else 1.0

    @cached_property
    def most_channels(self) -> int:
        """The most output channels, in bytes, of a command: all, or as many as the elements of the array have room for.

        Where the fewest have none it is those (`axtool.plan.fit` refuses the layer).
        """
        unit, whole = channel_unit(self), self.dims[2]
        room = self.target.memory.lrm_bytes_per_pe

        def taken(channels: int) -> int:
            return local_bytes(self.layer, self.program, self.target, channels)

        if self.layer.op == "concat" or taken(whole) <= room:
            return whole
        counts = range(unit, whole, unit)
        return counts[max(bisect_right(counts, room, key=taken) - 1, 0)] if counts else whole

    def need(self, index: int, box: Tile) -> Tile:
        """The box of input `index` that an output box is computed from; a line of each axis is worked out once.

        Where an output box looks at padding alone along an axis, one row or column near by stands for it.
        """
        if narrow(self.layer.op) in TANGLED:
            known = self._needs.get((index, box))
            if known is None:
                known = self._needs[index, box] = need(self.layer, self.program, index, box)
            return known
        y, h = self._line(index, 0, box.y, box.h)
        x, w = self._line(index, 1, box.x, box.w)
        c, n = self._line(index, 2, box.c, box.n)
        return Tile(y, x, c, h, w, n)

    def _line(self, index: int, axis: int, at: int, count: int) -> tuple[int, int]:
        known = self._lines.get((index, axis, at, count))
        if known is None:
            start, size = [0, 0, 0], list(self.dims)
            start[axis], size[axis] = at, count
            tile = need(self.layer, self.program, index, Tile(*start, *size))
            lines = ((tile.y, tile.h), (tile.x, tile.w), (tile.c, tile.n))
            known = self._lines[index, axis, at, count] = lines[axis]
        return known


def in_lines(layer: Layer) -> bool:
    """Whether a step of the array is of one row: rows of a product of two activations have a right side each."""
    return layer.op in PRODUCTS


def array_tile(dims: Size, target: Target, *, lines: bool = False) -> tuple[int, int]:
    """Rows and columns of output pixels of one step of the array; tokens in one line fill it too."""
    rows, columns = target.array.rows, target.array.columns
    if lines or dims[0] == 1:
        return 1, rows * columns
    return (rows * columns, 1) if dims[1] == 1 else (rows, columns)


def command_size(dims: Size, target: Target, *, lines: bool = False) -> tuple[int, int]:
    """Rows and columns of one command. An array of a few pixels takes a box in one command, tile after tile."""
    rows, columns = array_tile(dims, target, lines=lines)
    return (rows, columns) if rows * columns >= LARGE_ARRAY else dims[:2]


def channel_parts(jobs: Sequence[TileJob], box: Tile) -> list[tuple[int, int]]:
    """(first, count) of the channels of each command of a box that some layers make together, in bytes."""
    most = min(job.most_channels for job in jobs)
    if box.n <= most:
        return [(box.c, box.n)]
    unit = max(channel_unit(job) for job in jobs)
    most, end = max(most // unit * unit, unit), box.c + box.n
    return [(at, min(most, end - at)) for at in range(box.c, end, most)]


def channel_unit(job: TileJob) -> int:
    """Output channels, in bytes, that a box must not split: a number, a head of an attention, a row that is looked at
    as a whole, in MAC ops a block of weights, or a group whose blocks begin inside others.
    """
    size = out_bytes(job.layer.attrs)
    if "heads" in job.layer.attrs:
        return job.dims[2] // int(job.layer.attrs["heads"])
    if job.layer.op in ROW_OPS:
        return job.dims[2]
    if job.layer.op not in MAC_OPS:
        return size
    channels = job.dims[2] // size
    share = channels // (1 if narrow(job.layer.op) == "depthwise" else window_of(job.layer.attrs)["group"])
    return size * (BLOCK if share % BLOCK == 0 or share == channels else share)


def steps_of(job: TileJob, size: Size, by_channel: bool) -> Iterator[Step]:
    """The steps in boxes of at most that size, channels outermost or innermost."""
    for part, area in areas(job):
        for box in grid(area, size, by_channel):
            yield Step(box, part)


def areas(job: TileJob) -> list[tuple[int, Tile]]:
    """What is cut into boxes: the whole output, or what each input of a concat fills."""
    if job.layer.op == "concat":
        return [(i, concat_box(job.layer, job.program, i)) for i in range(len(job.layer.inputs))]
    return [(0, Tile(0, 0, 0, *job.dims))]


def grid(area: Tile, size: Size, by_channel: bool) -> Iterator[Tile]:
    """The boxes of at most `size` that cover `area` once, channels outermost or innermost."""
    h, w, n = size
    if by_channel:
        for c in range(area.c, area.c + area.n, n):
            for y in range(area.y, area.y + area.h, h):
                for x in range(area.x, area.x + area.w, w):
                    yield clipped(area, y, x, c, size)
        return
    for y in range(area.y, area.y + area.h, h):
        for x in range(area.x, area.x + area.w, w):
            for c in range(area.c, area.c + area.n, n):
                yield clipped(area, y, x, c, size)


def clipped(area: Tile, y: int, x: int, c: int, size: Size) -> Tile:
    """The box of that size at a place, cut at the end of `area`."""
    h, w, n = size
    return Tile(y, x, c, min(h, area.y + area.h - y), min(w, area.x + area.w - x), min(n, area.c + area.n - c))


def box_bytes(job: TileJob, box: Tile) -> int:
    """Bytes of a staged box."""
    return align(box.h * box.w * staged_pixel(job.layer, box.n, job.target))


def staged_pixel(layer: Layer, channels: int, target: Target) -> int:
    """Bytes between the pixels of a staged box: whole words, but single bytes where a few channels need no MACs."""
    few = channels < target.channel_multiple and layer.op not in MAC_OPS
    return channels if few else padded(channels, target)


def constant_sizes(job: TileJob, channels: int) -> dict[str, int]:
    """The constants that a layer loads and their bytes on chip: slices for `channels`, boxes and the rest whole."""
    layer, program = job.layer, job.program
    cut = dict(zip(layer.inputs[1:3], job.slice_bytes(channels), strict=True)) if job.sliced(channels) else {}
    sizes = {}
    for index, name in enumerate(layer.inputs):
        if name not in program.constants:
            continue
        if index < boxed_inputs(layer):
            sizes[name] = box_bytes(job, whole_box(program, name))
        else:
            factor = job.weight_factor if index == WEIGHTS else 1.0
            sizes[name] = align(cut.get(name, math.ceil(program.constants[name].nbytes * factor)))
    return sizes
