"""x * s, then MAC ops  ->  MAC ops with weights times s;  x + b, then unpadded MAC ops  ->  MAC ops with a new bias.

For what could not fold backwards: the learned scale and offset behind an activation (PP-LCNetV3), an input that is
divided by 255. All readers must take it, or the op would only be doubled. The scale is one number: one for each input
channel would spread the weights of an output channel, which share a scale when quantized. Padding is zero and stays
zero under a scale, but not under an offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.scale_mac import MACS, out_channels
from axtool.graph.passes.work import Work, constant, per_channel, rank_of, scalar, shape_of


def fold_forward(work: Work) -> int:
    """The last ops first, so that x * s + b folds from its end."""
    return sum(_fold(work, node) for node in reversed(tuple(work.nodes("Add", "Mul"))))


def _fold(work: Work, node: ir.Node) -> bool:
    at = 1 if constant(node.inputs[1]) is not None else 0
    array, source, value = constant(node.inputs[at]), node.inputs[1 - at], node.outputs[0]
    if array is None or source is None or value.dtype != ir.DataType.FLOAT or not np.isfinite(array).all():
        return False
    formats = source in work.given or value in work.given
    if formats or value.is_graph_output() or shape_of(source) != shape_of(value) or not value.uses():
        return False
    readers = list(value.uses())
    if node.op_type == "Mul":
        number = scalar(node.inputs[at])
        if number is None or number == 0 or not all(_takes_scale(user, index) for user, index in readers):
            return False
        for user, _ in readers:
            _scale(work, user, number)
    else:
        if not all(_takes_offset(user, index, array) for user, index in readers):
            return False
        for user, _ in readers:
            _offset(work, user, array)
    for user, index in readers:
        user.replace_input_with(index, source)
    work.graph.remove(node, safe=True)
    return True


def _takes_scale(user: ir.Node, index: int) -> bool:
    return user.op_type in MACS and user.domain == "" and index == 0 and out_channels(user) is not None


def _takes_offset(user: ir.Node, index: int, array: NDArray[Any]) -> bool:
    """True for a MAC op whose every output sees the whole offset: no padding, and a bias to put it in."""
    if not _takes_scale(user, index) or user.op_type not in ("Conv", "Gemm") or _offsets(user, array) is None:
        return False
    if user.op_type == "Gemm":
        plain = all(user.attributes[name].value == 1 for name in ("alpha", "beta") if name in user.attributes)
        crossed = "transA" in user.attributes and user.attributes["transA"].as_int()
        return plain and not crossed and _bias(user) is not None
    pads, auto = user.attributes.get("pads"), user.attributes.get("auto_pad")
    padded = (pads is not None and any(pads.as_ints())) or (auto is not None and auto.as_string().startswith("SAME"))
    return not padded and _bias(user) is not None


def _bias(user: ir.Node) -> NDArray[Any] | None:
    """The bias of each output channel, zeros where there is none; None where it is no such thing."""
    channels = out_channels(user)
    if channels is None:
        return None
    if len(user.inputs) < 3 or user.inputs[2] is None:
        return np.zeros(channels)
    array = constant(user.inputs[2])
    return None if array is None else per_channel(array, 2, channels, axis=1)


def _offsets(user: ir.Node, array: NDArray[Any]) -> NDArray[Any] | None:
    """The offset of each input channel."""
    shape, rank = shape_of(user.inputs[0]), rank_of(user.inputs[0])
    return None if shape is None or rank is None else per_channel(array, rank, shape[1], axis=1)


def _scale(work: Work, user: ir.Node, number: float) -> None:
    weight, name = constant(user.inputs[1]), user.inputs[1].name if user.inputs[1] is not None else ""
    assert weight is not None
    work.set_constant(user, 1, (weight.astype(np.float64) * number).astype(weight.dtype), f"{name}_scaled")


def _offset(work: Work, user: ir.Node, array: NDArray[Any]) -> None:
    weight, bias, offsets = constant(user.inputs[1]), _bias(user), _offsets(user, array)
    assert weight is not None
    assert bias is not None
    assert offsets is not None
    wide, along = weight.astype(np.float64), offsets.astype(np.float64)
    if user.op_type == "Gemm":
        crossed = "transB" in user.attributes and user.attributes["transB"].as_int()
        added = (wide if crossed else wide.T) @ along
    else:
        group = user.attributes["group"].as_int() if "group" in user.attributes else 1
        summed = wide.reshape(*wide.shape[:2], -1).sum(axis=2)  # (cout, cin / group)
        mine = np.repeat(along.reshape(group, -1), wide.shape[0] // group, axis=0)
        added = (summed * mine).sum(axis=1)
    name = user.inputs[1].name if user.inputs[1] is not None else ""
    work.set_constant(user, 2, (bias + added).astype(weight.dtype), f"{name}_bias")
