"""Sliding windows of a reference kernel: the pixels that an output box looks at, and those that each tap meets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job, intersect, whole
from axtool.types import Tile

_N = TypeVar("_N", bound=np.generic)


def patch_of(job: Job, box: Box, channel: int, count: int, fill: int) -> NDArray[Any]:
    """Every pixel that the output box looks at, `fill` outside the tensor: (height, width, count)."""
    a, tile = job.attrs, job.tile
    (kh, kw), (sh, sw), (dh, dw) = a["kernel"], a["stride"], a["dilation"]
    height, width = (tile.h - 1) * sh + (kh - 1) * dh + 1, (tile.w - 1) * sw + (kw - 1) * dw + 1
    seen = Tile(tile.y * sh - a["pad"][0], tile.x * sw - a["pad"][1], channel, height, width, count)
    inside = intersect(seen, whole(job.in_dims))
    patch = np.full((height, width, count), fill, box.values.dtype)
    y, x = inside.y - seen.y, inside.x - seen.x
    if inside.h and inside.w:
        patch[y : y + inside.h, x : x + inside.w] = box.cut(inside)
    return patch


def windows(job: Job, patch: NDArray[_N], first: int = 0, rows: int = 0) -> Iterator[NDArray[_N]]:
    """For each tap, the pixels of the patch that it meets: (rows, w, c) of `rows` output rows, all by default."""
    (kh, kw), (sh, sw), (dh, dw) = job.attrs["kernel"], job.attrs["stride"], job.attrs["dilation"]
    height, width = ((rows or job.tile.h) - 1) * sh + 1, (job.tile.w - 1) * sw + 1
    for ky in range(kh):
        top = first * sh + ky * dh
        for kx in range(kw):
            yield patch[top : top + height : sh, kx * dw : kx * dw + width : sw]
