"""If with a known condition  ->  the nodes of the branch that is taken; it still reads what it read from outside."""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, hold, values_of


def inline_if(work: Work) -> int:
    count = 0
    for node in work.nodes("If"):
        condition = constant(node.inputs[0])
        if condition is not None and condition.size == 1:
            taken = "then_branch" if condition.reshape(-1)[0] else "else_branch"
            _inline(work, node, node.attributes[taken].as_graph())
            count += 1
    return count


def _inline(work: Work, node: ir.Node, branch: ir.Graph) -> None:
    # Two branches, or two Ifs, may use the same names: what moves out must differ from every value elsewhere.
    used = {value.name for graph in work.model.graphs() if graph is not branch for value in values_of(graph)}
    results, nodes = list(branch.outputs), list(branch)
    branch.outputs.clear()
    for value in list(branch.initializers.values()):
        assert value.name is not None
        branch.initializers.pop(value.name)
        if value.name in used:
            value.name = work.fresh(f"{value.name}_inlined")
        work.graph.register_initializer(value)
    branch.remove(nodes)
    for inner in nodes:
        for value in inner.outputs:
            if value.name and value.name in used:
                value.name = work.fresh(f"{value.name}_inlined")
    work.graph.insert_before(node, nodes)
    for outer, result in zip(node.outputs, results, strict=True):
        if not work.bypass(outer, result):
            hold(work, outer, result, node)
    work.graph.remove(node, safe=True)
