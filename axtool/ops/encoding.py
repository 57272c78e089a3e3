"""Device ops as integers: the one table that the lowering, the artefact and both engines share.

A `Layer` becomes a row of int64: `[opcode, *dims, *fields]`. `dims` are (h, w, c) of the first input and of the
output; `fields` are the op's own attributes in the order below. A tuple attribute takes as many places as it has
entries. A `Command` becomes a row `[kind, engine, layer, part, reads, writes, *tile, *views]`, a view 10 integers:
`memory, offset, y, x, c, h, w, n, row_stride, pixel_stride`. The C++ engine reads the same rows
(`axtool/native/rows.h`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.types import Command, Layer, Program, Tile, View

# op -> field names, in order. A count in the table below says how many integers a tuple field takes (default 1).
FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # MAC ops. reads: x, weights, params[, table]. acc = sum(x * w) + params.bias, pixels outside x read as x_zp.
        # act 0: q = clamp(requantize(acc) + out_zp, lo, hi).
        # act 1: v = clamp16(requantize(acc)); q = clamp(interpolate(table, v), lo, hi) (zero point is in the table).
        "conv": ("kernel", "stride", "dilation", "pad", "group", "x_zp", "out_zp", "lo", "hi", "act"),
        "depthwise": ("kernel", "stride", "dilation", "pad", "group", "x_zp", "out_zp", "lo", "hi", "act"),
        "conv_transpose": ("kernel", "stride", "dilation", "pad", "group", "x_zp", "out_zp", "lo", "hi", "act"),
        # reads: a, b. dims of b broadcast: each is a's output dim or 1 (so are a's). sub 1: a - b.
        "add": ("a", "b", "zp_a", "m_a", "f_a", "zp_b", "m_b", "f_b", "out_zp", "lo", "hi", "sub"),
        "mul": ("a", "b", "zp_a", "zp_b", "m", "f", "out_zp", "lo", "hi"),
        # parts: for each input (offset along axis, zp, m, f); m = 0 copies the bytes. axis 0 h, 1 w, 2 c.
        "concat": ("axis", "out_zp", "parts"),
        "requantize": ("zp", "m", "f", "out_zp", "lo", "hi"),
        "slice": ("start", "step"),  # (h, w, c): out[i] = in[start + i * step], step may be negative
        "pad": ("before", "mode", "value"),  # before (h, w, c); mode 0 constant, 1 reflect, 2 edge
        "max_pool": ("kernel", "stride", "dilation", "pad"),  # padding never wins
        # reads: x, constants (int32 rows of count, m, f). count: cells inside x, or inside x and its explicit padding
        # (pad, pad_end) with include_pad 1. q = clamp(requantize(sum(x - zp)) + out_zp, lo, hi).
        "avg_pool": (
            "kernel", "stride", "dilation", "pad", "pad_end", "include_pad", "zp", "out_zp", "lo", "hi",
        ),
        "resize_nearest": ("factor",),  # out[y, x] = in[y // fy, x // fx]
        # numerators over 2f on each axis, edges clamped; mode 0 half_pixel, 1 asymmetric; m includes 1 / (4 fy fx)
        "resize_linear": ("factor", "mode", "zp", "m", "f", "out_zp"),
        "lut": ("per_channel",),  # reads: x, table (256 bytes, or c x 256), entry for q at q + 128
        "transpose": ("perm",),  # of (h, w, c)
        "reshape": (),  # same elements in (h, w, c) order
        "depth_to_space": ("block", "mode"),  # mode 0 DCR, 1 CRD
        "space_to_depth": ("block",),
        # Ops on numbers of 16 bits. x_bytes, a_bytes, b_bytes, out_bytes: 1 or 2 bytes of a number, at least one is 2.
        # A tensor of 2-byte numbers has two byte channels for each: dims, tiles and views count bytes, little endian.
        # `a` and `b` count numbers. Formulas are those of the op without `wide_`, in numbers that hold every result;
        # sums are never wrapped. Zero points of 2-byte numbers are 0; lo and hi are numbers of the output.
        "wide_conv": (
            "kernel", "stride", "dilation", "pad", "group", "x_zp", "out_zp", "lo", "hi", "act", "x_bytes", "out_bytes",
        ),
        "wide_depthwise": (
            "kernel", "stride", "dilation", "pad", "group", "x_zp", "out_zp", "lo", "hi", "act", "x_bytes", "out_bytes",
        ),
        "wide_add": (
            "a", "b", "zp_a", "m_a", "f_a", "zp_b", "m_b", "f_b", "out_zp", "lo", "hi", "sub",
            "a_bytes", "b_bytes", "out_bytes",
        ),
        "wide_mul": ("a", "b", "zp_a", "zp_b", "m", "f", "out_zp", "lo", "hi", "a_bytes", "b_bytes", "out_bytes"),
        "wide_requantize": ("zp", "m", "f", "out_zp", "lo", "hi", "x_bytes", "out_bytes"),
        # reads: x, table. x_bytes 1: int16 (256,), clamp(table[q + 128], lo, hi). x_bytes 2: int32 (1025,), read as
        # the table of act 1.
        "wide_lut": ("lo", "hi", "x_bytes", "out_bytes"),
        "wide_avg_pool": (
            "kernel", "stride", "dilation", "pad", "pad_end", "include_pad", "zp", "out_zp", "lo", "hi",
            "x_bytes", "out_bytes",
        ),
        # Products of two activations; heads are rows or lie side by side in channels (see `reference_attention`).
        # reads: a (h, m, k), b (h or 1, k, n), with trans_b 1 (h or 1, n, k). `b` are the dims of b.
        "matmul": ("b", "trans_b", "zp_a", "zp_b", "m", "f", "out_zp", "lo", "hi"),
        # reads: q (1, l, c), k (1, keys, c), v (1, keys, out c), [mask (1, 1 or l, keys),] table (int16 (256,)).
        # mask 0 none, 1 one row for all queries, 2 a row for each. form 0: the exponential is iterated, 1: looked up;
        # the numbers are the same.
        "attention": (
            "heads", "keys", "mask", "zp_q", "zp_k", "m_s", "f_s", "zp_s", "zp_m", "m_m", "f_m", "zp_v", "m", "f",
            "out_zp", "form",
        ),
        # All channels of a pixel together. The numbers' own zero point cancels out.
        # reads: x, table (int16, 256): the exponential of the difference to the row's maximum, 12 fraction bits.
        # m, f: of 1 / the output's scale. form 0: the table is what an iterative exponential gives; 1: the exact one.
        "softmax": ("m", "f", "out_zp", "lo", "hi", "form"),
        # reads: x, pairs (int32, c x 2): factor and offset of each channel with f fraction bits. eps_m * 2^eps_e is
        # epsilon in the units of the row's squares. form, added up: 1 the inverse root by logarithm and exponential,
        # without it a root and divisions; 2 the mean by sums of 32 bits (the same bits either way).
        "layer_norm": ("f", "out_zp", "lo", "hi", "eps_m", "eps_e", "form"),
        # Which channel is the largest, of numbers of one scale: the first such, with last 1 the last. As int32.
        # flat 0: (h, w, 1); 1: (1, h, w), the pixels of a row side by side.
        "arg_max": ("flat", "last", "x_bytes", "out_bytes"),
        # As softmax and layer_norm, of fx32 (`reference_fx_rows`). f_x and f: fraction bits of x and of the output.
        "fx_softmax": ("f_x", "f", "form", "x_bytes", "out_bytes"),
        # reads: x, pairs (int32, c x 2): a factor and, in the output's fraction bits, an offset of each channel. shift:
        # of the product with the factor.
        "fx_layer_norm": ("shift", "eps_m", "eps_e", "form", "x_bytes", "out_bytes"),
        # fx32 (four bytes, n / 2^f) and fp16 (two). Shifts below 0 go to the left; everything saturates. lo and hi are
        # numbers of the output. The formulas are in axtool/ops/reference_mixed.py.
        "fx_add": ("a", "b", "shift_a", "shift_b", "lo", "hi", "sub", "a_bytes", "b_bytes", "out_bytes"),
        "fx_mul": ("a", "b", "shift", "lo", "hi", "a_bytes", "b_bytes", "out_bytes"),
        "fx_requantize": ("shift", "lo", "hi", "x_bytes", "out_bytes"),
        "fx_quantize": ("inverse", "shift", "rest", "out_zp", "lo", "hi", "x_bytes", "out_bytes"),
        "fx_dequantize": ("zp", "scale", "shift", "x_bytes", "out_bytes"),  # x: int8 or int16
        "fx_lut": ("first", "interval", "x_bytes", "out_bytes"),  # reads: x, table of int32 (4097,)
        "fx_from_fp16": ("f", "x_bytes", "out_bytes"),
        "fp16_from_fx": ("f", "x_bytes", "out_bytes"),
        # reads: x, weights fp16 (see packing_fp16), biases float32 of bias_rows pixels: one, or each of the output.
        # x: int8 (zp, scale, shift as in fx_dequantize, to f_x bits), fx32 of f_x bits, or fp16. f: of an fx32 output.
        "fp16_linear": ("zp", "scale", "shift", "f_x", "f", "relu", "bias_rows", "x_bytes", "out_bytes"),
        # matmul and attention on fp16 (`reference_fp16_products`): sums in float32, f fraction bits of an fx32 output.
        "fp16_matmul": ("b", "trans_b", "f", "a_bytes", "b_bytes", "out_bytes"),
        # reads: q, k, v[, mask], all fp16. scale: the bits of a float32. Scores are fx32 with f_s fraction bits.
        "fp16_attention": ("heads", "keys", "mask", "scale", "f_s", "f", "form", "x_bytes", "out_bytes"),
        # A user's op (`axtool.ops.custom`). reads: up to 3 tensors, numbers of `count` bytes. boxes: h, w, c of each
        # tensor. whole 0: a box needs all channels of its own pixels (of single rows and columns those); 1: everything.
        "custom": ("id", "whole", "count", "boxes"),
    }
)  # fmt: skip
WIDTHS: Mapping[str, int] = MappingProxyType(
    {
        "kernel": 2, "stride": 2, "dilation": 2, "pad": 2, "pad_end": 2, "a": 3, "b": 3, "parts": -1,
        "start": 3, "step": 3, "before": 3, "factor": 2, "perm": 3, "boxes": -1,
    }
)  # fmt: skip

OPCODES: Mapping[str, int] = MappingProxyType({name: code for code, name in enumerate(FIELDS)})
KINDS = ("compute", "load", "store", "move")
ENGINES = ("mac", "vector", "dma_read", "dma_write", "array")
MEMORIES = ("ext", "ocm")
ATTENTIONS = ("attention", "fp16_attention")
PRODUCTS = ("matmul", "fp16_matmul", *ATTENTIONS)  # of two activations
MAC_OPS = ("conv", "depthwise", "conv_transpose", "wide_conv", "wide_depthwise", "fp16_linear")
ROW_OPS = ("softmax", "layer_norm", "fx_softmax", "fx_layer_norm")  # all channels of a pixel are read together
# Of these, the ones that lie across the array: sums of a row go from element to element.
SPREAD_ROWS = ("layer_norm", "fx_layer_norm")
# Of a MAC op whose rows have no window: one tap, one group, and what follows the sum is not a table.
ONE_TAP: Mapping[str, Any] = MappingProxyType(
    {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 1, "act": 0}
)


def window_of(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a MAC op, with those of a window where its rows have none."""
    return attrs if "kernel" in attrs else {**ONE_TAP, **attrs}


