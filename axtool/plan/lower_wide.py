"""Numbers of 16 bits in a lowering: the `wide_` op of a layer, moves counted in bytes, and transposes by halves.

A number of two bytes is two channels of a stored tensor. What moves whole pixels moves them as it moves int8; where the
channels themselves change places, two bytes have to stay together.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.elements import PREFIX
from axtool.types import BYTES, QFormat

Dims = tuple[int, int, int]
Perm = tuple[int, int, int]
Step = tuple[str, Dims, dict[str, Any]]  # op, dims of its output in numbers, attributes

PER_CHANNEL = ("start", "before")  # attributes that count channels in their last place


def sized(op: str, attrs: Mapping[str, Any], **formats: QFormat) -> tuple[str, dict[str, Any]]:
    """The op and attributes of a layer whose operands (x, or a and b) and output (out) have these formats."""
    sizes = {f"{name}_bytes": BYTES[fmt.kind] for name, fmt in formats.items()}
    if max(sizes.values()) == 1:
        return op, dict(attrs)
    return PREFIX + op, {**attrs, **sizes}


def in_byte_channels(attrs: Mapping[str, Any], size: int) -> Mapping[str, Any]:
    """Attributes of an op that moves numbers of `size` bytes, its channels counted in bytes."""
    return {name: (*value[:2], value[2] * size) if name in PER_CHANNEL else value for name, value in attrs.items()}


def as_bytes(stored: NDArray[np.signedinteger]) -> NDArray[np.int8]:
    """(1, h, w, c) of int8 or int16 as it lies in memory: the low byte of a number first."""
    return np.ascontiguousarray(stored.astype(f"<i{stored.dtype.itemsize}")).view(np.int8)


def permute_steps(dims: Dims, perm: Perm, size: int) -> list[Step]:
    """Layers that permute (h, w, c) of numbers of `size` bytes. One where channels stay last, or numbers are bytes.

    With rows and columns for the numbers and a number's own bytes as channels, any two neighbouring axes change places:
    one transpose between two reshapes. Two such are enough for every permutation.
    """
    made = (dims[perm[0]], dims[perm[1]], dims[perm[2]])
    if size == 1 or perm[2] == 2:
        return [("transpose", made, {"perm": perm})]
    long = [axis for axis in perm if dims[axis] > 1]
    if long == sorted(long):  # the order stays
        return [("reshape", made, {})]
    if len(long) == 3 and perm in ((0, 2, 1), (2, 1, 0)):
        swapped = (dims[1], dims[0], dims[2])
        rest: Perm = (1, 2, 0) if perm == (0, 2, 1) else (2, 0, 1)
        return [("transpose", swapped, {"perm": (1, 0, 2)}), *permute_steps(swapped, rest, size)]
    ahead = long.index(min(long))  # long axes [0, split) and the rest change places
    behind = [dims[axis] for axis in long[ahead:]]
    first, second = prod(behind), prod(dims[axis] for axis in long[:ahead])
    flat, turned = (first, second, 1), (second, first, 1)
    before: list[Step] = [] if dims == flat else [("reshape", flat, {})]
    after: list[Step] = [] if made == turned else [("reshape", made, {})]
    return [*before, ("transpose", turned, {"perm": (1, 0, 2)}), *after]
