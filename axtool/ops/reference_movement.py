"""slice, pad, transpose, reshape, depth_to_space, space_to_depth: the same numbers in other places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job
from axtool.types import Tile


def slice_(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[i] = in[start + i * step] on each axis."""
    return _gather(reads[0], slice_sources(job))


def pad(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """out[i] = in[i - before] on each axis; outside: the value, the mirror image without the edge, or the edge."""
    sources = pad_sources(job)
    kept = [np.flatnonzero(source >= 0) for source in sources]
    out = np.full((job.tile.h, job.tile.w, job.tile.n), job.attrs["value"], reads[0].values.dtype)
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
    tile = box.tile
    return box.values[np.ix_(sources[0] - tile.y, sources[1] - tile.x, sources[2] - tile.c)]


def slice_sources(job: Job) -> list[NDArray[np.int64]]:
    """Input positions of the box on each axis."""
    return [
        start + at * step
        for start, step, at in zip(job.attrs["start"], job.attrs["step"], _positions(job.tile), strict=True)
    ]


def pad_sources(job: Job) -> list[NDArray[np.int64]]:
    """Input positions of the box on each axis; -1 where the pad value stands."""
    out = []
    for before, at, size in zip(job.attrs["before"], _positions(job.tile), job.in_dims, strict=True):
        source = at - before
        if job.attrs["mode"] == 0:
            source = np.where((source >= 0) & (source < size), source, -1)
        elif job.attrs["mode"] == 1:
            source = reflected(source, size)
        else:
            source = np.clip(source, 0, size - 1)
        out.append(source)
    return out


def permuted(job: Job) -> Tile:
    """The input box of a transpose."""
    at, size = [0, 0, 0], [0, 0, 0]
    tile = job.tile
    for axis, start, count in zip(job.attrs["perm"], (tile.y, tile.x, tile.c), (tile.h, tile.w, tile.n), strict=True):
        at[axis], size[axis] = start, count
    return Tile(*at, *size)


def reshape_runs(job: Job) -> NDArray[np.int64]:
    """(h, w): the number, in (h, w, c) order, of the first element of each pixel of the box."""
    _, width, channels = job.out_dims
    y, x, _ = _positions(job.tile)
    return (y[:, None] * width + x) * channels + job.tile.c


def depth_channels(job: Job) -> NDArray[np.int64]:
    """(h, w, n): the input channel of each element of a depth_to_space box."""
    y, x, c = np.ix_(*_positions(job.tile))
    block = job.attrs["block"]
    phase = y % block * block + x % block
    deep: NDArray[np.int64] = phase * job.out_dims[2] + c if job.attrs["mode"] == 0 else c * block * block + phase
    return deep


def space_sources(job: Job) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Input rows, columns and channels of a space_to_depth box, to be broadcast."""
    y, x, c = np.ix_(*_positions(job.tile))
    block, channels = job.attrs["block"], job.in_dims[2]
    phase = c // channels
    return y * block + phase // block, x * block + phase % block, c % channels


def reflected(position: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Positions of an axis and of its mirror images without the edges, as positions of the axis."""
    period = max(2 * (size - 1), 1)
    inside = position % period
    return np.where(inside < size, inside, period - inside)


def _positions(tile: Tile) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    return (
        np.arange(tile.y, tile.y + tile.h, dtype=np.int64),
        np.arange(tile.x, tile.x + tile.w, dtype=np.int64),
        np.arange(tile.c, tile.c + tile.n, dtype=np.int64),
    )
