"""Which box of each operand an output box needs: what a tile must stage, and what an engine checks before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Job, flat_tile, intersect, whole
from axtool.ops.elements import grown, in_bytes, in_numbers, is_sized, narrow
from axtool.ops.encoding import ATTENTIONS
from axtool.ops.packing import LANES, PARAM_BYTES, blocks, conv_block_bytes, depthwise_block_bytes
from axtool.ops.packing_fp16 import bias_block_bytes, linear_block_bytes
from axtool.ops.reference_arg_max import arg_max_box
from axtool.ops.reference_custom import needed as custom_needs
from axtool.ops.reference_elementwise import operand_box, part_box, part_input_box
from axtool.ops.reference_movement import permuted, reflected
from axtool.ops.reference_rows import EXP_ENTRIES, PAIR_BYTES
from axtool.ops.tables import FX_POINTS
from axtool.types import Tile

TABLE_BYTES = 1025 * 2
WIDE_TABLE_BYTES = {1: 256 * 2, 2: 1025 * 4}  # of a wide_lut, by the bytes of its operand

EXP_TABLE_BYTES = EXP_ENTRIES * 2

Line = tuple[int, int]  # (first, count) along an axis


def needed(job: Job, read: int) -> Tile:
    """The smallest box of operand `read` that holds everything the output box needs, inside the tensor.

    Extents are 0 when the box looks at padding alone. Flat data counts bytes along c. Which cells of the constants of
    an avg_pool are read depends on its numbers: one row is asked for.
    """
    if not is_sized(job.attrs):
        return _needed(job, read)
    if job.op == "wide_lut" and read == 1:
        return flat_tile(0, WIDE_TABLE_BYTES[in_bytes(job.attrs)])
    box = _needed(in_numbers(job), read)
    return grown(box, in_bytes(job.attrs, read)) if read < tensor_reads(job.op, job.attrs) else box


def _needed(job: Job, read: int) -> Tile:
    """The box of an operand, of a job that is counted in numbers."""
    tile = job.tile
    match job.op:
        case "conv" | "depthwise" | "conv_transpose":
            return _of_mac(job, read)
        case "fp16_linear":
            return _of_linear(job, read)
        case "add" | "mul" | "fx_add" | "fx_mul":
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
        case "fx_lut":
            return tile if read == 0 else flat_tile(0, FX_POINTS * 4)
        case "requantize" | "fx_requantize" | "fx_quantize" | "fx_dequantize" | "fx_from_fp16" | "fp16_from_fx":
            return tile
        case "matmul" | "fp16_matmul":
            return _of_matmul(job, read)
        case "attention" | "fp16_attention":
            return _of_attention(job, read)
        case "softmax" | "layer_norm" | "fx_softmax" | "fx_layer_norm":
            return _row_box(job, read)
        case "arg_max":
            return arg_max_box(job)
        case "custom":
            return custom_needs(job, read)
        case _:
            return _movement_box(job)


def written(job: Job) -> Tile:
    """The output box that the job fills: its tile, or what one input of a concat fills of it."""
    return part_box(job) if job.op == "concat" else job.tile


def reads_of(op: str, attrs: Mapping[str, Any] = MappingProxyType({})) -> int:
    """How many operands a command of this op reads."""
    flat = {"conv": 2, "depthwise": 2, "conv_transpose": 2, "avg_pool": 1, "lut": 1, "attention": 1}
    flat |= {"softmax": 1, "layer_norm": 1, "fx_layer_norm": 1, "fx_lut": 1, "fp16_linear": 2, "custom": 1}
    return tensor_reads(op, attrs) + flat.get(narrow(op), 0) + (1 if attrs.get("act") else 0)


def tensor_reads(op: str, attrs: Mapping[str, Any] = MappingProxyType({})) -> int:
    """How many operands, from the first, are tensors read in boxes; of a concat's command one."""
    if op in ATTENTIONS:
        return 4 if attrs.get("mask") else 3
    if op == "custom":
        return len(attrs["boxes"]) // 3
    return 2 if narrow(op) in ("add", "mul", "matmul", "fx_add", "fx_mul", "fp16_matmul") else 1


def number_bytes(op: str, read: int, attrs: Mapping[str, Any] = MappingProxyType({})) -> int:
    """Bytes of a number of an operand: int32 params and counts, tables of int16 or int32, else those of the tensor."""
    if read < tensor_reads(op, attrs):
        return in_bytes(attrs, read)
    if op in ("attention", "softmax"):
        return 2
    if op == "custom":
        return 1
    if op == "wide_lut":
        return 2 * in_bytes(attrs)
    if narrow(op) in ("avg_pool", "layer_norm", "fx_layer_norm", "fx_lut"):
        return 4
    if op == "fp16_linear":
        return 2 if read == 1 else 4
    return {2: 4, 3: 2}.get(read, 1)


