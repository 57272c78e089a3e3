"""matmul and attention: products of two activations, the bits that every engine must give.

An attention is three steps, head by head, and its bits are those of the steps one after the other:

1. scores: q times the transposed k as in `matmul`, requantized to int8 at the scale of the scores; a mask is added in
   steps of the scores.
2. exponentials: table[largest score of the row - score] with 12 fraction bits, 0 from 256 steps on.
3. context: the exponentials times v, divided by the sum of the row by one reciprocal, requantized once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS, requantize
from axtool.ops.boxes import Box, Job
from axtool.ops.regions import needed, tensor_reads
from axtool.types import Tile

EXP_ENTRIES = 256
CONTEXT_BITS = 16  # fraction bits of the context in steps of v, between the division and the last rounding
RECIPROCAL_BITS = 43  # of 1 / sum of a row; the sum is at least 2^12, so a reciprocal has at most 31 bits
MASK_LIMIT = 2**15 - 1  # an addend of the scores saturates here

Longs = NDArray[np.int64]


def matmul(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """q = clamp(requantize(sum over k of (a - zp_a) * (b - zp_b)) + out_zp, lo, hi)."""
    a = job.attrs
    left, right = (_numbers(reads[i], needed(job, i), a[f"zp_{'ab'[i]}"]) for i in range(2))
    return _requantized(products(left, right, transposed=a["trans_b"]), a).astype(np.int8)


def products(left: Longs, right: Longs, *, transposed: int) -> Longs:
    """left (h, m, k) times right (h or 1, k, n), or (h or 1, n, k) transposed: exact, as float64 holds every sum."""
    turned = right.swapaxes(1, 2) if transposed else right
    exact: Longs = (left.astype(np.float64) @ turned.astype(np.float64)).astype(np.int64)
    return exact


def attention(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The heads of a box, each through the three steps."""
    a = job.attrs
    q, k, v = (_numbers(reads[i], needed(job, i), a[f"zp_{'qkv'[i]}"]) for i in range(3))
    mask = _numbers(reads[3], needed(job, 3), a["zp_m"]) if a["mask"] else None
    table = reads[tensor_reads(job.op, a)].flat(0, 2 * EXP_ENTRIES, np.int16)

    def of_head(q: Longs, k: Longs, v: Longs) -> Longs:
        return contexts(exponentials(scores(q, k, a, mask), table), v, a)

    return cut_heads(job, q, k, v, of_head).astype(np.int8)


def cut_heads(
    job: Job, q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], of_head: Callable[..., NDArray[Any]]
) -> NDArray[Any]:
    """The channels of a box, each head's by itself: of q (1, l, d), k (1, keys, d) and v (1, keys, dv) it has
    (1, l, dv). All is counted in numbers; q, k and v are what `needed` says.
    """
    tile, made = job.tile, job.out_dims[2] // job.attrs["heads"]
    first, end = tile.c // made, -(-(tile.c + tile.n) // made)
    heads = zip(*(np.split(x, end - first, axis=2) for x in (q, k, v)), strict=True)
    whole = np.concatenate([of_head(*parts) for parts in heads], axis=2)
    return whole[:, :, tile.c - first * made :][:, :, : tile.n]


def scores(q: Longs, k: Longs, a: Mapping[str, Any], mask: Longs | None = None) -> Longs:
    """int8 scores (1, l, keys), the mask added in their steps."""
    found = requantize(products(q, k, transposed=1), a["m_s"], a["f_s"], a["zp_s"], *LIMITS["int8"])
    if mask is None:
        return found
    return found + requantize(mask, a["m_m"], a["f_m"], 0, -MASK_LIMIT, MASK_LIMIT)


def exponentials(score: Longs, table: NDArray[np.int16]) -> Longs:
    """exp(score - largest of its row) with 12 fraction bits, by the table of 0..255 steps."""
    below = score.max(axis=2, keepdims=True) - score
    return np.where(below < EXP_ENTRIES, table[np.minimum(below, EXP_ENTRIES - 1)], 0).astype(np.int64)


def contexts(e: Longs, v: Longs, a: Mapping[str, Any]) -> Longs:
    """sum(e * v) / sum(e) with 16 fraction bits, floored, then requantized."""
    reciprocal = (1 << RECIPROCAL_BITS) // e.sum(axis=2, keepdims=True)
    context = products(e, v, transposed=0) * reciprocal >> RECIPROCAL_BITS - CONTEXT_BITS
    return requantize(context, a["m"], a["f"] + CONTEXT_BITS, a["out_zp"], *LIMITS["int8"])


def _requantized(sums: Longs, a: Mapping[str, Any]) -> Longs:
    return requantize(sums, a["m"], a["f"], a["out_zp"], a["lo"], a["hi"])


def _numbers(box: Box, tile: Tile, zero: int) -> Longs:
    return box.cut(tile).astype(np.int64) - zero
