"""Packed weights and params -> arrays again: the inverse of `axtool.ops.packing`, which only tests need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from axtool.ops.packing import LANES, PARAM_ROWS, unpack_conv_blocks


def unpack_conv_weights(
    flat: NDArray[np.int8], cout: int, cing: int, kernel: tuple[int, int], group: int
) -> NDArray[np.int8]:
    """Flat -> (cout, cin/g, kh, kw)."""
    coutg = cout // group
    parts = [
        unpack_conv_blocks(part, kernel, cing)[:, :, :coutg].transpose(2, 1, 0) for part in flat.reshape(group, -1)
    ]
    return np.concatenate(parts).reshape(cout, cing, *kernel)


def unpack_conv_transpose(
    flat: NDArray[np.int8], cin: int, coutg: int, kernel: tuple[int, int], group: int
) -> NDArray[np.int8]:
    """Flat -> ONNX (cin, cout/g, kh, kw)."""
    cing = cin // group
    w = unpack_conv_weights(flat, coutg * group, cing, kernel, group)
    return w.reshape(group, coutg, cing, *kernel).transpose(0, 2, 1, 3, 4).reshape(cin, coutg, *kernel)


def unpack_depthwise(flat: NDArray[np.int8], cout: int, kernel: tuple[int, int]) -> NDArray[np.int8]:
    """Flat -> (cout, 1, kh, kw)."""
    w = flat.reshape(-1, kernel[0] * kernel[1], LANES).transpose(0, 2, 1).reshape(-1, kernel[0] * kernel[1])
    return w[:cout].reshape(cout, 1, *kernel)


def unpack_params(flat: NDArray[np.int32], cout: int, group: int = 1) -> NDArray[np.int32]:
    """Flat -> (4, cout): bias, mantissa, f, wsum."""
    rows = flat.reshape(-1, PARAM_ROWS, LANES).transpose(1, 0, 2).reshape(PARAM_ROWS, group, -1)
    return rows[:, :, : cout // group].reshape(PARAM_ROWS, cout)
