"""slice, pad, transpose, reshape, depth_to_space, space_to_depth: the same numbers in other places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job
from axtool.ops.regions import (
    depth_channels,
    pad_sources,
    permuted,
    reshape_runs,
    slice_sources,
    space_sources,
    span,
)
from axtool.types import Tile


def slice_(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[i] = in[start + i * step] on each axis."""
    return _gather(reads[0], slice_sources(job))


def pad(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[i] = in[i - before] on each axis; outside: the value, the mirror image without the edge, or the edge."""
    sources = pad_sources(job)
    kept = [np.flatnonzero(source >= 0) for source in sources]
    out = np.full((job.tile.h, job.tile.w, job.tile.n), job.attrs["value"], np.int8)
    if all(at.size for at in kept):
        out[np.ix_(*kept)] = _gather(reads[0], [source[at] for source, at in zip(sources, kept, strict=True)])
    return out


def transpose(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """Output axis k is input axis perm[k]."""
    return reads[0].cut(permuted(job)).transpose(job.attrs["perm"])


def reshape(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The same elements in (h, w, c) order."""
    starts = reshape_runs(job)  # (h, w): number of the first element of each pixel of the box
    index = starts[:, :, None] + np.arange(job.tile.n)
    _, width, channels = job.in_dims
    box = reads[0]
    y, x, c = index // (width * channels), index // channels % width, index % channels
    out: NDArray[np.int8] = box.values[y - box.tile.y, x - box.tile.x, c - box.tile.c]
    return out


def depth_to_space(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[y, x, c] = in[y // b, x // b, k], phase = y%b * b + x%b: k = phase * C + c (DCR), c * b * b + phase (CRD)."""
    tile, block = job.tile, job.attrs["block"]
    y = np.arange(tile.y, tile.y + tile.h)[:, None, None]
    x = np.arange(tile.x, tile.x + tile.w)[None, :, None]
    box = reads[0]
    out: NDArray[np.int8] = box.values[
        y // block - box.tile.y, x // block - box.tile.x, depth_channels(job) - box.tile.c
    ]
    return out


def space_to_depth(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[y, x, (by * b + bx) * C + c] = in[y * b + by, x * b + bx, c]."""
    y, x, c = space_sources(job)
    box = reads[0]
    return box.values[y - box.tile.y, x - box.tile.x, c - box.tile.c]


def _gather(box: Box, sources: Sequence[NDArray[np.int64]]) -> NDArray[np.int8]:
    """box[sources[0], sources[1], sources[2]], each axis by itself, in tensor coordinates."""
    (y, h), (x, w), (c, n) = (span(source) for source in sources)
    part = box.cut(Tile(y, x, c, h, w, n))
    return part[np.ix_(sources[0] - y, sources[1] - x, sources[2] - c)]
