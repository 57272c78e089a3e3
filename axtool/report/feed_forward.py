"""A Program  ->  its feed-forward blocks: pairs of linears between which each number is changed on its own.

The block of a transformer: one linear widens tokens of c channels, an activation follows, a second one leads back to c
channels. What lies between reads one tensor and keeps its numbers: activations, changes of format. A convolution
between the two, as in an inverted residual, makes it none.
"""

from __future__ import annotations

from collections.abc import Mapping

from axtool.ops.elements import in_bytes, narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, dims_of
from axtool.ops.regions import tensor_reads
from axtool.types import Layer, Program

LINEARS = ("conv", "fp16_linear")


def feed_forward_blocks(program: Program) -> tuple[tuple[int, int], ...]:
    """(the linear that widens, the linear that leads back) of each block, as indices of layers."""
    readers: dict[str, list[int]] = {}
    for index, layer in enumerate(program.layers):
        for name in layer.inputs:
            readers.setdefault(name, []).append(index)
    found = []
    for index, layer in enumerate(program.layers):
        wide = _sizes(program, layer)
        if wide is None or wide[1] <= wide[0]:
            continue
        last = _behind(program, readers, layer)
        if last is not None and _sizes(program, program.layers[last]) == wide[::-1]:
            found.append((index, last))
    return tuple(found)


def _behind(program: Program, readers: Mapping[str, list[int]], layer: Layer) -> int | None:
    """The next layer that is not element by element; None where a tensor on the way has other readers, or leaves."""
    while True:
        name = layer.outputs[0]
        if name in program.outputs or len(readers.get(name, ())) != 1:
            return None
        (index,) = readers[name]
        after = program.layers[index]
        if narrow(after.op) in MAC_OPS or after.op in LINEARS:
            return index
        if _tensors(after) != 1 or _numbers(program, after, 0) != _made(program, after):
            return None
        layer = after


def _sizes(program: Program, layer: Layer) -> tuple[int, int] | None:
    """(channels in, channels out) of a linear: a MAC layer that looks at one pixel; None for any other layer."""
    if narrow(layer.op) not in LINEARS:
        return None
    attrs = layer.attrs
    moves = [tuple(attrs.get(name, (1, 1))) for name in ("kernel", "stride")]
    if moves != [(1, 1), (1, 1)] or attrs.get("group", 1) != 1:
        return None
    return _numbers(program, layer, 0)[2], _made(program, layer)[2]


def _tensors(layer: Layer) -> int:
    return len(layer.inputs) if layer.op == "concat" else min(tensor_reads(layer.op, layer.attrs), len(layer.inputs))


def _numbers(program: Program, layer: Layer, read: int) -> tuple[int, int, int]:
    h, w, c = dims_of(program.tensors[layer.inputs[read]].shape)
    return h, w, c // in_bytes(layer.attrs, read)


def _made(program: Program, layer: Layer) -> tuple[int, int, int]:
    h, w, c = dims_of(program.tensors[layer.outputs[0]].shape)
    return h, w, c // out_bytes(layer.attrs)
