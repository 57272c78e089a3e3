"""`custom`: what the user's NumPy reference computes, held to the shape and type that it promises."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.ops import custom
from axtool.ops.boxes import Box, Dims, Job, flat_tile, whole
from axtool.types import Tile

_TURNS: dict[str, RLock] = {}  # by the name of an op: cores run in threads, and a reference may have memory of its own


def compute(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The output box: what `reference` says of the pixels, or of the whole tensor, cut to the box."""
    op = custom.of_id(job.attrs["id"])
    numbers = np.ascontiguousarray(reads[-1].flat(0, job.attrs["count"], np.uint8))
    boxes = [np.ascontiguousarray(box.cut(needed(job, at))) for at, box in enumerate(reads[:-1])]
    made = reckoned(op, boxes, numbers, made_dims(job))
    tile = job.tile
    if job.attrs["whole"]:
        made = made[tile.y : tile.y + tile.h, tile.x : tile.x + tile.w]
    return made[:, :, tile.c : tile.c + tile.n]


def reckoned(
    op: custom.CustomOp, boxes: Sequence[NDArray[np.int8]], numbers: NDArray[np.uint8], dims: Dims
) -> NDArray[np.int8]:
    """The reference's result. UsageError where it fails, or returns another shape than (h, w, c) `dims` or no int8."""
    what = f"the reference of custom op '{op.name}'"
    advice = "it gets int8 boxes (h, w, c) and the bytes that prepare returned"
    with _TURNS.setdefault(op.name, RLock()), custom.users_code(what, advice):
        made = np.array(op.reference(boxes, numbers))  # a copy: the next call may fill the same memory
    if made.shape != tuple(dims) or made.dtype != np.int8:
        raise UsageError(
            f"{what} returns {made.dtype}{list(made.shape)}, want int8{list(dims)}",
            code="custom-op-failed",
            hint="round and clip to -128..127, then .astype(np.int8)",
        )
    return made


def operand_dims(job: Job, read: int) -> Dims:
    """(h, w, c) of an input."""
    h, w, c = job.attrs["boxes"][3 * read : 3 * read + 3]
    return h, w, c


def needed(job: Job, read: int) -> Tile:
    """The box of an operand: of `pixel` the pixels of the output box with all channels, else everything."""
    if 3 * read == len(job.attrs["boxes"]):
        return flat_tile(0, job.attrs["count"])
    h, w, c = operand_dims(job, read)
    if job.attrs["whole"]:
        return whole((h, w, c))
    tile = job.tile
    y, rows = (0, 1) if h == 1 else (tile.y, tile.h)
    x, columns = (0, 1) if w == 1 else (tile.x, tile.w)
    return Tile(y, x, 0, rows, columns, c)


def made_dims(job: Job) -> Dims:
    """(h, w, c) of what the reference makes for the job: all channels of its pixels, or all of the output."""
    return job.out_dims if job.attrs["whole"] else (job.tile.h, job.tile.w, job.out_dims[2])
