"""A job of an op that says how large its numbers are, in bytes  ->  the same job in numbers.

Stored tensors count bytes along their channels: 1 for a number of int8, 2 of int16 and fp16, 4 of int32 and fx32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from axtool.ops.boxes import Box, Dims, Job
from axtool.types import Tile

PREFIX = "wide_"
INTEGERS: Mapping[int, str] = MappingProxyType({1: "<i1", 2: "<i2", 4: "<i4"})  # by bytes of a number
REALS: Mapping[int, str] = MappingProxyType({1: "<i1", 2: "<f2", 4: "<i4"})  # where a number of two bytes is fp16
_OUT = "out_bytes"


def is_wide(op: str) -> bool:
    """Whether an op is the form of an op of int8 that takes or makes int16."""
    return op.startswith(PREFIX)


def is_sized(attrs: Mapping[str, Any]) -> bool:
    """Whether an op says how many bytes its numbers have; those of any other have one."""
    return _OUT in attrs


def narrow(op: str) -> str:
    """The op of int8 numbers that a `wide_` op has its formula and its fields from; any other op itself."""
    return op.removeprefix(PREFIX)


def in_bytes(attrs: Mapping[str, Any], read: int = 0) -> int:
    """Bytes of a number of the operand `read`, one that is a tensor: of all of them, where they are of one size."""
    return int(attrs["b_bytes"] if read and "b_bytes" in attrs else attrs.get("x_bytes", attrs.get("a_bytes", 1)))


def out_bytes(attrs: Mapping[str, Any]) -> int:
    """Bytes of a number of the output."""
    return int(attrs.get(_OUT, 1))


def in_numbers(job: Job) -> Job:
    """The job of an op with dims and tile in numbers; of a `wide_` op, under the name without the prefix."""
    size = out_bytes(job.attrs)
    return replace(
        job,
        op=narrow(job.op),
        in_dims=_dims(job.in_dims, in_bytes(job.attrs)),
        out_dims=_dims(job.out_dims, size),
        tile=shrunk(job.tile, size),
    )


def numbers(box: Box, size: int, forms: Mapping[int, str] = INTEGERS) -> Box:
    """The numbers of `size` bytes of a box of bytes; one that ends inside a number does not have it."""
    if size == 1:
        return box
    whole = box.values[:, :, : box.tile.n // size * size]
    return Box(whole.view(np.dtype(forms[size])), shrunk(box.tile, size))


def shrunk(tile: Tile, size: int) -> Tile:
    """A box of bytes as a box of numbers."""
    return Tile(tile.y, tile.x, tile.c // size, tile.h, tile.w, tile.n // size)


def grown(tile: Tile, size: int) -> Tile:
    """A box of numbers as a box of bytes."""
    return Tile(tile.y, tile.x, tile.c * size, tile.h, tile.w, tile.n * size)


def _dims(dims: Dims, size: int) -> Dims:
    return dims[0], dims[1], dims[2] // size
