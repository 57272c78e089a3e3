"""Which box of each operand an output box needs: what a tile must stage, and what an engine checks before it runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Job, flat_tile, intersect, whole
from axtool.ops.packing import LANES, PARAM_BYTES, blocks, conv_block_bytes, depthwise_block_bytes
from axtool.ops.reference_elementwise import operand_box, part_box, part_input_box
from axtool.ops.reference_pool import taps
from axtool.types import Tile

TABLE_BYTES = 1025 * 2


def needed(job: Job, read: int) -> Tile:
    """The smallest box of operand `read` that holds everything the output box needs, inside the tensor.

    Extents are 0 when the box looks at padding alone. Flat data counts bytes along c. Which cells of the constants of
    an avg_pool are read depends on its numbers: one row is asked for.
    """
    tile = job.tile
    match job.op:
        case "conv" | "depthwise" | "conv_transpose":
            return _of_mac(job, read)
        case "add" | "mul":
            return operand_box(tile, job.attrs["ab"[read]])
        case "concat":
            return part_input_box(job)
        case "lut":
            return tile if read == 0 else _lut_table(job)
        case "max_pool":
            return _window_box(job, tile.c, tile.n)
        case "avg_pool":
            return _window_box(job, tile.c, tile.n) if read == 0 else flat_tile(0, 12)
        case "resize_nearest" | "resize_linear":
            return _resize_box(job)
        case "requantize":
            return tile
        case _:
            return _movement_box(job)


def written(job: Job) -> Tile:
    """The output box that the job fills: its tile, or what one input of a concat fills of it."""
    return part_box(job) if job.op == "concat" else job.tile


def reads_of(op: str, act: int = 0) -> int:
    """How many operands a command of this op reads."""
    return {"conv": 3, "depthwise": 3, "conv_transpose": 3, "add": 2, "mul": 2, "avg_pool": 2, "lut": 2}.get(op, 1) + (
        1 if act else 0
    )


def number_bytes(op: str, read: int) -> int:
    """Bytes of a number of an operand: int32 params and counts, int16 interpolation tables, else int8."""
    if op == "avg_pool" and read == 1:
        return 4
    return {2: 4, 3: 2}.get(read, 1)


def span(source: NDArray[np.int64]) -> tuple[int, int]:
    """(smallest, extent) of some positions."""
    if not source.size:
        return 0, 0
    low = int(source.min())
    return low, int(source.max()) - low + 1


# ---- windows -----------------------------------------------------------------------------------------------------


def _of_mac(job: Job, read: int) -> Tile:
    """x, weights, params, table of a MAC op."""
    a, tile = job.attrs, job.tile
    if read == 3:
        return flat_tile(0, TABLE_BYTES)
    if job.op == "depthwise":
        first, end = tile.c // LANES, blocks(tile.c + tile.n)
        multiplier = job.out_dims[2] // job.in_dims[2]
        channel, last = tile.c // multiplier, (tile.c + tile.n - 1) // multiplier
        channels, size = last - channel + 1, depthwise_block_bytes(a["kernel"])
    else:
        cing, coutg = job.in_dims[2] // a["group"], job.out_dims[2] // a["group"]
        last = tile.c + tile.n - 1
        first = tile.c // coutg * blocks(coutg) + tile.c % coutg // LANES
        end = last // coutg * blocks(coutg) + last % coutg // LANES + 1
        channel, channels = tile.c // coutg * cing, (last // coutg - tile.c // coutg + 1) * cing
        size = conv_block_bytes(a["kernel"], cing)
    if read == 0:
        return (
            _landing_box(job, channel, channels) if job.op == "conv_transpose" else _window_box(job, channel, channels)
        )
    size = size if read == 1 else PARAM_BYTES
    return flat_tile(first * size, (end - first) * size)


def _window_box(job: Job, channel: int, channels: int) -> Tile:
    """Pixels of the windows of an output box, inside the tensor."""
    a, tile = job.attrs, job.tile
    (kh, kw), (sh, sw), (dh, dw) = a["kernel"], a["stride"], a["dilation"]
    height, width = (tile.h - 1) * sh + (kh - 1) * dh + 1, (tile.w - 1) * sw + (kw - 1) * dw + 1
    seen = Tile(tile.y * sh - a["pad"][0], tile.x * sw - a["pad"][1], channel, height, width, channels)
    return intersect(seen, whole(job.in_dims))


def _landing_box(job: Job, channel: int, channels: int) -> Tile:
    """Pixels iy with out[iy * s - pad + k * d] in the box, for some tap k."""
    a, tile = job.attrs, job.tile
    (y, h), (x, w) = (
        _landing(at, count, a["kernel"][axis], a["stride"][axis], a["dilation"][axis], a["pad"][axis])
        for axis, (at, count) in enumerate(((tile.y, tile.h), (tile.x, tile.w)))
    )
    return intersect(Tile(y, x, channel, h, w, channels), whole(job.in_dims))


def _landing(at: int, count: int, kernel: int, stride: int, dilation: int, pad: int) -> tuple[int, int]:
    first = -(-(at + pad - (kernel - 1) * dilation) // stride)
    last = (at + count - 1 + pad) // stride
    return first, max(last - first + 1, 0)


def _resize_box(job: Job) -> Tile:
    tile, (fy, fx) = job.tile, job.attrs["factor"]
    if job.op == "resize_nearest":
        y, x = tile.y // fy, tile.x // fx
        return Tile(y, x, tile.c, (tile.y + tile.h - 1) // fy - y + 1, (tile.x + tile.w - 1) // fx - x + 1, tile.n)
    mode = job.attrs["mode"]
    y0, y1, _ = taps(tile.y, tile.h, fy, mode, job.in_dims[0])
    x0, x1, _ = taps(tile.x, tile.w, fx, mode, job.in_dims[1])
    return Tile(int(y0[0]), int(x0[0]), tile.c, int(y1[-1] - y0[0]) + 1, int(x1[-1] - x0[0]) + 1, tile.n)


def _lut_table(job: Job) -> Tile:
    return flat_tile(job.tile.c * 256, job.tile.n * 256) if job.attrs["per_channel"] else flat_tile(0, 256)


# ---- movement ----------------------------------------------------------------------------------------------------


def slice_sources(job: Job) -> list[NDArray[np.int64]]:
    """Input positions of the box on each axis."""
    return [
        start + at * step
        for start, step, at in zip(job.attrs["start"], job.attrs["step"], _positions(job.tile), strict=True)
    ]


def pad_sources(job: Job) -> list[NDArray[np.int64]]:
    """Input positions of the box on each axis; -1 where the pad value stands."""
    out = []
    for before, at, size in zip(job.attrs["before"], _positions(job.tile), job.in_dims, strict=True):
        source = at - before
        if job.attrs["mode"] == 0:
            source = np.where((source >= 0) & (source < size), source, -1)
        elif job.attrs["mode"] == 1:
            period = max(2 * (size - 1), 1)
            source = source % period
            source = np.where(source < size, source, period - source)
        else:
            source = np.clip(source, 0, size - 1)
        out.append(source)
    return out


def permuted(job: Job) -> Tile:
    """The input box of a transpose."""
    at, size = [0, 0, 0], [0, 0, 0]
    tile = job.tile
    for axis, start, count in zip(job.attrs["perm"], (tile.y, tile.x, tile.c), (tile.h, tile.w, tile.n), strict=True):
        at[axis], size[axis] = start, count
    return Tile(*at, *size)


def reshape_runs(job: Job) -> NDArray[np.int64]:
    """(h, w): the number, in (h, w, c) order, of the first element of each pixel of the box."""
    _, width, channels = job.out_dims
    y, x, _ = _positions(job.tile)
    return (y[:, None] * width + x) * channels + job.tile.c


def depth_channels(job: Job) -> NDArray[np.int64]:
    """(h, w, n): the input channel of each element of a depth_to_space box."""
    y, x, c = np.ix_(*_positions(job.tile))
    block = job.attrs["block"]
    phase = y % block * block + x % block
    deep: NDArray[np.int64] = phase * job.out_dims[2] + c if job.attrs["mode"] == 0 else c * block * block + phase
    return deep


def space_sources(job: Job) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Input rows, columns and channels of a space_to_depth box, to be broadcast."""
    y, x, c = np.ix_(*_positions(job.tile))
    block, channels = job.attrs["block"], job.in_dims[2]
    phase = c // channels
    return y * block + phase // block, x * block + phase % block, c % channels


