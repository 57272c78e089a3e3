"""softmax and layer_norm on int8: all channels of a pixel together decide what becomes of each.

Sums over a row are exact. What is a quotient of two of them is one division or one root a row, in fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job
from axtool.ops.elements import in_bytes
from axtool.ops.exponential import EXP_BITS, bit_length, inverse_root, root
from axtool.types import Tile

EXP_ENTRIES = 256
# Forms of a layer_norm, added up: 1 / sigma by exp(-ln(v) / 2), not by a root and divisions; the mean by sums of 32
# bits, not of 64.
LOG_ROOT, NARROW_MEAN = 1, 2
NORMAL_BITS = 30  # of the largest deviation of a row, and fraction bits of the row of length 1
LEAST_SHIFT = {1: 0, 4: -32}  # of the deviations of numbers of so many bytes, to the left
SQUARE_SHIFT = 7  # deviations are squared without their last bits
ROOT_SCALE = 52  # 1 / sigma has so many bits, less those of the row's length
PAIR_BYTES = 8  # of a channel's factor and offset
LARGEST_FACTOR = 2**29  # of a channel, and of its offset: both and a row of length 1 stay in 32 bits

Ints = NDArray[np.int64]


def softmax(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """exp(x - max) / sum of them: e = table[max - x], q = floor(e * (m * 2^12 // sum) / 2^(f + 12) + 1/2) + zp.

    A row whose table makes a sum of 0 is divided by 1.
    """
    a = job.attrs
    x = row_of(job, reads[0]).astype(np.int64)
    table = reads[1].flat(0, EXP_ENTRIES * 2, np.uint16).astype(np.int64)
    e = table[x.max(axis=2, keepdims=True) - x]
    inverse = (a["m"] << EXP_BITS) // np.maximum(e.sum(axis=2, keepdims=True), 1)
    shift = a["f"] + EXP_BITS
    q = (cut_channels(job, e) * inverse + (1 << (shift - 1))) >> shift
    return np.asarray(np.clip(q + a["out_zp"], a["lo"], a["hi"]), np.int8)


def layer_norm(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta: `unit_rows`, then a factor and an offset for each channel.

    q = (((t * factor + 2^29) >> 30) + offset + half) >> f, + zp, clamped; the length of a row is in the factor.
    """
    a = job.attrs
    t = cut_channels(job, unit_rows(row_of(job, reads[0]).astype(np.int64), a))
    pairs = reads[1].flat(job.tile.c * PAIR_BYTES, job.tile.n * PAIR_BYTES, np.int32).reshape(-1, 2).astype(np.int64)
    y = ((t * pairs[:, 0] + (1 << (NORMAL_BITS - 1))) >> NORMAL_BITS) + pairs[:, 1]
    q = (y + (1 << a["f"] >> 1)) >> a["f"]
    return np.asarray(np.clip(q + a["out_zp"], a["lo"], a["hi"]), np.int8)


def unit_rows(x: Ints, attrs: Mapping[str, Any]) -> Ints:
    """Each row's deviations from its mean, divided by the root of their squares' sum and epsilon: 30 fraction bits.

    x (h, w, c), |x| <= 2^31. With n channels: d = n x - sum(x), moved so that the largest has 30 bits, or so far that
    epsilon has 62; v = sum of (d >> 7)^2; epsilon is eps_m * 2^eps_e in the units of d^2. A row without deviations is
    all zeros.
    """
    d = x * x.shape[2] - x.sum(axis=2, keepdims=True)
    up = NORMAL_BITS - bit_length(np.abs(d).max(axis=2, keepdims=True))
    if attrs["eps_m"]:
        up = np.minimum(up, max(SQUARE_SHIFT + (31 - attrs["eps_e"]) // 2, LEAST_SHIFT[in_bytes(attrs)]))
    d = np.where(up >= 0, d << np.maximum(up, 0), d >> np.maximum(-up, 0))
    v = ((d >> SQUARE_SHIFT) ** 2).sum(axis=2, keepdims=True)
    flat = (d == 0).all(axis=2, keepdims=True)
    v = np.where(flat, 2**44, v + _epsilon(attrs, up))
    if attrs["form"] & LOG_ROOT:
        t = (d * inverse_root(v, ROOT_SCALE) + (1 << 28)) >> 29
    else:
        sigma = root(v)
        t = ((d << 24) + sigma) // (2 * sigma)
    return np.where(flat, 0, t)


def _epsilon(attrs: Mapping[str, Any], up: Ints) -> Ints:
    """epsilon in the units of v: eps_m * 2^(eps_e + 2 up - 14), at most 2^62."""
    shift = attrs["eps_e"] + 2 * (up - SQUARE_SHIFT)
    left = np.int64(attrs["eps_m"]) << np.clip(shift, 0, 31)
    return np.where(shift > 31, 2**62 if attrs["eps_m"] else 0, left >> np.clip(-shift, 0, 63))


def epsilon_fields(epsilon: float, scale: float, channels: int) -> dict[str, int]:
    """eps_m and eps_e of a layer_norm: n^3 epsilon / scale^2 is epsilon in the units of d^2."""
    mantissa, exponent = frexp(channels**3 * epsilon / scale**2)
    return {"eps_m": int(ldexp(mantissa, 31)), "eps_e": exponent - 31}


def affine_pairs(
    gamma: NDArray[np.float64], beta: NDArray[np.float64], out_scale: float, channels: int
) -> tuple[NDArray[np.int32], int]:
    """(factor, offset) of each channel as int32 (channels, 2) and their fraction bits f, the most that hold all."""
    real = np.stack([gamma * np.sqrt(channels), beta], axis=1) / out_scale
    f = min(max(29 - frexp(float(np.abs(real).max()))[1], 0), 29)
    most = LARGEST_FACTOR - 1
    return np.clip(np.rint(np.ldexp(real, f)), -most, most).astype(np.int32), f


def row_of(job: Job, box: Box) -> NDArray[Any]:
    """The pixels of the output box with all channels of the input."""
    tile = job.tile
    return box.cut(Tile(tile.y, tile.x, 0, tile.h, tile.w, job.in_dims[2]))


def cut_channels(job: Job, rows: Ints) -> Ints:
    """Of whole rows the channels of the output box."""
    return rows[:, :, job.tile.c : job.tile.c + job.tile.n]
