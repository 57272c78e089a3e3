"""A layer and a chip -> what one command keeps in the memory of each processing element (`memory.lrm_bytes_per_pe`)."""

from __future__ import annotations

from math import ceil

from axtool.ops.attention import attention_room
from axtool.ops.elements import in_bytes, is_wide, narrow, out_bytes
from axtool.ops.encoding import ATTENTIONS, MAC_OPS, PRODUCTS, ROW_OPS, SPREAD_ROWS, dims_of, window_of
from axtool.ops.regions import TABLE_BYTES, number_bytes, tensor_reads
from axtool.plan.tile_needs import boxed_inputs
from axtool.target import Target
from axtool.timing.inside import LARGE_ARRAY
from axtool.types import Layer, Program

TABLE_ROOM = 1024  # for the table beside a row of channels
IN_FLIGHT = 2  # of what is streamed: one is worked on, the next one arrives


def parts(layer: Layer, program: Program, target: Target, channels: int) -> dict[str, int]:
    """Bytes in each element, by tensor, while one command makes `channels` bytes of output channels of its pixel.

    A chip with an element for each pixel of a large tile keeps there

    - weights: those of the step under way and of the next one;
    - of a MAC layer either the input under its pixel (stride x stride pixels; neighbours hand on the rest of the
      window) with one accumulator for each lane of output channels and the finished outputs, or the input of two
      steps with an accumulator for every output channel, whichever is less: int32, int64 behind an input of 16 bits;
    - of a layer that looks at whole rows of channels those of a pixel, or where they have no room, and where they are
      summed across the array, the channels of a row of pixels that fall to one of its elements, twice;
    - of any other layer two channels of each operand, under its pixel, and of the output;
    - of an attention what `axtool.ops.attention` says, of a product of two activations what a MAC layer keeps;
    - a table that it looks up: whole, or of a larger one than that of int8 functions one of equal parts, which pass by
      and of which each element picks what it wants; of one for each channel that of two.

    A small array goes over the pixels of a box for one block of output channels after the other: of the outputs it
    holds those of a block.
    """
    attrs, out, array = layer.attrs, layer.outputs[0], target.array
    made = channels // out_bytes(attrs)
    if array.rows * array.columns < LARGE_ARRAY:
        made = min(made, array.output_channels)
    found = {name: _table_bytes(layer, program, target, name, made) for name in layer.inputs[boxed_inputs(layer) :]}
    under = _under(layer)
    if layer.op in ATTENTIONS:
        return _of_attention(layer, program, target)
    if layer.op in ROW_OPS:
        return found | _row_bytes(layer, program, target)
    if layer.op not in (*MAC_OPS, "matmul", "fp16_matmul"):
        operands = layer.inputs[: tensor_reads(layer.op, attrs)]
        for index, name in enumerate(operands):
            found[name] = found.get(name, 0) + IN_FLIGHT * under * in_bytes(attrs, index)
        found[out] = IN_FLIGHT * out_bytes(attrs) + (4 if narrow(layer.op) == "avg_pool" else 0)
        return found
    source, weights = layer.inputs[:2]
    depth, all_read = _depths(layer, program, made)
    step = min(array.input_channels, depth)
    accumulator = 8 if is_wide(layer.op) and in_bytes(attrs) == 2 else 4
    found[weights] = IN_FLIGHT * step * array.output_channels * number_bytes(layer.op, 1, attrs)
    whole = {
        source: under * all_read * in_bytes(attrs),
        out: accumulator * min(array.output_channels, made) + made * out_bytes(attrs),
    }
    streamed = {source: IN_FLIGHT * step * in_bytes(attrs), out: accumulator * made}
    return found | (whole if sum(whole.values()) <= sum(streamed.values()) else streamed)


def _of_attention(layer: Layer, program: Program, target: Target) -> dict[str, int]:
    """The row of scores, of one head, is booked on the keys."""
    a, names = layer.attrs, layer.inputs
    depth, made = (program.tensors[name].numbers[2] // int(a["heads"]) for name in (names[0], layer.outputs[0]))
    lanes, sizes = target.array.input_channels, {"number": in_bytes(a), "out": out_bytes(a)}
    room = attention_room(int(a["keys"]), depth, made, lanes, mask=bool(a["mask"]), **sizes)
    found: dict[str, int] = {layer.outputs[0]: room.result}
    for name, size in ((names[0], room.query), (names[1], room.row + room.streamed), (names[-1], room.table)):
        found[name] = found.get(name, 0) + size
    return found


def local_bytes(layer: Layer, program: Program, target: Target, channels: int) -> int:
    """Bytes in each element while one command makes so many bytes of output channels."""
    return sum(parts(layer, program, target, channels).values())


def _row_bytes(layer: Layer, program: Program, target: Target) -> dict[str, int]:
    """Bytes of the rows of an op that looks at whole ones. Results take the place of the numbers they are made of."""
    channels = program.tensors[layer.inputs[0]].numbers[2]
    each = max(in_bytes(layer.attrs), out_bytes(layer.attrs))
    whole = channels * each + TABLE_ROOM
    if layer.op not in SPREAD_ROWS and whole <= target.memory.lrm_bytes_per_pe:
        return {layer.inputs[0]: channels * each, layer.outputs[0]: IN_FLIGHT * out_bytes(layer.attrs)}
    share = ceil(channels / target.array.columns)
    return {layer.inputs[0]: IN_FLIGHT * share * each, layer.outputs[0]: IN_FLIGHT * out_bytes(layer.attrs)}


def _under(layer: Layer) -> int:
    """Input pixels that lie under one output pixel: where windows step, those of a step."""
    if narrow(layer.op) == "conv_transpose" or "stride" not in layer.attrs:
        return 1
    down, across = layer.attrs["stride"]
    return int(down * across)


def _depths(layer: Layer, program: Program, made: int) -> tuple[int, int]:
    """Input channels, in numbers, of one output channel and of `made` of them."""
    channels = dims_of(program.tensors[layer.inputs[0]].shape)[2] // in_bytes(layer.attrs)
    if narrow(layer.op) == "depthwise":
        return 1, min(channels, made)
    if layer.op in PRODUCTS:
        return channels, channels
    group = int(window_of(layer.attrs)["group"])
    depth = channels // group
    share = dims_of(program.tensors[layer.outputs[0]].shape)[2] // out_bytes(layer.attrs) // group
    return depth, min(channels, depth * ceil(made / share))


def _table_bytes(layer: Layer, program: Program, target: Target, name: str, made: int) -> int:
    """Bytes of a table in each element; weights are counted apart, parameters of a channel come with it."""
    if layer.op in MAC_OPS and name in layer.inputs[1:3]:
        return 0
    if narrow(layer.op) == "avg_pool":
        return IN_FLIGHT * 12
    size = int(program.constants[name].nbytes)
    if layer.op in SPREAD_ROWS:  # factors and offsets of the channels of an element
        return ceil(size / target.array.columns)
    if layer.attrs.get("per_channel"):
        channels = dims_of(program.tensors[layer.outputs[0]].shape)[2]
        return size // max(channels, 1) * min(IN_FLIGHT, made)
    return ceil(size / ceil(size / TABLE_BYTES)) if size else 0
