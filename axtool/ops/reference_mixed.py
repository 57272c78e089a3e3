"""The `fx_` and `fp16_` ops: fx32, an int32 n that stands for n / 2^f, fp16, and the ways between them and int8.

Integers are exact: sums and products have 64 bits, a shift to the right is floored unless it says otherwise, and what
does not fit saturates. fp16 rounds half to even; float32 sums add one product after the other, in ascending order.
Boxes come and go as bytes, little endian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS
from axtool.ops.boxes import Box, Job
from axtool.ops.elements import REALS, in_bytes, in_numbers, numbers, out_bytes
from axtool.ops.fixed_point import from_fx, to_fx
from axtool.ops.packing import LANES, blocks
from axtool.ops.packing_fp16 import bias_block_bytes, linear_block_bytes, unpack_blocks
from axtool.ops.reference_elementwise import operand_box
from axtool.ops.tables import FX_INTERVAL_BITS, FX_POINTS

Int64 = NDArray[np.int64]
Made = NDArray[Any]  # int64, or fp16


def add(job: Job, reads: Sequence[Box]) -> Int64:
    """(a >> shift_a) + (b >> shift_b), a - b with sub 1, between lo and hi. A shift below 0 is one to the left."""
    a, b = _operands(job, reads)
    left, right = shifted(a, job.attrs["shift_a"]), shifted(b, job.attrs["shift_b"])
    return _spread(job, _clamp(left - right if job.attrs["sub"] else left + right, job))


def mul(job: Job, reads: Sequence[Box]) -> Int64:
    """a * b >> shift, rounded half up, between lo and hi."""
    a, b = _operands(job, reads)
    return _spread(job, _clamp(_rounded(a * b, job.attrs["shift"]), job))


def requantize(job: Job, reads: Sequence[Box]) -> Int64:
    """x >> shift between lo and hi: other fraction bits, and with lo 0 a Relu."""
    return _clamp(shifted(_integers(job, reads), job.attrs["shift"]), job)


def quantize(job: Job, reads: Sequence[Box]) -> Int64:
    """p = x * inverse >> shift, rounded half up from `rest` fraction bits, + out_zp, between lo and hi."""
    a = job.attrs
    p = _integers(job, reads) * a["inverse"] >> a["shift"]
    return _clamp(_rounded(p, a["rest"]) + a["out_zp"], job)


def dequantize(job: Job, reads: Sequence[Box]) -> Int64:
    """(q - zp) * scale >> shift."""
    return _dequantized(_integers(job, reads), job.attrs)


def lut(job: Job, reads: Sequence[Box]) -> Int64:
    """Linearly between 4,097 points, `2^interval` apart from `first` on; beyond them as at the end, rounded half up."""
    first, step = job.attrs["first"], job.attrs["interval"]
    points = reads[1].flat(0, FX_POINTS * 4, np.int32).astype(np.int64)
    at = np.clip(_integers(job, reads), first, first + (1 << (FX_INTERVAL_BITS + step))) - first
    index = np.minimum(at >> step, FX_POINTS - 2)
    rest = at - (index << step)
    made: Int64 = points[index] + _rounded((points[index + 1] - points[index]) * rest, step)
    return made


def from_fp16(job: Job, reads: Sequence[Box]) -> Int64:
    """fp16 -> fx32 with f fraction bits: half to even, saturating. NaN becomes 0."""
    return to_fx(reads[0].cut(job.tile).astype(np.float32), job.attrs["f"]).astype(np.int64)


def to_fp16(job: Job, reads: Sequence[Box]) -> Made:
    """fx32 with f fraction bits -> float32, rounded once, -> fp16."""
    return halves(from_fx(reads[0].cut(job.tile), job.attrs["f"]))


def linear(job: Job, reads: Sequence[Box]) -> Made:
    """x @ w + bias, Relu with relu 1: to fx32 with f fraction bits (out_bytes 4), or to fp16.

    x is narrowed to fp16: int8 by way of the fx32 of f_x fraction bits that `dequantize` gives, fx32 by way of float32.
    Products are exact; sums are float32, from 0 in ascending order of the inputs, the bias (float32) last.
    """
    a, tile = job.attrs, job.tile
    x = _narrowed(job, reads[0]).astype(np.float32)  # (pixels, k)
    k, first = x.shape[1], tile.c // LANES
    count = blocks(tile.c + tile.n) - first
    chosen = slice(tile.c % LANES, tile.c % LANES + tile.n)
    size = linear_block_bytes(k)
    w = unpack_blocks(reads[1].flat(first * size, count * size, np.float16), k)[:, chosen].astype(np.float32)
    sums = np.zeros((len(x), tile.n), np.float32)
    with np.errstate(all="ignore"):
        for i in range(k):
            sums += x[:, i, None] * w[i]
        sums += _biases(job, reads[2], first, count)[:, chosen]
    if a["relu"]:
        sums = np.where(sums > 0, sums, np.float32(0))
    made = sums.reshape(tile.h, tile.w, tile.n)
    return to_fx(made, a["f"]).astype(np.int64) if out_bytes(a) == 4 else halves(made)


OF_NUMBERS: Mapping[str, Callable[[Job, Sequence[Box]], Made]] = MappingProxyType(
    {
        "fx_add": add,
        "fx_mul": mul,
        "fx_requantize": requantize,
        "fx_quantize": quantize,
        "fx_dequantize": dequantize,
        "fx_lut": lut,
        "fx_from_fp16": from_fp16,
        "fp16_from_fx": to_fp16,
        "fp16_linear": linear,
    }
)


def compute(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The output box of one of these ops as bytes: (h, w, n)."""
    tensors, forms = 2 if "b_bytes" in job.attrs else 1, _forms(job.op)
    boxes = [numbers(box, in_bytes(job.attrs, at), forms) for at, box in enumerate(reads[:tensors])]
    made = OF_NUMBERS[job.op](in_numbers(job), [*boxes, *reads[tensors:]])
    dtype = "<f2" if made.dtype == np.float16 else {1: "i1", 2: "<i2", 4: "<i4"}[out_bytes(job.attrs)]
    return np.ascontiguousarray(made.astype(dtype)).view(np.int8)


