"""conv, depthwise, conv_transpose: an int8 box and packed weights -> the int8 output box.

The sums are matrix products in floats that hold them exactly: |x * w| <= 2^14, so float32 holds the sum of 2^10
products in any order, float64 of 2^39 (of 2^31 with x of 16 bits). They are then wrapped to int32 as the device's
accumulator would. Pixels outside the tensor, and the gaps between the pixels of a conv_transpose, read as x_zp; the
folded bias cancels them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import interpolate, requantize
from axtool.ops.boxes import Box, Job
from axtool.ops.packing import (
    LANES,
    PARAM_BYTES,
    PARAM_ROWS,
    blocks,
    conv_block_bytes,
    depthwise_block_bytes,
    unpack_conv_blocks,
)
from axtool.ops.windows import patch_of, windows
from axtool.types import Tile

COLUMN_BYTES = 32 << 20  # of the matrix of patches made at a time
FLOAT32_PRODUCTS = 1 << 10

Floats = NDArray[np.floating[Any]]


def conv(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """acc[y, x, o] = bias[o] + sum over ky, kx, i of x[y*s - pad + ky*d, ..., i] * w[o, i, ky, kx], in each group."""
    return _finish(job, *conv_sums(job, reads), reads)


def depthwise(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """Channel o reads input channel o // multiplier only."""
    return _finish(job, *depthwise_sums(job, reads), reads)


