"""A MAC layer on one chip's array -> the steps, fills and weight blocks of an output box.

A step multiplies `rows x columns` output pixels by a block of `input_channels x output_channels` weights. The taps of a
kernel take a step each, unless the array folds them into its input-channel lanes; Winograd's F(2x2, 3x3) saves 2.25 of
every step that it applies to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from axtool.ops.elements import narrow
from axtool.ops.encoding import MAC_OPS, window_of
from axtool.target import Array, Target
from axtool.types import Layer, Tile

WINOGRAD_WEIGHTS = 16 / 9  # a transformed kernel of 4x4 in place of 3x3


@dataclass(frozen=True, slots=True)
class Work:
    """What the array does for one output box: `fills` times its pixels, `channels` times its output channels.

    Each of `fills x channels` outputs takes `steps` steps of the array. Its weights are `channels x blocks` blocks.
    """

    fills: int
    channels: int
    steps: float
    blocks: int


def work(layer: Layer, tile: Tile, depth: int, cout: int, array: Array) -> Work:
    """The work of an output box, in numbers; `depth` input channels a group, `cout` output channels in all."""
    kh, kw = taps(layer)
    if narrow(layer.op) == "depthwise":
        own = array.depthwise
        if own is not None:
            fills = _fills(own.rows, own.columns, tile.h, tile.w)
            return Work(fills, ceil(tile.n / own.channels), kh * kw * own.cycles, kh * kw)
        blocks = kh * kw
        channels = ceil(tile.n / array.output_channels)
    else:
        group = int(window_of(layer.attrs)["group"])
        dense = runs_dense(layer, array)
        blocks = _blocks(kh, kw, depth * group if dense else depth, array)
        channels = _output_blocks(tile.n, cout if dense else cout // group, array.output_channels)
    steps = blocks * array.cycles_per_step / saved(layer, depth, array)
    return Work(array_fills(array, tile.h, tile.w), channels, steps, blocks)


def taps(layer: Layer) -> tuple[int, int]:
    """Taps that meet one output pixel, down and across: of a transposed convolution, those of one phase."""
    a = window_of(layer.attrs)
    kh, kw, sh, sw = (int(v) for v in (*a["kernel"], *a["stride"]))
    if narrow(layer.op) == "conv_transpose":
        return ceil(kh / sh), ceil(kw / sw)
    return kh, kw


def hops(layer: Layer) -> int:
    """Neighbours that the window reaches beyond one pixel, down and across together."""
    dilation = window_of(layer.attrs)["dilation"]
    return sum((k - 1) * d for k, d in zip(taps(layer), dilation, strict=True))


def takes_winograd(layer: Layer, depth: int, array: Array) -> bool:
    """Whether the array computes the layer by Winograd: ungrouped 3x3, stride 1, undilated, lanes full of channels."""
    attrs = layer.attrs
    return (
        array.winograd > 1
        and narrow(layer.op) == "conv"
        and attrs["group"] == 1
        and (*attrs["kernel"], *attrs["stride"], *attrs["dilation"]) == (3, 3, 1, 1, 1, 1)
        and depth >= array.input_channels
    )


def saved(layer: Layer, depth: int, array: Array) -> float:
    """Products of the layer for each one that the array does: more than one by Winograd alone."""
    return array.winograd if takes_winograd(layer, depth, array) else 1.0


def runs_dense(layer: Layer, array: Array) -> bool:
    """Whether the array computes a convolution in groups as one without, zeros between the groups."""
    return array.grouped == "dense" and narrow(layer.op) == "conv" and int(layer.attrs["group"]) > 1


def is_gathered(layer: Layer, target: Target) -> bool:
    """Whether a window is fetched tap by tap: its step is larger than regular tile flows walk.

    Windows side by side within the block of a packed flow are read by that.
    """
    stride, kernel = (max(window_of(layer.attrs)[name]) for name in ("stride", "kernel"))
    most = target.limits.get("max_flow_stride")
    if most is None or stride <= most or narrow(layer.op) == "conv_transpose":
        return False
    return not (kernel <= stride <= target.limits.get("max_packed_block", 0))


def packs(layer: Layer, target: Target) -> bool:
    """Whether a space_to_depth is a packed flow."""
    return int(layer.attrs["block"]) <= target.limits.get("max_packed_block", 0)


def weight_factor(layer: Layer, depth: int, target: Target) -> float:
    """Bytes that the chip reads for each byte of the layer's weights.

    16/9 with Winograd, since kernels come transformed. Where strided kernels are extended, each side counts as the next
    multiple of its stride. As many as there are groups, where the zeros between them are stored.
    """
    if layer.op not in MAC_OPS:
        return 1.0
    array = target.array
    if takes_winograd(layer, depth, array):
        return WINOGRAD_WEIGHTS
    if runs_dense(layer, array):
        return float(layer.attrs["group"])
    if array.strided_weights == "extended" and narrow(layer.op) == "conv":
        sides = zip(layer.attrs["kernel"], layer.attrs["stride"], strict=True)
        kh, kw = (ceil(k / s) * s / k for k, s in sides)
        return float(kh * kw)
    return 1.0


def array_fills(array: Array, height: int, width: int) -> int:
    """How many times so many output pixels fill the array; a line of tokens fills it as well as a square."""
    return _fills(array.rows, array.columns, height, width)


def peak_macs(target: Target) -> float:
    """Multiply-accumulates that the array does in a cycle."""
    array = target.array
    return array.rows * array.columns * array.input_channels * array.output_channels / array.cycles


def _fills(rows: int, columns: int, height: int, width: int) -> int:
    if 1 in (height, width):
        return ceil(height * width / (rows * columns))
    return ceil(height / rows) * ceil(width / columns)


def _blocks(kh: int, kw: int, depth: int, array: Array) -> int:
    """Blocks of input lanes that a kernel takes, as the array folds it."""
    fold = array.fold if array.fold_below is None or depth < array.fold_below else "none"
    if fold == "window":
        return ceil(kh * kw * depth / array.input_channels)
    if fold == "row":
        return kh * ceil(kw * depth / array.input_channels)
    return kh * kw * ceil(depth / array.input_channels)


def _output_blocks(channels: int, share: int, lanes: int) -> int:
    """Blocks of output lanes of so many channels, `share` of them a group: a step reads the inputs of one group."""
    whole, rest = divmod(channels, share)
    return whole * ceil(share / lanes) + ceil(rest / lanes)
