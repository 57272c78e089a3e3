"""A model  ->  where the channels of its outputs are, which outputs a Concat made, and where its inputs lie in them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Part:
    """Entries [start, stop) of an axis: what one input of a Concat gave."""

    name: str
    axis: int
    start: int
    stop: int


def parts_of(model: ir.Model) -> dict[str, tuple[Part, ...]]:
    """The parts of each output that is a Concat, or a Concat that was only transposed, of more than one input."""
    found = {value.name or "": _parts(value) for value in model.graph.outputs}
    return {name: parts for name, parts in found.items() if len(parts) > 1}


MAPS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization", "Resize")
SAME = (
    "Identity", "Sigmoid", "HardSigmoid", "Relu", "LeakyRelu", "Clip", "Tanh", "Exp", "Sqrt", "Softmax", "Add", "Sub",
    "Mul", "Div", "Cast", "Silu", "HardSwish", "Elu", "PRelu", "Gelu", "Mish",
)  # fmt: skip


def channel_axes(model: ir.Model) -> dict[str, int]:
    """The axis of the channels of each rank-4 output whose graph says it: a map, or a map moved by a Transpose."""
    found = {value.name or "": _axis(value) for value in model.graph.outputs if value.shape and len(value.shape) == 4}
    return {name: axis for name, axis in found.items() if axis is not None}


def _axis(value: ir.Value) -> int | None:
    shape = value.shape
    while (node := value.producer()) is not None and node.op_type in SAME:
        same = [v for v in node.inputs if v is not None and v.shape is not None and v.shape == shape]
        if not same:
            return None
        value = same[0]
    if node is None:
        return None
    if node.op_type == "Transpose" and not node.domain and node.inputs[0] is not None:
        perm = node.attributes.get("perm")
        before = _axis(node.inputs[0])
        moved = [] if perm is None else list(perm.as_ints())
        if moved == [0, 2, 3, 1] and before is None:
            return 3
        return moved.index(before) if before in moved else None
    return 1 if node.op_type in MAPS else None


def _parts(value: ir.Value) -> tuple[Part, ...]:
    node = value.producer()
    if node is None or node.domain:
        return ()
    if node.op_type in ("Identity", "Transpose") and node.inputs[0] is not None:
        parts = _parts(node.inputs[0])
        return parts if node.op_type == "Identity" else _moved(node, parts)
    if node.op_type != "Concat" or value.shape is None:
        return ()
    axis, at = node.attributes["axis"].as_int() % len(value.shape), 0
    made: list[Part] = []
    for source in node.inputs:
        size = None if source is None or source.shape is None else source.shape[axis]
        if not isinstance(size, int) or source is None:
            return ()
        made.append(Part(source.name or "", axis, at, at + size))
        at += size
    return tuple(part for part in made if part.stop > part.start)


def _moved(node: ir.Node, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    perm = node.attributes.get("perm")
    if not parts or perm is None:  # the default reverses the axes of a rank that nothing here needs
        return ()
    axis = list(perm.as_ints()).index(parts[0].axis)
    return tuple(Part(part.name, axis, part.start, part.stop) for part in parts)