def span(source: NDArray[np.int64]) -> Line:
    """(smallest, extent) of some positions."""
    if not source.size:
        return 0, 0
    low = int(source.min())
    return low, int(source.max()) - low + 1


# ---- products of two activations ---------------------------------------------------------------------------------


def _of_matmul(job: Job, read: int) -> Tile:
    """The rows of a, all of their depth; the columns of b, of the rows' own matrix where each has one."""
    tile, depth = job.tile, job.in_dims[2]
    if read == 0:
        return Tile(tile.y, tile.x, 0, tile.h, tile.w, depth)
    y, h = (tile.y, tile.h) if job.attrs["b"][0] > 1 else (0, 1)
    return Tile(y, tile.c, 0, h, tile.n, depth) if job.attrs["trans_b"] else Tile(y, 0, tile.c, h, depth, tile.n)


def _of_attention(job: Job, read: int) -> Tile:
    """The queries of the box, every key and value, of the heads that the box's channels belong to."""
    tile, a = job.tile, job.attrs
    table = tensor_reads(job.op, a)
    if read == table:
        return flat_tile(0, EXP_TABLE_BYTES)
    if read == 3:
        return Tile(0, tile.x if a["mask"] == 2 else 0, 0, 1, tile.w if a["mask"] == 2 else 1, a["keys"])
    given, made = job.in_dims[2] // a["heads"], job.out_dims[2] // a["heads"]
    first, end = tile.c // made, -(-(tile.c + tile.n) // made)
    size = made if read == 2 else given
    y, h = (tile.x, tile.w) if read == 0 else (0, a["keys"])
    return Tile(0, y, first * size, 1, h, (end - first) * size)


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


def _of_linear(job: Job, read: int) -> Tile:
    """x, weights, biases of an fp16_linear: every input of the pixels, whole blocks of the channels."""
    tile, k = job.tile, job.in_dims[2]
    if read == 0:
        return Tile(tile.y, tile.x, 0, tile.h, tile.w, k)
    first = tile.c // LANES
    size = linear_block_bytes(k) if read == 1 else bias_block_bytes(job.attrs["bias_rows"])
    return flat_tile(first * size, (blocks(tile.c + tile.n) - first) * size)


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


