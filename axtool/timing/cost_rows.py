"""Ops that look at whole rows of channels -> their cycles on the array, by what they are for.

A softmax has a pixel (a token) in each element and goes over its channels. A layer_norm lies across the array: a tile
is as many pixels as the array has rows by as many channels as it has columns, and sums go from element to element.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from axtool.ops.elements import out_bytes
from axtool.ops.encoding import SPREAD_ROWS
from axtool.ops.reference_rows import LOG_ROOT, NARROW_MEAN
from axtool.target import Array
from axtool.timing.array import array_fills
from axtool.types import Layer, Tile

EXACT_TABLE = 1
KIB = 1024
COMPARE, ADD = 2, 1  # instructions: maximum (load, compare), sum
Parts = dict[str, float]  # cycles of one tile by what they are for


def softmax_parts(form: int, costs: Mapping[str, float]) -> Parts:
    """Cycles of one tile-channel. The exponential is a look-up, or an iteration on a device without the table."""
    exponential = costs["lut"] if form == EXACT_TABLE else costs["exp"]
    return {"maximum": COMPARE, "difference": ADD, "exp": exponential, "sum": ADD, "scale": costs["requantize"]}


def layer_norm_parts(form: int, costs: Mapping[str, float], array: Array) -> Parts:
    """Cycles of one tile of rows by columns. A mean in 32 bits travels in the words of the squares' sum.

    Mean and 1/sigma go back to the elements of their row, factor and offset of a channel down its column: a hop each.
    """
    return {
        "mean": 0.0 if form & NARROW_MEAN else costs["row_sum"],
        "squares": costs["row_sum"],
        "root": 0.0 if form & LOG_ROOT else costs["layernorm_root"],
        "spread": 2 * (array.columns - 1) + 2 * (array.rows - 1),
        "scale": costs["mul"] + costs["requantize"],
    }


def row_cycles(layer: Layer, tile: Tile, channels: int, array: Array, costs: Mapping[str, float]) -> float:
    """Cycles in which the vector unit makes one box of rows of `channels` numbers."""
    if layer.op == "arg_max":  # a box of the flat form has pixels in its channels
        pixels = tile.h * tile.w * tile.n // out_bytes(layer.attrs)
        return ceil(pixels / (array.rows * array.columns)) * channels * (COMPARE + ADD)
    if layer.op in ("softmax", "fx_softmax"):
        return array_fills(array, tile.h, tile.w) * channels * sum(softmax_parts(layer.attrs["form"], costs).values())
    return norm_tiles(tile, channels, array) * sum(layer_norm_parts(layer.attrs["form"], costs, array).values())


def relayout_cycles(layer: Layer, tile: Tile, channels: int, array: Array, costs: Mapping[str, float]) -> float:
    """Cycles in which rows come to lie across the array, and back: a tile copy each way, of numbers of up to a word.

    The layers beside a layer_norm have a token in each element.
    """
    if layer.op not in SPREAD_ROWS:
        return 0.0
    return 2 * norm_tiles(tile, channels, array) * costs["copy_per_kib"] * array.rows * array.columns / KIB


def norm_tiles(tile: Tile, channels: int, array: Array) -> int:
    """Tiles of a layer_norm: pixels down, channels across."""
    return ceil(tile.h * tile.w / array.rows) * ceil(channels / array.columns)