def dims_of(shape: Sequence[int]) -> tuple[int, int, int]:
    """(h, w, c) of a stored (n, h, w, c) shape."""
    return shape[1], shape[2], shape[3]


def encode_layer(layer: Layer, program: Program) -> list[int]:
    """The row of one layer. Raises KeyError for a missing field: a lowering that forgets one is a bug."""
    row = [OPCODES[layer.op]]
    row += dims_of(program.tensors[layer.inputs[0]].shape)
    row += dims_of(program.tensors[layer.outputs[0]].shape)
    for name in FIELDS[layer.op]:
        value = layer.attrs[name]
        values = [int(v) for v in (value if isinstance(value, Iterable) else (value,))]
        width = WIDTHS.get(name, 1)
        if width >= 0 and len(values) != width:
            raise ValueError(f"{layer.name} {layer.op}.{name}: want {width} integers, got {values}")
        row += values
    return row


def decode_layer(row: Sequence[int]) -> tuple[str, tuple[int, int, int], tuple[int, int, int], dict[str, object]]:
    """(op, input dims, output dims, attributes) of a row. Raises ValueError for a row that is not one."""
    names = tuple(OPCODES)
    if len(row) < 7 or not 0 <= row[0] < len(names):
        raise ValueError(f"not a layer row: {list(row[:8])}")
    op, at = names[row[0]], 7
    attrs: dict[str, object] = {}
    for name in FIELDS[op]:
        width = WIDTHS.get(name, 1)
        count = len(row) - at if width < 0 else width
        values = tuple(int(v) for v in row[at : at + count])
        if len(values) != count:
            raise ValueError(f"{op}: row ends inside '{name}'")
        attrs[name] = values if name in WIDTHS else values[0]
        at += count
    if at != len(row):
        raise ValueError(f"{op}: {len(row) - at} integers too many")
    return op, (row[1], row[2], row[3]), (row[4], row[5], row[6]), attrs


