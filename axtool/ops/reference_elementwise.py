"""add, mul, requantize, lut, concat: one number of each operand -> one number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import requantize as requantized
from axtool.ops.arithmetic import residual_sum, residual_term
from axtool.ops.boxes import Box, Dims, Job, intersect
from axtool.types import Tile


def add(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """a + b (a - b with sub 1): operands in output steps with 16 fraction bits, then one rounding."""
    return sums(job, reads).astype(np.int8)


def mul(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """(a - zp_a) * (b - zp_b), requantized by s_a * s_b / s_out."""
    return products(job, reads).astype(np.int8)


def requantize(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """(q - zp) in other steps."""
    return in_other_steps(job, reads).astype(np.int8)


def sums(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """The numbers of an `add`."""
    a = job.attrs
    left = residual_term(reads[0].cut(operand_box(job.tile, a["a"])), a["zp_a"], a["m_a"], a["f_a"])
    right = residual_term(reads[1].cut(operand_box(job.tile, a["b"])), a["zp_b"], a["m_b"], a["f_b"])
    total = left - right if a["sub"] else left + right
    return _spread(job, residual_sum(total, a["out_zp"], a["lo"], a["hi"]))


def products(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """The numbers of a `mul`."""
    a = job.attrs
    left = reads[0].cut(operand_box(job.tile, a["a"])).astype(np.int64) - a["zp_a"]
    right = reads[1].cut(operand_box(job.tile, a["b"])).astype(np.int64) - a["zp_b"]
    return _spread(job, requantized(left * right, a["m"], a["f"], a["out_zp"], a["lo"], a["hi"]))


def in_other_steps(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """The numbers of a `requantize`."""
    a = job.attrs
    x = reads[0].cut(job.tile).astype(np.int64) - a["zp"]
    return requantized(x, a["m"], a["f"], a["out_zp"], a["lo"], a["hi"])


def lut(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """table[q + 128], or table[channel, q + 128]."""
    index = reads[0].cut(job.tile).astype(np.int64) + 128
    if not job.attrs["per_channel"]:
        return np.asarray(reads[1].flat(0, 256, np.int8)[index], np.int8)
    tables = reads[1].flat(job.tile.c * 256, job.tile.n * 256, np.int8).reshape(job.tile.n, 256)
    return np.asarray(tables[np.arange(job.tile.n), index], np.int8)


def concat(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The numbers of one input that fall into the box, in the output's steps. Only those: see `part_box`."""
    offset, zp, m, f = job.attrs["parts"][4 * job.part : 4 * job.part + 4]
    box = part_box(job)
    x = reads[0].cut(_shifted(box, job.attrs["axis"], -offset))
    if m == 0:
        return x
    return requantized(x.astype(np.int64) - zp, m, f, job.attrs["out_zp"], -128, 127).astype(np.int8)


def part_box(job: Job) -> Tile:
    """The part of the output box that the input `job.part` of a concat fills, in output coordinates."""
    axis, offsets = job.attrs["axis"], job.attrs["parts"][::4]
    end = offsets[job.part + 1] if job.part + 1 < len(offsets) else job.out_dims[axis]
    size = [*job.out_dims]
    size[axis] = end - offsets[job.part]
    return intersect(job.tile, _shifted(Tile(0, 0, 0, *size), axis, offsets[job.part]))


def part_input_box(job: Job) -> Tile:
    """The same box in the coordinates of that input."""
    return _shifted(part_box(job), job.attrs["axis"], -job.attrs["parts"][4 * job.part])


def operand_box(tile: Tile, dims: Dims) -> Tile:
    """What an operand of (h, w, c) gives to an output box: its single row, column or channel where it has one."""
    starts = [0 if size == 1 else at for size, at in zip(dims, (tile.y, tile.x, tile.c), strict=True)]
    sizes = [1 if size == 1 else count for size, count in zip(dims, (tile.h, tile.w, tile.n), strict=True)]
    return Tile(*starts, *sizes)


def _spread(job: Job, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """A result whose operands both have one row, say, where the output has one as well: nothing is left to repeat."""
    return np.ascontiguousarray(np.broadcast_to(values, (job.tile.h, job.tile.w, job.tile.n)))


def _shifted(tile: Tile, axis: int, by: int) -> Tile:
    start = [tile.y, tile.x, tile.c]
    start[axis] += by
    y, x, c = start
    return Tile(y, x, c, tile.h, tile.w, tile.n)
