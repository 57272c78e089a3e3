"""Weights, biases and scales in the layouts that the MAC engines read.

conv, conv_transpose: int8 `[group][ceil(coutg/16)][kh*kw][ceil(cing/4)][16][4]`, zero where padded.
depthwise: int8 `[ceil(cout/16)][kh*kw][16]`. params: int32 `[block][4][16]`, rows bias, mantissa, f, wsum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LANES = 16  # output channels of a block
DOT = 4  # input channels that one multiply-add instruction sums
PARAM_ROWS = 4
PARAM_BYTES = PARAM_ROWS * LANES * 4


def blocks(channels: int) -> int:
    """Blocks of 16 that hold `channels`."""
    return -(-channels // LANES)


def conv_block_bytes(kernel: tuple[int, int], cin_of_group: int) -> int:
    """Bytes of the weights of 16 output channels."""
    return kernel[0] * kernel[1] * -(-cin_of_group // DOT) * LANES * DOT


def depthwise_block_bytes(kernel: tuple[int, int]) -> int:
    """Bytes of the weights of 16 channels."""
    return kernel[0] * kernel[1] * LANES


def pack_conv_weights(w: NDArray[np.int8], group: int) -> NDArray[np.int8]:
    """(cout, cin/g, kh, kw) -> flat."""
    cout, cing, kh, kw = w.shape
    coutg = _share(cout, group)
    padded = np.zeros((group, blocks(coutg) * LANES, -(-cing // DOT) * DOT, kh * kw), np.int8)
    padded[:, :coutg, :cing] = w.reshape(group, coutg, cing, kh * kw)
    tiled = padded.reshape(group, blocks(coutg), LANES, -1, DOT, kh * kw)  # (g, block, 16, cin4, 4, tap)
    return np.ascontiguousarray(tiled.transpose(0, 1, 5, 3, 2, 4)).reshape(-1)


def outputs_first(w: NDArray[np.int8], group: int) -> NDArray[np.int8]:
    """Weights of an ONNX ConvTranspose, (cin, cout/g, kh, kw) -> (cout, cin/g, kh, kw) as those of a Conv."""
    cin, coutg, kh, kw = w.shape
    cing = _share(cin, group)
    return w.reshape(group, cing, coutg, kh, kw).swapaxes(1, 2).reshape(group * coutg, cing, kh, kw)


def pack_depthwise(w: NDArray[np.int8]) -> NDArray[np.int8]:
    """(cout, 1, kh, kw) -> flat."""
    cout, one, kh, kw = w.shape
    if one != 1:
        raise ValueError(f"a depthwise filter has one input channel, got {one}")
    padded = np.zeros((blocks(cout) * LANES, kh * kw), np.int8)
    padded[:cout] = w.reshape(cout, kh * kw)
    return np.ascontiguousarray(padded.reshape(-1, LANES, kh * kw).transpose(0, 2, 1)).reshape(-1)


def unpack_conv_blocks(flat: NDArray[np.int8], kernel: tuple[int, int], cing: int) -> NDArray[np.int8]:
    """Whole blocks of one group -> (kh*kw, cing, 16 * blocks)."""
    taps = kernel[0] * kernel[1]
    tiled = flat.reshape(-1, taps, -(-cing // DOT), LANES, DOT)  # (block, tap, cin4, 16, 4)
    return np.ascontiguousarray(tiled.transpose(1, 2, 4, 0, 3)).reshape(taps, -(-cing // DOT) * DOT, -1)[:, :cing]


def pack_params(bias: ArrayLike, m: ArrayLike, f: ArrayLike, wsum: ArrayLike, group: int = 1) -> NDArray[np.int32]:
    """One value a channel each, cout long (scalars m, f broadcast) -> flat int32. Biases wrap to 32 bits.

    `bias` is folded: bias - x_zp * sum(w). A group starts a new block, as its weights do; depthwise has group 1 here.
    """
    rows = np.broadcast_arrays(*(np.asarray(row, np.int64) for row in (bias, m, f, wsum)))
    cout = rows[0].size
    coutg = _share(cout, group)
    padded = np.zeros((PARAM_ROWS, group, blocks(coutg) * LANES), np.int32)
    padded[:, :, :coutg] = np.stack(rows).reshape(PARAM_ROWS, group, coutg).astype(np.int32)
    return np.ascontiguousarray(padded.reshape(PARAM_ROWS, -1, LANES).transpose(1, 0, 2)).reshape(-1)


def add_to_bias(params: NDArray[np.int32], more: ArrayLike, group: int = 1) -> NDArray[np.int32]:
    """What `pack_params` made, with `more` added to the bias of each channel (modulo 2^32)."""
    added = np.asarray(more, np.int64)
    coutg = _share(added.size, group)
    padded = np.zeros((group, blocks(coutg) * LANES), np.int64)
    padded[:, :coutg] = added.reshape(group, coutg)
    rows = params.reshape(-1, PARAM_ROWS, LANES).astype(np.int64)
    rows[:, 0] += padded.reshape(-1, LANES)
    return rows.astype(np.int32).reshape(-1)


def fold_bias(bias: ArrayLike, x_zp: int, wsum: ArrayLike) -> NDArray[np.int32]:
    """bias - x_zp * sum(w), modulo 2^32: the sum over x then needs no zero point."""
    return (np.asarray(bias, np.int64) - x_zp * np.asarray(wsum, np.int64)).astype(np.int32)


def _share(channels: int, group: int) -> int:
    if group <= 0 or channels % group:
        raise ValueError(f"{channels} channels do not divide into {group} groups")
    return channels // group
