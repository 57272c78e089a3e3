"""max_pool, avg_pool, resize_nearest, resize_linear: windows of pixels, each channel by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import requantize
from axtool.ops.boxes import Box, Job
from axtool.ops.windows import patch_of, windows
from axtool.types import Tile

ROW_BYTES = 12  # of a row of avg_pool's constants: count, m, f


def max_pool(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The largest number of the window; padding never wins. A window of padding alone is -128."""
    patch = patch_of(job, reads[0], job.tile.c, job.tile.n, -128)
    out = np.full((job.tile.h, job.tile.w, job.tile.n), -128, np.int8)
    for window in windows(job, patch):
        np.maximum(out, window, out=out)
    return out


def avg_pool(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """sum(x - zp) over the cells inside x, times the constant of this window's count of cells.

    ValueError when the constants have no row for a count that occurs.
    """
    return averages(job, reads).astype(np.int8)


def averages(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """The numbers of an `avg_pool`."""
    a = job.attrs
    total = np.zeros((job.tile.h, job.tile.w, job.tile.n), np.int64)
    for window in windows(job, patch_of(job, reads[0], job.tile.c, job.tile.n, a["zp"])):
        total += window
        total -= a["zp"]
    counts = np.outer(_cells(job, 0), _cells(job, 1))  # (h, w)
    rows = reads[1].flat(0, reads[1].tile.n // ROW_BYTES * ROW_BYTES, np.int32).reshape(-1, 3).astype(np.int64)
    out = np.full(total.shape, np.clip(a["out_zp"], a["lo"], a["hi"]), np.int64)  # stays where nothing is counted
    for count in np.unique(counts[counts > 0]):
        found = rows[rows[:, 0] == count]
        if not len(found):
            raise ValueError(f"avg_pool has no constant for windows of {count} cells")
        at = counts == count
        out[at] = requantize(total[at], found[0, 1], found[0, 2], a["out_zp"], a["lo"], a["hi"])
    return out


def resize_nearest(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[y, x] = in[y // fy, x // fx]."""
    (fy, fx), tile = job.attrs["factor"], job.tile
    ys, xs = np.arange(tile.y, tile.y + tile.h) // fy, np.arange(tile.x, tile.x + tile.w) // fx
    box = Tile(int(ys[0]), int(xs[0]), tile.c, int(ys[-1] - ys[0]) + 1, int(xs[-1] - xs[0]) + 1, tile.n)
    return reads[0].cut(box)[np.ix_(ys - ys[0], xs - xs[0])]


def resize_linear(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """Two rows times two columns, weights in 1 / (2 fy) and 1 / (2 fx), then one requantize that divides by 4 fy fx."""
    a, tile = job.attrs, job.tile
    y0, y1, wy = taps(tile.y, tile.h, a["factor"][0], a["mode"], job.in_dims[0])
    x0, x1, wx = taps(tile.x, tile.w, a["factor"][1], a["mode"], job.in_dims[1])
    top, left = int(y0[0]), int(x0[0])
    box = reads[0].cut(Tile(top, left, tile.c, int(y1[-1]) - top + 1, int(x1[-1]) - left + 1, tile.n))
    x = box.astype(np.int64) - a["zp"]
    rows = x[y0 - top] * (2 * a["factor"][0] - wy)[:, None, None] + x[y1 - top] * wy[:, None, None]
    total = rows[:, x0 - left] * (2 * a["factor"][1] - wx)[:, None] + rows[:, x1 - left] * wx[:, None]
    return requantize(total, a["m"], a["f"], a["out_zp"], -128, 127).astype(np.int8)


def taps(
    start: int, count: int, factor: int, mode: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each output position: the two input positions, clamped to the edges, and the weight of the second over 2 f.

    mode 0, half_pixel: (y + 1/2) / f - 1/2 = (2y + 1 - f) / 2f; mode 1, asymmetric: y / f = 2y / 2f.
    """
    y = np.arange(start, start + count, dtype=np.int64)
    numerator = 2 * y + 1 - factor if mode == 0 else 2 * y
    first = numerator // (2 * factor)
    return np.clip(first, 0, size - 1), np.clip(first + 1, 0, size - 1), numerator - first * 2 * factor


def _cells(job: Job, axis: int) -> NDArray[np.int64]:
    """Cells of the window along an axis that are counted, for each output position of the box."""
    a = job.attrs
    start, count = ((job.tile.y, job.tile.h), (job.tile.x, job.tile.w))[axis]
    lo, hi = (-a["pad"][axis], job.in_dims[axis] + a["pad_end"][axis]) if a["include_pad"] else (0, job.in_dims[axis])
    first = np.arange(start, start + count) * a["stride"][axis] - a["pad"][axis]
    cells = first[:, None] + np.arange(a["kernel"][axis]) * a["dilation"][axis]
    return np.asarray(((cells >= lo) & (cells < hi)).sum(axis=1), np.int64)
