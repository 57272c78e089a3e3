"""Transpose, Transpose  ->  one or none, also across element-wise ops between them (graphs exported from TensorFlow).

What lies between a cancelled pair holds its numbers in another order than before, so it gets a new name.
"""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, made_by, only_reader, rank_of, scalar

UNARY = {
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSwish", "HardSigmoid", "Elu", "Selu", "Softplus", "Exp", "Abs",
    "Neg", "Sqrt", "Cast", "Identity", "Erf", "Gelu", "Mish", "Silu", "ThresholdedRelu",
}  # fmt: skip
BINARY = {"Add", "Mul", "Sub", "Div", "Max", "Min", "Pow"}


def cancel_transposes(work: Work) -> int:
    count = 0
    for node in work.nodes("Transpose"):
        count += _compose(work, node) or _across(work, node)
    return count


def _compose(work: Work, node: ir.Node) -> bool:
    first = made_by(node.inputs[0], "Transpose")
    perm, before = work.attrs(node).get("perm"), work.attrs(first).get("perm") if first is not None else None
    if first is None or perm is None or before is None:
        return False
    source = first.inputs[0]
    both = tuple(before[p] for p in perm)
    if both == tuple(range(len(both))):
        assert source is not None
        if not work.bypass(node.outputs[0], source):
            return False
        work.graph.remove(node, safe=True)
    else:
        work.become(node, "Transpose", [source], perm=both)
    _remove_if_unread(work, first)
    return True


def _across(work: Work, node: ir.Node) -> bool:
    """T, f, g, T' with T' undoing T and nothing else reading the values between: f, g alone."""
    perm = work.attrs(node).get("perm")
    path: list[tuple[ir.Node, int]] = []
    value = node.inputs[0]
    while value is not None and perm is not None and only_reader(value) is not None:
        maker = value.producer()
        if maker is None:
            return False
        if maker.op_type == "Transpose" and maker.domain == "":
            before = work.attrs(maker).get("perm")
            undone = before is not None and tuple(before[p] for p in perm) == tuple(range(len(perm)))
            return undone and bool(path) and _lift(work, maker, path, node)
        at = _through(maker)
        if at is None:
            return False
        path.append((maker, at))
        value = maker.inputs[at]
    return False


def _through(node: ir.Node) -> int | None:
    """Which input of an element-wise node carries the tensor; None for other nodes."""
    if node.op_type in UNARY and len(node.outputs) == 1:
        return 0
    if node.op_type in BINARY and node.domain == "" and len(node.inputs) == 2:
        for at in (0, 1):
            # A one-element constant reads the same in any order of axes, unless it adds axes of its own.
            same_rank = rank_of(node.inputs[at]) == rank_of(node.outputs[0])
            if same_rank and scalar(node.inputs[1 - at]) is not None and constant(node.inputs[at]) is None:
                return at
    return None


def _lift(work: Work, first: ir.Node, path: list[tuple[ir.Node, int]], last: ir.Node) -> bool:
    source = first.inputs[0]
    top, at = path[-1]
    final = path[0][0].outputs[0]
    top.replace_input_with(at, source)
    _remove_if_unread(work, first)
    for node, _ in path:
        value = node.outputs[0]
        value.shape, value.name = None, work.fresh(f"{value.name}_reordered")
        if source is not None:
            value.shape = source.shape
    work.take_over(path[0][0], last)
    return final.graph is work.graph


def _remove_if_unread(work: Work, node: ir.Node) -> None:
    if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
        work.graph.remove(node, safe=True)
