"""Weights and biases of an fp16_linear in the layout that the engines read: blocks of 16 output channels.

Weights: fp16 `[ceil(n/16)][k][16]`. Biases: float32 `[ceil(n/16)][rows][16]`, with one row for all pixels or one for
each. Zero where padded.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from axtool.ops.packing import LANES, blocks

Halves = NDArray[np.float16]
Floats = NDArray[np.float32]
Real = TypeVar("Real", np.float16, np.float32)


def linear_block_bytes(k: int) -> int:
    """Bytes of the weights of 16 output channels of `k` inputs."""
    return k * LANES * 2


def bias_block_bytes(rows: int) -> int:
    """Bytes of the biases of 16 output channels."""
    return rows * LANES * 4


def pack_linear(w: NDArray[np.floating[Any]]) -> Halves:
    """(k, n) -> flat, rounded to fp16: half to even, beyond 65504 infinite."""
    with np.errstate(over="ignore"):
        return _in_blocks(np.asarray(w).astype(np.float16))


def pack_bias(bias: NDArray[np.floating[Any]]) -> Floats:
    """(n,) or (rows, n) -> flat float32."""
    return _in_blocks(np.atleast_2d(np.asarray(bias, np.float32)))


def unpack_blocks(flat: NDArray[Real], rows: int) -> NDArray[Real]:
    """Whole blocks -> (rows, 16 * blocks)."""
    return flat.reshape(-1, rows, LANES).transpose(1, 0, 2).reshape(rows, -1)


def _in_blocks(values: NDArray[Real]) -> NDArray[Real]:
    rows, n = values.shape
    padded = np.zeros((rows, blocks(n) * LANES), values.dtype)
    padded[:, :n] = values
    return np.ascontiguousarray(padded.reshape(rows, -1, LANES).transpose(1, 0, 2)).reshape(-1)
