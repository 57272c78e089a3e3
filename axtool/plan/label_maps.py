"""arg_max(resize_nearest(x))  ->  resize_nearest(arg_max(x)): labels are found on the small map and repeated.

Repeating pixels and picking the largest channel of each commute, bit for bit: no large map of all channels is made.
"""

from __future__ import annotations

from dataclasses import replace

from axtool.ops.encoding import dims_of
from axtool.types import Layer, Program, Tensor


def labels_first(program: Program) -> Program:
    """The program with every such pair in the cheaper order."""
    readers: dict[str, list[int]] = {}
    for at, layer in enumerate(program.layers):
        for name in layer.inputs:
            readers.setdefault(name, []).append(at)
    tensors, layers = dict(program.tensors), list(program.layers)
    instead: dict[int, list[Layer]] = {}
    for at, layer in enumerate(program.layers):
        made = layer.outputs[0]
        reading = readers.get(made, [])
        if layer.op == "resize_nearest" and len(reading) == 1 and made not in program.outputs:
            pick = layers[reading[0]]
            if pick.op == "arg_max":
                instead[at] = []
                instead[reading[0]] = _swapped(layer, pick, tensors)
                del tensors[made]
    if not instead:
        return program
    ordered = [one for at, layer in enumerate(layers) for one in instead.get(at, [layer])]
    return replace(program, tensors=tensors, layers=tuple(ordered))


def _swapped(enlarge: Layer, pick: Layer, tensors: dict[str, Tensor]) -> list[Layer]:
    """Labels of the small map, repeated, and rows of pixels side by side where the labels have no axis of channels."""
    source, out = enlarge.inputs[0], pick.outputs[0]
    h, w, _ = dims_of(tensors[source].shape)
    fy, fx = enlarge.attrs["factor"]
    size = int(pick.attrs["out_bytes"])
    small, large = _name(f"{out}/small", tensors), _name(f"{out}/repeated", tensors)
    plain = tensors[out]
    tensors[small] = replace(plain, name=small, shape=(1, h, w, size), layout="channel_last", onnx_shape=(1, h, w, 1))
    origin = (*enlarge.origin, *pick.origin)
    found = Layer("arg_max", (source,), (small,), {**pick.attrs, "flat": 0}, pick.origin, pick.name)
    if not pick.attrs["flat"]:
        return [found, Layer("resize_nearest", (small,), (out,), enlarge.attrs, origin, enlarge.name)]
    tensors[large] = replace(
        tensors[small], name=large, shape=(1, h * fy, w * fx, size), onnx_shape=(1, h * fy, w * fx, 1)
    )
    return [
        found,
        Layer("resize_nearest", (small,), (large,), enlarge.attrs, origin, enlarge.name),
        Layer("reshape", (large,), (out,), {}, pick.origin, f"{pick.name}/rows"),
    ]


def _name(stem: str, taken: dict[str, Tensor]) -> str:
    name, at = stem, 2
    while name in taken:
        name, at = f"{stem}_{at}", at + 1
    return name
