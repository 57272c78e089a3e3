"""fx_softmax and fx_layer_norm: the formulas of `reference_rows` on numbers of fx32, in sums of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import LIMITS
from axtool.ops.boxes import Box, Job
from axtool.ops.elements import in_numbers, numbers
from axtool.ops.exponential import LOG_BITS, POWER_BITS, bit_length, negative_power
from axtool.ops.reference_rows import NORMAL_BITS, PAIR_BYTES, Ints, cut_channels, row_of, unit_rows

FX_BYTES = 4
LOG2_E = 1549082005  # log2(e) with 30 fraction bits
INVERSE_BITS = 61  # of 1 / the sum of a row, whose first 31 bits it is the inverse of
LARGEST = LIMITS["int32"][1]
MOST_SHIFT = 62


def softmax(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """2^-((max - x) log2 e), with 30 fraction bits, times the inverse of their sum: f fraction bits, saturating.

    form 0: the power is iterated, 1: by the table.
    """
    a, counted = job.attrs, in_numbers(job)
    x = row_of(counted, numbers(reads[0], FX_BYTES)).astype(np.int64)
    exponent = (x.max(axis=2, keepdims=True) - x) * LOG2_E >> (a["f_x"] + 30 - LOG_BITS)
    e = negative_power(exponent, iterated=not a["form"])
    total = e.sum(axis=2, keepdims=True)
    down = bit_length(total) - (POWER_BITS + 1)
    shift = np.minimum(INVERSE_BITS + down - a["f"], 63)
    y = (cut_channels(counted, e) * ((1 << INVERSE_BITS) // (total >> down)) + (np.int64(1) << (shift - 1))) >> shift
    return _in_bytes(np.minimum(y, LARGEST))


def layer_norm(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """`unit_rows`, then y = ((t * factor + half) >> shift) + offset for each channel, saturating."""
    a, counted = job.attrs, in_numbers(job)
    t = cut_channels(counted, unit_rows(row_of(counted, numbers(reads[0], FX_BYTES)).astype(np.int64), a))
    tile = counted.tile
    pairs = reads[1].flat(tile.c * PAIR_BYTES, tile.n * PAIR_BYTES, np.int32).reshape(-1, 2).astype(np.int64)
    y = ((t * pairs[:, 0] + (np.int64(1) << a["shift"] >> 1)) >> a["shift"]) + pairs[:, 1]
    return _in_bytes(np.clip(y, *LIMITS["int32"]))


def fx_affine(
    gamma: NDArray[np.float64], beta: NDArray[np.float64], bits: int, channels: int
) -> tuple[NDArray[np.int32], int]:
    """(factor, offset) of each channel as int32 (channels, 2), and the shift behind the product with the factor.

    `bits` are the fraction bits of the result, and of the offset.
    """
    real = gamma * np.sqrt(channels)
    own = 31 - frexp(float(np.abs(real).max()))[1]  # fraction bits of a factor: all 31 of the largest
    own = min(max(own, bits - NORMAL_BITS), MOST_SHIFT - NORMAL_BITS + bits)
    pairs = np.stack([np.ldexp(real, own), np.ldexp(beta, bits)], axis=1)
    return np.clip(np.rint(pairs), -LARGEST, LARGEST).astype(np.int32), NORMAL_BITS + own - bits


def _in_bytes(y: Ints) -> NDArray[np.int8]:
    return np.ascontiguousarray(y.astype("<i4")).view(np.int8)
