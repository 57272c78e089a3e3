"""What one step of a device op is asked for (`Job`), and the boxes of numbers that it reads (`Box`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.types import Tile

Dims = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Job:
    """One output box of one layer. `part` is the input that a concat copies."""

    op: str
    in_dims: Dims  # (h, w, c) of the first input
    out_dims: Dims
    attrs: Mapping[str, Any]
    tile: Tile
    part: int = 0


@dataclass(frozen=True, slots=True)
class Box:
    """The numbers of a box of a tensor, `values[0, 0, 0]` at (tile.y, tile.x, tile.c).

    Flat data (weights, tables) is a box of one pixel, and `tile.c` the offset in bytes inside the whole constant.
    """

    values: NDArray[Any]  # (h, w, n): int8, or int16 where a `wide_` op looks at numbers of two bytes
    tile: Tile

    def cut(self, tile: Tile) -> NDArray[Any]:
        """The numbers of `tile`, which this box must contain."""
        assert contains(self.tile, tile), f"{self.tile} does not contain {tile}"
        y, x, c = tile.y - self.tile.y, tile.x - self.tile.x, tile.c - self.tile.c
        return self.values[y : y + tile.h, x : x + tile.w, c : c + tile.n]

    def flat(self, start: int, count: int, dtype: type[np.generic]) -> NDArray[Any]:
        """Bytes [start, start + count) of flat data as numbers of `dtype`."""
        at = start - self.tile.c
        assert contains(self.tile, flat_tile(start, count)), f"bytes {start}..{start + count} are not in {self.tile}"
        return np.ascontiguousarray(self.values[0, 0, at : at + count]).view(dtype)


def whole(dims: Sequence[int]) -> Tile:
    """The box that is all of a tensor of (h, w, c)."""
    return Tile(0, 0, 0, *dims)


def flat_tile(start: int, count: int) -> Tile:
    """Bytes [start, start + count) of flat data."""
    return Tile(0, 0, start, 1, 1, count)


def contains(outer: Tile, inner: Tile) -> bool:
    """Whether every element of `inner` is in `outer`. An empty box is in every box."""
    if is_empty(inner):
        return True
    return (
        outer.y <= inner.y
        and outer.x <= inner.x
        and outer.c <= inner.c
        and inner.y + inner.h <= outer.y + outer.h
        and inner.x + inner.w <= outer.x + outer.w
        and inner.c + inner.n <= outer.c + outer.n
    )


def is_empty(tile: Tile) -> bool:
    """Whether the box has no element."""
    return min(tile.h, tile.w, tile.n) <= 0


def intersect(a: Tile, b: Tile) -> Tile:
    """The elements of both boxes; extents are 0 where there are none."""
    y, x, c = max(a.y, b.y), max(a.x, b.x), max(a.c, b.c)
    h, w, n = min(a.y + a.h, b.y + b.h) - y, min(a.x + a.w, b.x + b.w) - x, min(a.c + a.n, b.c + b.n) - c
    return Tile(y, x, c, max(h, 0), max(w, 0), max(n, 0))
