"""A Program  ->  the same bits with fewer bytes moved: layers that commute in the cheaper order.

arg_max(resize_nearest(x)) becomes resize_nearest(arg_max(x)): labels of the small map are repeated, and no large map of
all channels is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from axtool.ops.encoding import dims_of
from axtool.types import Layer, Program, Tensor


def in_cheaper_order(program: Program) -> Program:
    """The program with every such pair swapped, of which only the second layer reads what the first makes."""
    readers: dict[str, list[int]] = {}
    for at, layer in enumerate(program.layers):
        for name in layer.inputs:
            readers.setdefault(name, []).append(at)
    tensors, instead = dict(program.tensors), dict[int, list[Layer]]()
    for at, layer in enumerate(program.layers):
        made = layer.outputs[0]
        reading = readers.get(made, [])
        if len(reading) != 1 or made in program.outputs or at in instead:
            continue
        second = program.layers[reading[0]]
        swap = SWAPS.get((layer.op, second.op))
        if swap is not None:
            instead[at], instead[reading[0]] = [], swap(layer, second, tensors)
            del tensors[made]
    if not instead:
        return program
    ordered = [one for at, layer in enumerate(program.layers) for one in instead.get(at, [layer])]
    return replace(program, tensors=tensors, layers=tuple(ordered))


def _labels_first(enlarge: Layer, pick: Layer, tensors: dict[str, Tensor]) -> list[Layer]:
    """Labels of the small map, repeated; then rows of pixels side by side where labels have no axis of channels."""
    source, out = enlarge.inputs[0], pick.outputs[0]
    h, w, _ = dims_of(tensors[source].shape)
    fy, fx = enlarge.attrs["factor"]
    size, origin = int(pick.attrs["out_bytes"]), (*enlarge.origin, *pick.origin)
    small = _like(tensors, out, "small", (h, w, size))
    found = Layer("arg_max", (source,), (small,), {**pick.attrs, "flat": 0}, pick.origin, pick.name)
    if not pick.attrs["flat"]:
        return [found, Layer("resize_nearest", (small,), (out,), enlarge.attrs, origin, enlarge.name)]
    large = _like(tensors, out, "repeated", (h * fy, w * fx, size))
    return [
        found,
        Layer("resize_nearest", (small,), (large,), enlarge.attrs, origin, enlarge.name),
        Layer("reshape", (large,), (out,), {}, pick.origin, f"{pick.name}/rows"),
    ]


Swap = Callable[[Layer, Layer, dict[str, Tensor]], list[Layer]]
SWAPS: Mapping[tuple[str, str], Swap] = MappingProxyType({("resize_nearest", "arg_max"): _labels_first})


def _like(tensors: dict[str, Tensor], model: str, what: str, dims: tuple[int, int, int]) -> str:
    """A new tensor of (h, w, channel bytes) in the format of another one; its name."""
    stem = name = f"{model}/{what}"
    at = 2
    while name in tensors:
        name, at = f"{stem}_{at}", at + 1
    plain = tensors[model]
    channels = dims[2] // plain.number_bytes
    tensors[name] = replace(
        plain, name=name, shape=(1, *dims), layout="channel_last", onnx_shape=(1, *dims[:2], channels)
    )
    return name
