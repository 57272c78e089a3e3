"""A job of a `wide_` op, in bytes  ->  the same job in numbers: what each operand and the output hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from axtool.ops.boxes import Box, Dims, Job
from axtool.types import Tile

PREFIX = "wide_"
_OUT = "out_bytes"


def is_wide(op: str) -> bool:
    """Whether an op takes or makes numbers of 16 bits."""
    return op.startswith(PREFIX)


def narrow(op: str) -> str:
    """The op of int8 numbers that a `wide_` op has its formula and its fields from; any other op itself."""
    return op.removeprefix(PREFIX)


def in_bytes(attrs: Mapping[str, Any], read: int = 0) -> int:
    """Bytes of a number of the operand `read`, one that is a tensor."""
    name = "b_bytes" if read else "a_bytes" if "a_bytes" in attrs else "x_bytes"
    return int(attrs.get(name, 1))


def out_bytes(attrs: Mapping[str, Any]) -> int:
    """Bytes of a number of the output."""
    return int(attrs.get(_OUT, 1))


def in_numbers(job: Job) -> Job:
    """The job of a `wide_` op with dims and tile in numbers, under the name of the op without the prefix."""
    size = out_bytes(job.attrs)
    return replace(
        job,
        op=narrow(job.op),
        in_dims=_dims(job.in_dims, in_bytes(job.attrs)),
        out_dims=_dims(job.out_dims, size),
        tile=shrunk(job.tile, size),
    )


def numbers(box: Box, size: int) -> Box:
    """The numbers of `size` bytes of a box of bytes; one that ends inside a number does not have it."""
    if size == 1:
        return box
    whole = box.values[:, :, : box.tile.n // size * size]
    return Box(whole.view(np.dtype("<i2")), shrunk(box.tile, size))


def shrunk(tile: Tile, size: int) -> Tile:
    """A box of bytes as a box of numbers."""
    return Tile(tile.y, tile.x, tile.c // size, tile.h, tile.w, tile.n // size)


def grown(tile: Tile, size: int) -> Tile:
    """A box of numbers as a box of bytes."""
    return Tile(tile.y, tile.x, tile.c * size, tile.h, tile.w, tile.n * size)


def _dims(dims: Dims, size: int) -> Dims:
    return dims[0], dims[1], dims[2] // size
