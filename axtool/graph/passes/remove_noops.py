"""Nodes that change nothing  ->  gone: Identity, inference Dropout, Cast to the same type, empty Pad, ... (`RULES`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, is_float, shape_of


def remove_noops(work: Work) -> int:
    count = 0
    for node in work.nodes(*RULES):
        if _drop_empty_parts(work, node):
            count += 1
        if node.outputs and RULES[node.op_type](work, node) and not _extra_outputs_used(node):
            source = node.inputs[_kept(node)]
            assert source is not None
            if work.bypass(node.outputs[0], source):
                work.graph.remove(node, safe=True)
                count += 1
    return count


def _kept(node: ir.Node) -> int:
    """Which input passes through: the one that is not the constant."""
    return 1 if node.op_type in ("Add", "Mul") and constant(node.inputs[0]) is not None else 0


def _extra_outputs_used(node: ir.Node) -> bool:
    return any(value.uses() or value.is_graph_output() for value in node.outputs[1:])


def _no_format_change(work: Work, node: ir.Node) -> bool:
    """Identity goes, unless it carries the rounding of a value that others read unrounded."""
    return node.outputs[0] not in work.given


def _inference_dropout(work: Work, node: ir.Node) -> bool:
    return not work.attrs(node).get("training", True)


def _one_input(work: Work, node: ir.Node) -> bool:
    return len(node.inputs) == 1


def _same_type(work: Work, node: ir.Node) -> bool:
    source = node.inputs[0]
    return source is not None and source.dtype is not None and source.dtype == node.outputs[0].dtype


def _same_shape(work: Work, node: ir.Node) -> bool:
    shape = shape_of(node.inputs[0])
    return shape is not None and shape == shape_of(node.outputs[0])


def _empty_pad(work: Work, node: ir.Node) -> bool:
    attrs = work.attrs(node)
    return "before" in attrs and not any(attrs["before"]) and not any(attrs["after"])


def _whole_slice(work: Work, node: ir.Node) -> bool:
    return _same_shape(work, node) and all(step == 1 for step in work.attrs(node).get("steps", (0,)))


def _identity_perm(work: Work, node: ir.Node) -> bool:
    perm = work.attrs(node).get("perm")
    return perm is not None and perm == tuple(range(len(perm)))


def _unit_pool(work: Work, node: ir.Node) -> bool:
    attrs = work.attrs(node)
    unit = all(v == 1 for v in attrs.get("kernel", (0,)) + attrs.get("strides", (0,)))
    return unit and not any(attrs.get("pads", (1,)))


def _unit_resize(work: Work, node: ir.Node) -> bool:
    attrs = work.attrs(node)
    plain = attrs.get("coordinate") in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    return plain and all(s == 1 for s in attrs.get("scales", (0,))) and _same_shape(work, node)


def _neutral(number: float) -> Callable[[Work, ir.Node], bool]:
    """x + 0, x * 1, ... where the constant changes neither a value nor the shape."""

    def rule(work: Work, node: ir.Node) -> bool:
        at = 1 - _kept(node)
        array = constant(node.inputs[at])
        same = shape_of(node.inputs[1 - at]) == shape_of(node.outputs[0]) is not None
        return array is not None and is_float(node.inputs[at]) and same and bool(np.all(array == number))

    return rule


def _drop_empty_parts(work: Work, node: ir.Node) -> bool:
    """Concat of a part with no elements: the part goes (unless nothing would be left)."""
    if node.op_type != "Concat":
        return False
    parts = [value for value in node.inputs if 0 not in (shape_of(value) or (1,))]
    if not parts or len(parts) == len(node.inputs):
        return False
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)
    node.resize_inputs(len(parts))
    for index, value in enumerate(parts):
        node.replace_input_with(index, value)
    return True


RULES: Mapping[str, Callable[[Work, ir.Node], bool]] = {
    "Identity": _no_format_change,
    "Dropout": _inference_dropout,
    "Sum": _one_input,
    "Max": _one_input,
    "Min": _one_input,
    "Mean": _one_input,
    "Concat": _one_input,
    "Cast": _same_type,
    "CastLike": _same_type,
    "Reshape": _same_shape,
    "Flatten": _same_shape,
    "Squeeze": _same_shape,
    "Unsqueeze": _same_shape,
    "Expand": _same_shape,
    "Tile": _same_shape,
    "Slice": _whole_slice,
    "Pad": _empty_pad,
    "Transpose": _identity_perm,
    "MaxPool": _unit_pool,
    "AveragePool": _unit_pool,
    "Resize": _unit_resize,
    "Upsample": _unit_resize,
    "Add": _neutral(0.0),
    "Sub": _neutral(0.0),
    "Mul": _neutral(1.0),
    "Div": _neutral(1.0),
    "Pow": _neutral(1.0),
}
