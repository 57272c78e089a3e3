"""Pad over space, then Conv, AveragePool or MaxPool  ->  the same op with larger pads.

Conv pads with zero, so the Pad must. AveragePool may count the padding (count_include_pad). In MaxPool padding never
wins, so the Pad must hold -inf, or zero under a tensor that has no negative value.
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from axtool.graph.passes.work import Work, made_by

# Outputs of these are never negative.
NOT_NEGATIVE = ("Relu", "Sigmoid", "HardSigmoid", "Softmax", "Softplus", "Abs", "Exp")


def fold_pad(work: Work) -> int:
    return sum(_fold(work, node) for node in work.nodes("Conv", "AveragePool", "MaxPool"))


def _fold(work: Work, node: ir.Node) -> bool:
    pad = made_by(node.inputs[0], "Pad")
    if pad is None:
        return False
    given = work.attrs(pad)
    mode = node.attributes.get("auto_pad")
    if "before" not in given or given["mode"] != "constant" or (mode and mode.as_string() not in ("NOTSET", "VALID")):
        return False
    before, after = given["before"], given["after"]
    if any(before[:2]) or any(after[:2]) or min(before + after) < 0:
        return False
    own = node.attributes.get("pads")
    bare = own is None or (mode is not None and mode.as_string() == "VALID")
    pads = (0,) * 2 * len(before[2:]) if bare or own is None else tuple(own.as_ints())
    total = tuple(a + b for a, b in zip(pads, before[2:] + after[2:], strict=True))
    if not _legal(node, pad, float(given["value"]), pads, total):
        return False
    node.attributes.pop("auto_pad", None)
    node.attributes["pads"] = ir.AttrInt64s("pads", total)
    if node.op_type == "AveragePool":
        node.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
    node.replace_input_with(0, pad.inputs[0])
    if not pad.outputs[0].uses() and not pad.outputs[0].is_graph_output():
        work.graph.remove(pad, safe=True)
    return True


def _legal(node: ir.Node, pad: ir.Node, number: float, own: tuple[int, ...], total: tuple[int, ...]) -> bool:
    if node.op_type == "Conv":
        return number == 0
    kernel: Any = node.attributes["kernel_shape"].as_ints()
    if any(pad_size >= size for pad_size, size in zip(total, tuple(kernel) * 2, strict=True)):
        return False  # a pooling window may not lie wholly in the padding
    spread = node.attributes.get("dilations")
    if spread is not None and any(step != 1 for step in spread.as_ints()):
        return False  # nor may the cells of a spread one, on both sides of a small image
    ceil = node.attributes.get("ceil_mode")
    if ceil is not None and ceil.as_int():
        return False
    if node.op_type == "MaxPool":
        if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
            return False  # the indices count the padded pixels
        source = made_by(pad.inputs[0], *NOT_NEGATIVE)
        return number == -math.inf or (number == 0 and not any(own) and source is not None)
    counted = node.attributes.get("count_include_pad")
    return number == 0 and (not any(own) or (counted is not None and counted.as_int() == 1))
