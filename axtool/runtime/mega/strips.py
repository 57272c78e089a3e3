"""Strips: which channels of which device buffer become which values of which output, and by what function.

Every head whose tail only reorders, joins and activates (or decodes a box from four neighbouring channels) is a list of
strips. `write_strips` is their meaning, in NumPy; the native module walks the same list and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_functions import LOGISTIC, Float, exponential_of_bins, lane_sums, linear, logistic, tanh
from axtool.runtime.tensor_info import TensorInfo

Kind = Literal["affine", "sigmoid", "tanh", "softmax", "table", "softmax_pair", "grid_box", "corner_box"]


def _none() -> Float:
    return np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Place:
    """Channel `a * group + first + k` of pixel p goes to value `offset + p * pixel_step + a * anchor_step + k`.

    a counts anchors, k the `count` channels that are taken of each; p = y * width + x counts pixels.
    """

    source: int
    target: int
    anchors: int
    group: int
    first: int
    count: int
    offset: int
    anchor_step: int
    pixel_step: int


@dataclass(frozen=True, eq=False)
class Strip:
    """One function over the channels of a `Place`. Tables are by raw byte.

    affine        (q - zero) * scale
    sigmoid       `table`, which the vector loops compute from `factors` where there are any
    tanh          likewise
    softmax       e[k] / sum(e) over the channels of an anchor, e from `table`, or from `factors` where there are any;
                  without factors the largest byte is taken to 127 first
    table         `table`
    softmax_pair  `table` (511, 2) by 255 + q0 - q1
    grid_box      x = (centre[q0] + cols[x]) * steps[0], y = (centre[q1] + rows[y]) * steps[1],
                  w = size[q2] * sizes[a, 0], h = size[q3] * sizes[a, 1], with `table` = centre, size
    corner_box    c0 = centre[q0] * sizes[a, 0] + rows[y], h0 = half[q2] * sizes[a, 0], likewise c1, h1 with cols[x]
                  (`columns_first` swaps rows and cols): c0 - h0, c1 - h1, c0 + h0, c1 + h1, with `table` = centre, half
    """

    kind: Kind
    place: Place
    table: Float
    factors: Float = field(default_factory=_none)
    scale: float = 1.0
    zero: float = 0.0
    sizes: Float = field(default_factory=_none)
    rows: Float = field(default_factory=_none)
    cols: Float = field(default_factory=_none)
    steps: Float = field(default_factory=_none)
    columns_first: bool = False


def activated(info: TensorInfo, activation: str, place: Place) -> Strip:
    """The strip of an activation over a tensor: 'none', 'sigmoid', 'tanh' or 'softmax' over each anchor's channels."""
    if activation == "sigmoid":
        made = logistic(info)
        factors = made.params[0, 3:] if made.kinds[0] == LOGISTIC else _none()
        return Strip("sigmoid", place, made.tables[0], factors)
    if activation == "tanh":
        made = tanh(info)
        return Strip("tanh", place, made.tables[0], made.params[0, 3:] if made.params.any() else _none())
    if activation == "softmax" and place.count == 2:
        return Strip("softmax_pair", place, softmax_pairs(info))
    if activation == "softmax":
        made, shifted = exponential_of_bins(info)
        return Strip("softmax", place, made.tables[0], _none() if shifted else made.params[0, 3:])
    scale, zero = float(np.ravel(info.scale)[0]), float(np.ravel(info.zero_point)[0])
    return Strip("affine", place, linear(info).tables[0], scale=scale, zero=zero)


def softmax_pairs(info: TensorInfo) -> Float:
    """(511, 2): both values of a softmax over two channels, by 255 + q0 - q1; the zero point cancels."""
    apart = np.arange(-255, 256) * float(np.float32(np.ravel(info.scale)[0]))
    with np.errstate(over="ignore"):
        return np.stack([1 / (1 + np.exp(-apart)), 1 / (1 + np.exp(apart))], 1).astype(np.float32)


def write_strips(
    strips: Sequence[Strip], buffers: Sequence[NDArray[np.int8]], infos: Sequence[TensorInfo], targets: Sequence[Float]
) -> None:
    """Fill the targets, one after another, from the padded buffers of one frame."""
    for strip in strips:
        place, info = strip.place, infos[strip.place.source]
        inside = buffers[place.source][info.inside][0]  # (h, w, c)
        pixels = inside.reshape(-1, inside.shape[2])
        channels = np.arange(place.anchors)[:, None] * place.group + place.first + np.arange(place.count)
        raw = pixels[:, channels].view(np.uint8)  # (pixels, anchors, count)
        flat = targets[place.target].reshape(-1)
        pixel, anchor, value = np.ogrid[: raw.shape[0], : place.anchors, : place.count]
        at = place.offset + pixel * place.pixel_step + anchor * place.anchor_step + value
        flat[at] = _values(strip, raw, inside.shape[1])


def _values(strip: Strip, raw: NDArray[np.uint8], width: int) -> Float:
    """The strip's function of (pixels, anchors, count) raw bytes."""
    if strip.kind == "softmax_pair":
        signed = raw.view(np.int8).astype(np.intp)
        return np.asarray(strip.table[255 + signed[..., 0] - signed[..., 1]])
    if strip.kind == "softmax":
        return _softmax(strip, raw)
    if strip.kind not in ("grid_box", "corner_box"):
        return np.asarray(strip.table[raw])
    place, sizes = strip.table[0][raw[..., :2]], strip.table[1][raw[..., 2:]] * strip.sizes
    y, x = np.divmod(np.arange(raw.shape[0]), width)
    row, col = strip.rows[y], strip.cols[x]
    if strip.kind == "grid_box":
        lines = np.stack([col, row], 1)[:, None]
        return np.concatenate([(place + lines) * strip.steps, sizes], 2)
    lines = np.stack([col, row] if strip.columns_first else [row, col], 1)[:, None]
    centre = place * strip.sizes + lines
    return np.concatenate([centre - sizes, centre + sizes], 2)


def _softmax(strip: Strip, raw: NDArray[np.uint8]) -> Float:
    """Shares of the sum, which is taken in eight lanes and then in pairs."""
    if not strip.factors.size:
        signed = raw.view(np.int8).astype(np.int16)
        raw = np.maximum(signed + 127 - signed.max(-1, keepdims=True), -128).astype(np.int8).view(np.uint8)
    e = strip.table[raw]
    return np.asarray(e * (np.float32(1) / lane_sums(e))[..., None])