def conv_sums(job: Job, reads: Sequence[Box]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The exact sums of products of the output box, (h, w, n), and params (4, n) of its channels."""
    sums = np.empty((job.tile.h, job.tile.w, job.tile.n), np.int64)
    params = np.empty((PARAM_ROWS, job.tile.n), np.int64)
    for group, first, count in groups_of(job):
        at = _channel(job, group, first) - job.tile.c
        w, params[:, at : at + count] = _weights(job, reads, group, first, count)
        cing = w.shape[1]
        x = patch_of(job, reads[0], group * cing, cing, job.attrs["x_zp"]).astype(w.dtype)
        sums[:, :, at : at + count] = _correlate(job, x, w)
    return sums, params


def depthwise_sums(job: Job, reads: Sequence[Box]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As `conv_sums`, of a depthwise op."""
    tile, (kh, kw) = job.tile, job.attrs["kernel"]
    multiplier = job.out_dims[2] // job.in_dims[2]
    first, count = tile.c // LANES, blocks(tile.c + tile.n) - tile.c // LANES
    size = depthwise_block_bytes((kh, kw))
    w = reads[1].flat(first * size, count * size, np.int8).reshape(count, kh * kw, LANES)
    w = w.transpose(1, 0, 2).reshape(kh * kw, -1)[:, tile.c % LANES :][:, : tile.n]
    channels = np.arange(tile.c, tile.c + tile.n) // multiplier
    x = patch_of(job, reads[0], int(channels[0]), int(channels[-1] - channels[0]) + 1, job.attrs["x_zp"])
    x = x.astype(np.int32)
    x = x[:, :, channels - channels[0]] if multiplier > 1 else x
    sums = np.zeros((tile.h, tile.w, tile.n), np.int64)
    for tap, window in enumerate(windows(job, x)):
        sums += window * w[tap].astype(np.int32)
    return sums, _params(reads[2], first, count, tile.c % LANES, tile.n)


def conv_transpose(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """x[iy, ix] * w[ky, kx] is added at out[iy*s - pad + ky*d, ix*s - pad + kx*d], taps not flipped."""
    tile, a = job.tile, job.attrs
    out = np.empty((tile.h, tile.w, tile.n), np.int8)
    for group, first, count in groups_of(job):
        w, params = _weights(job, reads, group, first, count)
        cing = w.shape[1]
        w = w.astype(np.float64)  # x - x_zp has 9 bits
        acc = np.zeros((tile.h, tile.w, count), np.int64)
        acc += a["x_zp"] * w.sum(axis=(0, 1)).astype(np.int64)  # the gaps
        for ky in range(a["kernel"][0]):
            oy, iy = _landing(tile.y, tile.h, a["pad"][0] - ky * a["dilation"][0], a["stride"][0], job.in_dims[0])
            for kx in range(a["kernel"][1]):
                ox, ix = _landing(tile.x, tile.w, a["pad"][1] - kx * a["dilation"][1], a["stride"][1], job.in_dims[1])
                if not oy.size or not ox.size:
                    continue
                box = Tile(int(iy[0]), int(ix[0]), group * cing, iy.size, ix.size, cing)
                x = reads[0].cut(box).astype(np.float64) - a["x_zp"]
                product = x.reshape(-1, cing) @ w[ky * a["kernel"][1] + kx]
                acc[np.ix_(oy, ox)] += product.reshape(iy.size, ix.size, count).astype(np.int64)
        at = _channel(job, group, first) - tile.c
        out[:, :, at : at + count] = _finish(job, acc, params, reads)
    return out


def groups_of(job: Job) -> Iterator[tuple[int, int, int]]:
    """(group, first channel inside it, channels) of the output channels of a box."""
    coutg = job.out_dims[2] // job.attrs["group"]
    at, end = job.tile.c, job.tile.c + job.tile.n
    while at < end:
        count = min(end, (at // coutg + 1) * coutg) - at
        yield at // coutg, at % coutg, count
        at += count


def _channel(job: Job, group: int, first: int) -> int:
    return int(group * (job.out_dims[2] // job.attrs["group"]) + first)


def _weights(job: Job, reads: Sequence[Box], group: int, first: int, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Weights (kh*kw, cing, count), in floats that hold every sum, and params (4, count) of channels of a group."""
    a = job.attrs
    cing, coutg = job.in_dims[2] // a["group"], job.out_dims[2] // a["group"]
    size = conv_block_bytes(a["kernel"], cing)
    block, skip = group * blocks(coutg) + first // LANES, first % LANES
    number = blocks(skip + count)
    flat = reads[1].flat(block * size, number * size, np.int8)
    w = unpack_conv_blocks(flat, a["kernel"], cing)[:, :, skip : skip + count]
    few = w.shape[0] * cing <= FLOAT32_PRODUCTS and reads[0].values.dtype == np.int8
    exact = np.float32 if few else np.float64
    return np.asarray(w, exact), _params(reads[2], block, number, skip, count)


def _params(params: Box, block: int, number: int, skip: int, count: int) -> NDArray[np.int64]:
    """(4, count): bias, mantissa, f, wsum."""
    rows = params.flat(block * PARAM_BYTES, number * PARAM_BYTES, np.int32).reshape(number, PARAM_ROWS, LANES)
    return rows.transpose(1, 0, 2).reshape(PARAM_ROWS, -1)[:, skip : skip + count].astype(np.int64)


def _correlate(job: Job, patch: Floats, w: Floats) -> NDArray[np.int64]:
    """One matrix product for some rows at a time: (h, w, count)."""
    height, width = job.tile.h, job.tile.w
    matrix = w.reshape(-1, w.shape[2])
    acc = np.empty((height, width, w.shape[2]), np.int64)
    step = max(1, COLUMN_BYTES // (w.itemsize * width * matrix.shape[0]))
    for first in range(0, height, step):
        rows = min(step, height - first)
        columns = np.concatenate(list(windows(job, patch, first, rows)), axis=2)
        acc[first : first + rows] = (columns.reshape(-1, matrix.shape[0]) @ matrix).reshape(rows, width, -1)
    return acc


def _landing(start: int, count: int, pad: int, stride: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Output positions of a box (from its start) that a tap reaches, and the input positions it reads there."""
    positions = np.arange(start, start + count) + pad
    source = positions // stride
    hit = (positions % stride == 0) & (source >= 0) & (source < size)
    return np.flatnonzero(hit), source[hit]


def _finish(job: Job, acc: NDArray[np.int64], params: NDArray[np.int64], reads: Sequence[Box]) -> NDArray[np.int8]:
    """Bias, wrap to int32, then the scale of each channel; with act 1 the activation on 16 bits."""
    a = job.attrs
    bias, m, f = params[:3]
    wrapped = (acc + bias).astype(np.int32)
    if a["act"] == 0:
        return requantize(wrapped, m, f, a["out_zp"], a["lo"], a["hi"]).astype(np.int8)
    v = requantize(wrapped, m, f, 0, -(2**15), 2**15 - 1)
    table = reads[3].flat(0, 1025 * 2, np.int16)
    return interpolate(table, v, a["lo"], a["hi"]).astype(np.int8)