def encode_command(command: Command) -> list[int]:
    """The row of one command."""
    row = [KINDS.index(command.kind), ENGINES.index(command.engine), command.layer, command.part]
    row += [len(command.reads), len(command.writes), *_tile(command.tile)]
    for view in command.reads + command.writes:
        row += [MEMORIES.index(view.memory), view.offset, *_tile(view.tile), view.row_stride, view.pixel_stride]
    return row


def decode_command(row: Sequence[int]) -> Command:
    """The command of a row. Raises ValueError for a row that is not one."""
    row = [int(v) for v in row]
    if len(row) < 12 or not (0 <= row[0] < len(KINDS) and 0 <= row[1] < len(ENGINES)):
        raise ValueError(f"not a command row: {row[:12]}")
    reads, writes = row[4], row[5]
    if min(reads, writes) < 0 or len(row) != 12 + 10 * (reads + writes):
        raise ValueError(f"a command with {reads} reads and {writes} writes has {len(row)} integers")
    views = []
    for at in range(12, len(row), 10):
        memory, offset, y, x, c, h, w, n, row_stride, pixel_stride = row[at : at + 10]
        if not 0 <= memory < len(MEMORIES):
            raise ValueError(f"memory {memory} does not exist")
        views.append(View(MEMORIES[memory], offset, Tile(y, x, c, h, w, n), row_stride, pixel_stride))  # type: ignore[arg-type]
    return Command(
        kind=KINDS[row[0]],  # type: ignore[arg-type]
        engine=ENGINES[row[1]],  # type: ignore[arg-type]
        layer=row[2],
        tile=Tile(*row[6:12]),
        reads=tuple(views[:reads]),
        writes=tuple(views[reads:]),
        part=row[3],
    )


def ragged(rows: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of different lengths as one array of values and the offsets where each begins (and the last ends)."""
    arrays = [np.asarray(row, np.int64) for row in rows]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    return (np.concatenate(arrays) if arrays else np.zeros(0, np.int64)), offsets


def _tile(tile: Tile) -> tuple[int, int, int, int, int, int]:
    return tile.y, tile.x, tile.c, tile.h, tile.w, tile.n