def _landing(at: int, count: int, kernel: int, stride: int, dilation: int, pad: int) -> Line:
    first = -(-(at + pad - (kernel - 1) * dilation) // stride)
    last = (at + count - 1 + pad) // stride
    return first, max(last - first + 1, 0)


def _resize_box(job: Job) -> Tile:
    """Between the sources of the first and the last pixel: they never go back."""
    tile, (fy, fx) = job.tile, job.attrs["factor"]
    if job.op == "resize_nearest":
        y, x = tile.y // fy, tile.x // fx
        return Tile(y, x, tile.c, (tile.y + tile.h - 1) // fy - y + 1, (tile.x + tile.w - 1) // fx - x + 1, tile.n)
    (y, h), (x, w) = (
        _linear(at, count, factor, job.attrs["mode"], size)
        for at, count, factor, size in ((tile.y, tile.h, fy, job.in_dims[0]), (tile.x, tile.w, fx, job.in_dims[1]))
    )
    return Tile(y, x, tile.c, h, w, tile.n)


def _linear(at: int, count: int, factor: int, mode: int, size: int) -> Line:
    first, last = ((2 * y + 1 - factor if mode == 0 else 2 * y) // (2 * factor) for y in (at, at + count - 1))
    low = min(max(first, 0), size - 1)
    return low, min(max(last + 1, 0), size - 1) - low + 1


def _lut_table(job: Job) -> Tile:
    return flat_tile(job.tile.c * 256, job.tile.n * 256) if job.attrs["per_channel"] else flat_tile(0, 256)


def _row_box(job: Job, read: int) -> Tile:
    """All channels of the pixels; the table, or the factors and offsets of the output's channels."""
    tile = job.tile
    if read == 0:
        return Tile(tile.y, tile.x, 0, tile.h, tile.w, job.in_dims[2])
    return flat_tile(0, EXP_TABLE_BYTES) if job.op == "softmax" else flat_tile(tile.c * PAIR_BYTES, tile.n * PAIR_BYTES)


# ---- movement ----------------------------------------------------------------------------------------------------


def _movement_box(job: Job) -> Tile:
    match job.op:
        case "slice":
            return _axes(job, _slice_line, job.attrs["start"], job.attrs["step"])
        case "pad":
            mode = (job.attrs["mode"],) * 3
            return _axes(job, _pad_line, job.attrs["before"], job.in_dims, mode)
        case "transpose":
            return permuted(job)
        case "reshape":
            return _reshape_box(job)
        case "depth_to_space":
            return _depth_box(job)
        case "space_to_depth":
            return _space_box(job)
    raise ValueError(f"{job.op} is not a device op")


def _axes(job: Job, line: Callable[..., Line], *fields: Sequence[int]) -> Tile:
    """A box from what each axis gives by itself; empty where one of them is."""
    tile = job.tile
    ranges = ((tile.y, tile.h), (tile.x, tile.w), (tile.c, tile.n))
    (y, h), (x, w), (c, n) = (line(at, count, *rest) for (at, count), *rest in zip(ranges, *fields, strict=True))
    return Tile(y, x, c, h, w, n)


def _slice_line(at: int, count: int, start: int, step: int) -> Line:
    ends = start + at * step, start + (at + count - 1) * step
    return min(ends), abs(ends[1] - ends[0]) + 1


def _pad_line(at: int, count: int, before: int, size: int, mode: int) -> Line:
    first, end = at - before, at - before + count
    if mode == 0:
        low, high = max(first, 0), min(end, size)
        return (low, high - low) if low < high else (0, 0)
    if mode == 2:
        low = min(max(first, 0), size - 1)
        return low, min(max(end - 1, 0), size - 1) - low + 1
    return span(reflected(np.arange(first, end), size))


def _reshape_box(job: Job) -> Tile:
    """The box around runs of consecutive elements: a run that leaves its row may touch every column, and so on."""
    _, width, channels = job.in_dims
    first, length = _runs(job)
    last = first + length - 1
    y, h = span(np.concatenate([first, last]) // (width * channels))
    one_row = bool((first // (width * channels) == last // (width * channels)).all())
    x, w = span(np.concatenate([first, last]) // channels % width) if one_row else (0, width)
    one_pixel = bool((first // channels == last // channels).all())
    c, n = span(np.concatenate([first, last]) % channels) if one_pixel else (0, channels)
    return Tile(y, x, c, h, w, n)


def _runs(job: Job) -> tuple[NDArray[np.int64], int]:
    """First elements and length of the runs of a box: one, or one a row, or one a pixel."""
    tile, (_, width, channels) = job.tile, job.out_dims
    rows, columns, length = tile.h, tile.w, tile.n
    if tile.n == channels:
        columns, length = 1, tile.w * channels
        if tile.w == width:
            rows, length = 1, tile.h * width * channels
    y = np.arange(tile.y, tile.y + rows, dtype=np.int64)[:, None]
    x = np.arange(tile.x, tile.x + columns, dtype=np.int64)
    return ((y * width + x) * channels + tile.c).reshape(-1), length


def _depth_box(job: Job) -> Tile:
    """Phases y % b * b + x % b of the box, and the channels that they and its own channels make."""
    tile, block, channels = job.tile, job.attrs["block"], job.out_dims[2]
    (row, rows), (column, columns) = _phases(tile.y, tile.h, block), _phases(tile.x, tile.w, block)
    first, last = row * block + column, (row + rows - 1) * block + column + columns - 1
    end = tile.c + tile.n - 1
    if job.attrs["mode"] == 0:
        low, high = first * channels + tile.c, last * channels + end
    else:
        low, high = tile.c * block * block + first, end * block * block + last
    y, x = tile.y // block, tile.x // block
    h, w = (tile.y + tile.h - 1) // block - y + 1, (tile.x + tile.w - 1) // block - x + 1
    return Tile(y, x, low, h, w, high - low + 1)


def _space_box(job: Job) -> Tile:
    """Channel k holds phase k // C, that is row phase // b and column phase % b of a block, of channel k % C."""
    tile, block, channels = job.tile, job.attrs["block"], job.in_dims[2]
    end = tile.c + tile.n - 1
    first, last = tile.c // channels, end // channels
    c, n = (tile.c % channels, tile.n) if first == last else (0, channels)
    top, bottom = first // block, last // block
    left, right = (first % block, last % block) if top == bottom else (0, block - 1)
    h, w = (tile.h - 1) * block + bottom - top + 1, (tile.w - 1) * block + right - left + 1
    return Tile(tile.y * block + top, tile.x * block + left, c, h, w, n)


def _phases(at: int, count: int, block: int) -> Line:
    """(smallest, extent) of position % block."""
    return (at % block, count) if at % block + count <= block else (0, block)