def _movement_box(job: Job) -> Tile:
    match job.op:
        case "slice":
            return _box_of(slice_sources(job))
        case "pad":
            return _box_of([source[source >= 0] for source in pad_sources(job)])
        case "transpose":
            return permuted(job)
        case "reshape":
            return _reshape_box(job)
        case "depth_to_space":
            y, x, _ = _positions(job.tile)
            return _box_of([y // job.attrs["block"], x // job.attrs["block"], depth_channels(job)])
        case "space_to_depth":
            return _box_of(space_sources(job))
    raise ValueError(f"{job.op} is not a device op")


def _reshape_box(job: Job) -> Tile:
    """The box around runs of consecutive elements: a run that leaves its row may touch every column, and so on."""
    _, width, channels = job.in_dims
    first = reshape_runs(job)
    last = first + job.tile.n - 1
    y, h = span(np.concatenate([first, last]) // (width * channels))
    one_row = bool((first // (width * channels) == last // (width * channels)).all())
    x, w = span(np.concatenate([first, last]) // channels % width) if one_row else (0, width)
    one_pixel = bool((first // channels == last // channels).all())
    c, n = span(np.concatenate([first, last]) % channels) if one_pixel else (0, channels)
    return Tile(y, x, c, h, w, n)


def _positions(tile: Tile) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    return (
        np.arange(tile.y, tile.y + tile.h, dtype=np.int64),
        np.arange(tile.x, tile.x + tile.w, dtype=np.int64),
        np.arange(tile.c, tile.c + tile.n, dtype=np.int64),
    )


def _box_of(sources: Sequence[NDArray[np.int64]]) -> Tile:
    (y, h), (x, w), (c, n) = (span(source) for source in sources)
    return Tile(y, x, c, h, w, n)
