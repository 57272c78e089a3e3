"""arg_max: which channel of a pixel is the largest. Numbers of one scale are in the order of what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job
from axtool.ops.elements import in_bytes, in_numbers, numbers, out_bytes
from axtool.types import Tile


def arg_max(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The first of the largest, with last 1 the last of them, as int32: in bytes.

    flat 0: one number a pixel, (h, w, 1). flat 1: the pixels of a row side by side in channels, (1, h, w).
    """
    x = numbers(reads[0], in_bytes(job.attrs)).cut(arg_max_box(in_numbers(job)))
    return np.ascontiguousarray(_picked(x, job.attrs["last"]).reshape(_made(job)).astype("<i4")).view(np.int8)


def arg_max_box(job: Job) -> Tile:
    """The pixels that a box is made of, of a job in numbers, with all their channels."""
    tile = job.tile
    if job.attrs["flat"]:
        return Tile(tile.x, tile.c, 0, tile.w, tile.n, job.in_dims[2])
    return Tile(tile.y, tile.x, 0, tile.h, tile.w, job.in_dims[2])


def _picked(x: NDArray[Any], last: int) -> NDArray[np.int64]:
    if not last:
        return np.asarray(x.argmax(axis=2))
    return np.asarray(x.shape[2] - 1 - x[:, :, ::-1].argmax(axis=2))


def _made(job: Job) -> tuple[int, int, int]:
    return job.tile.h, job.tile.w, job.tile.n // out_bytes(job.attrs)