MIXED = MappingProxyType(dict.fromkeys(OF_NUMBERS, compute))


def shifted(x: Int64, by: int) -> Int64:
    """x >> by, floored; with `by` below 0 x << -by. What is beyond 32 bits before a shift to the left is cut there."""
    if by >= 0:
        return x >> by
    return np.clip(x, *LIMITS["int32"]) << -by


def halves(x: NDArray[np.float32]) -> NDArray[np.float16]:
    """float32 -> fp16: half to even, beyond 65504 infinite; every NaN is the same one."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = x.astype(np.float16)
    made[np.isnan(x)] = np.float16(np.nan)
    return made


def _forms(op: str) -> Mapping[int, str]:
    """What a number of two bytes is: an int16 where a tensor of it becomes fx32, else fp16."""
    return {**REALS, 2: "<i2"} if op == "fx_dequantize" else REALS


def _rounded(x: Int64, by: int) -> Int64:
    """x >> by, rounded half up; with `by` below 0 as `shifted`."""
    return (x + (1 << by >> 1)) >> by if by > 0 else shifted(x, by)


def _dequantized(q: Int64, a: Mapping[str, Any]) -> Int64:
    return np.clip(shifted((q - a["zp"]) * a["scale"], a["shift"]), *LIMITS["int32"])


def _narrowed(job: Job, read: Box) -> NDArray[np.float16]:
    """All inputs of the pixels of a tile as fp16: (pixels, k)."""
    a, tile = job.attrs, job.tile
    x = read.cut(type(tile)(tile.y, tile.x, 0, tile.h, tile.w, job.in_dims[2])).reshape(tile.h * tile.w, -1)
    if in_bytes(a) == 2:
        return x
    fixed = _dequantized(x.astype(np.int64), a).astype(np.int32) if in_bytes(a) == 1 else x
    return halves(from_fx(fixed, a["f_x"]))


def _biases(job: Job, read: Box, first: int, count: int) -> NDArray[np.float32]:
    """The biases of some blocks, of all pixels or of each in the tile: (1 or pixels, 16 * count)."""
    tile, rows = job.tile, job.attrs["bias_rows"]
    size = bias_block_bytes(rows)
    table = unpack_blocks(read.flat(first * size, count * size, np.float32), rows)
    if rows == 1:
        return table
    y, x = np.arange(tile.y, tile.y + tile.h)[:, None], np.arange(tile.x, tile.x + tile.w)
    chosen: NDArray[np.float32] = table[(y * job.out_dims[1] + x).reshape(-1)]
    return chosen


def _integers(job: Job, reads: Sequence[Box]) -> Int64:
    return reads[0].cut(job.tile).astype(np.int64)


def _operands(job: Job, reads: Sequence[Box]) -> tuple[Int64, Int64]:
    a, b = (reads[at].cut(operand_box(job.tile, job.attrs["ab"[at]])).astype(np.int64) for at in (0, 1))
    return a, b


def _clamp(x: Int64, job: Job) -> Int64:
    return np.clip(x, job.attrs["lo"], job.attrs["hi"])


def _spread(job: Job, values: Int64) -> Int64:
    return np.broadcast_to(values, (job.tile.h, job.tile.w, job.tile.n))
