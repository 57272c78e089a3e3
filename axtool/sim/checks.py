"""Is a command one that an engine may run? Layers that exist, boxes inside tensors, views inside memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Dims, Job, contains, is_empty, whole
from axtool.ops.elements import narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, decode_command, decode_layer, window_of
from axtool.ops.legal import check_layer
from axtool.ops.packing import LANES
from axtool.ops.regions import needed, number_bytes, reads_of, tensor_reads, written
from axtool.types import Command, Tile, View

MOST_PIXELS = 2**23  # rows or columns of a box, and its first one; these two are those of `axtool/native/views.h`
MOST_BYTES = 2**38  # a stride, channels of a box: flat views are all channels


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One decoded layer."""

    op: str
    in_dims: Dims
    out_dims: Dims
    attrs: Mapping[str, Any]

    def job(self, command: Command) -> Job:
        """What a compute command asks of this layer."""
        return Job(self.op, self.in_dims, self.out_dims, self.attrs, command.tile, command.part)


def read_layers(values: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[LayerRow, ...]:
    """Decode and check every layer row. Raises ValueError with the number of the layer."""
    rows = []
    for index, row in enumerate(_rows(values, offsets)):
        try:
            op, in_dims, out_dims, attrs = decode_layer(row)
            check_layer(op, in_dims, out_dims, attrs)
        except ValueError as error:
            raise ValueError(f"layer {index}: {error}") from None
        rows.append(LayerRow(op, in_dims, out_dims, attrs))
    return tuple(rows)


def read_commands(
    values: NDArray[np.int64], offsets: NDArray[np.int64], layers: Sequence[LayerRow], sizes: Mapping[str, int]
) -> tuple[Command, ...]:
    """Decode and check every command row. Raises ValueError with the number of the command."""
    commands = []
    for index, row in enumerate(_rows(values, offsets)):
        try:
            command = decode_command(row)
            check_command(command, layers, sizes)
        except ValueError as error:
            raise ValueError(f"command {index}: {error}") from None
        commands.append(command)
    return tuple(commands)


def check_command(command: Command, layers: Sequence[LayerRow], sizes: Mapping[str, int]) -> None:
    """Raises ValueError with the first reason why this command may not run."""
    if not 0 <= command.layer < len(layers):
        raise ValueError(f"layer {command.layer} does not exist; there are {len(layers)}")
    for view in command.reads + command.writes:
        check_view(view, sizes)
    if command.kind == "compute":
        _check_compute(command, layers[command.layer])
    else:
        _check_copy(command)


def check_view(view: View, sizes: Mapping[str, int]) -> None:
    """Inside its memory, and no element twice."""
    tile = view.tile
    if is_empty(tile):
        raise ValueError(f"a view has no element: {_box(tile)}")
    if min(tile.y, tile.x, tile.c) < 0:
        raise ValueError(f"a view begins before its tensor: {_box(tile)}")
    if _is_far(tile):
        raise ValueError(f"a view lies beyond any tensor: {_box(tile)}")
    if not (0 <= view.pixel_stride < MOST_BYTES and 0 <= view.row_stride < MOST_BYTES):
        raise ValueError(f"a view has strides that no memory has: {view.row_stride}, {view.pixel_stride}")
    if (tile.w > 1 and view.pixel_stride < tile.n) or (
        tile.h > 1 and view.row_stride < (tile.w - 1) * view.pixel_stride + tile.n
    ):
        raise ValueError(f"a view of {_box(tile)} overlaps itself: strides {view.row_stride}, {view.pixel_stride}")
    end = view.end
    if view.offset < 0 or end > sizes.get(view.memory, 0):
        raise ValueError(f"bytes {view.offset}..{end} leave {view.memory} of {sizes.get(view.memory, 0)} bytes")


def _is_far(tile: Tile) -> bool:
    """Whether a box begins or ends where no tensor is."""
    return max(tile.y, tile.x, tile.h, tile.w) >= MOST_PIXELS or max(tile.c, tile.n) >= MOST_BYTES


def _check_compute(command: Command, layer: LayerRow) -> None:
    tile = command.tile
    if is_empty(tile) or not contains(whole(layer.out_dims), tile):
        raise ValueError(f"{layer.op}: the box {_box(tile)} is not in the output {layer.out_dims}")
    reads = reads_of(layer.op, layer.attrs)
    if len(command.reads) != reads or len(command.writes) != 1:
        raise ValueError(f"{layer.op}: {len(command.reads)} reads and {len(command.writes)} writes, want {reads} and 1")
    parts = len(layer.attrs["parts"]) // 4 if layer.op == "concat" else 1
    if not 0 <= command.part < parts:
        raise ValueError(f"{layer.op}: part {command.part} does not exist; there are {parts}")
    size = out_bytes(layer.attrs)
    if tile.c % size or tile.n % size:
        raise ValueError(f"{layer.op}: the box {_box(tile)} cuts a number")
    if layer.op in MAC_OPS:
        _check_blocks(layer, tile)
    job = layer.job(command)
    box = written(job)
    if not contains(command.writes[0].tile, box):  # first: a box that fits a memory is one that can be looked at
        raise ValueError(f"{layer.op}: the view of the output {_box(command.writes[0].tile)} lacks {_box(box)}")
    if is_empty(box):  # this input of a concat has nothing in the box
        return
    if _cuts_number(command.writes[0], box, size) or command.writes[0].tile.c % size:
        raise ValueError(f"{layer.op}: the output begins inside a number")
    for index, view in enumerate(command.reads):
        want = needed(job, index)
        if not contains(view.tile, want):
            raise ValueError(f"{layer.op}: operand {index} needs {_box(want)}, the view has {_box(view.tile)}")
        size_in = number_bytes(layer.op, index, layer.attrs)
        if _cuts_number(view, want, size_in) or (index < tensor_reads(layer.op, layer.attrs) and view.tile.c % size_in):
            raise ValueError(f"{layer.op}: operand {index} begins inside a number")


def _cuts_number(view: View, box: Tile, size: int) -> bool:
    """Whether numbers of `size` bytes of a box do not all begin at multiples of `size`."""
    start = view.offset + box.c - view.tile.c
    strides = (view.row_stride if box.h > 1 else 0, view.pixel_stride if box.w > 1 else 0)
    return any(at % size for at in (start, *strides))


def _check_blocks(layer: LayerRow, tile: Tile) -> None:
    """A box of a MAC op begins with a block of 16 channels of its group, because the weights do."""
    channel, channels = (c // out_bytes(layer.attrs) for c in (tile.c, layer.out_dims[2]))
    share = channels if narrow(layer.op) == "depthwise" else channels // window_of(layer.attrs)["group"]
    if channel % share % LANES:
        raise ValueError(f"{layer.op}: channel {channel} is inside a block of {LANES} channels")


def _check_copy(command: Command) -> None:
    if len(command.reads) != 1 or len(command.writes) != 1:
        raise ValueError(f"{command.kind}: {len(command.reads)} reads and {len(command.writes)} writes, want 1 and 1")
    tile = command.tile  # moves nothing, but says to timing and to traces what is moved
    if is_empty(tile) or min(tile.y, tile.x, tile.c) < 0 or _is_far(tile):
        raise ValueError(f"{command.kind}: {_box(tile)} is no box of a tensor")
    source, target = command.reads[0].tile, command.writes[0].tile
    if (source.h, source.w, source.n) != (target.h, target.w, target.n):
        raise ValueError(f"{command.kind}: {_box(source)} does not fit {_box(target)}")


def _rows(values: NDArray[np.int64], offsets: NDArray[np.int64]) -> list[list[int]]:
    bounds = [int(at) for at in offsets]
    if not bounds or bounds[0] != 0 or bounds[-1] != len(values) or bounds != sorted(bounds):
        raise ValueError(f"offsets do not cut {len(values)} values into rows")
    return [[int(v) for v in values[start:end]] for start, end in pairwise(bounds)]


def _box(tile: Tile) -> str:
    return f"[{tile.y}:{tile.y + tile.h}, {tile.x}:{tile.x + tile.w}, {tile.c}:{tile.c + tile.n}]"  # as NumPy writes it
