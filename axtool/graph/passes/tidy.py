"""Local functions inlined, Constant nodes made initializers; at the end nodes and initializers that nobody reads go."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from axtool.graph.functions import DOMAINS
from axtool.graph.passes.work import Work, hold, remove_unused


def inline_functions(work: Work) -> int:
    """Every model-local function but our own; names inside are made unique for each call."""
    from onnx_ir.passes.common import InlinePass

    local = [key for key in work.model.functions if key[0] not in DOMAINS]
    if not local:
        return 0
    before = work.graph.num_nodes()
    InlinePass(lambda function: function.domain not in DOMAINS)(work.model)
    for key in local:
        work.model.functions.pop(key, None)
    work.__post_init__()
    return max(1, work.graph.num_nodes() - before)


def lift_constants(work: Work) -> int:
    """Constant nodes of the main graph, in each of the forms that ONNX has for their value.

    An initializer that is an output of the model gets an Identity: stages hand on what nodes make.
    """
    count = _hold_outputs(work)
    for node in work.nodes("Constant"):
        value, tensor = node.outputs[0], _tensor(node)
        if tensor is None:
            continue
        if tensor.dtype != ir.DataType.STRING:
            name, kind, shape = work.fresh(f"{value.name}_lifted"), ir.TensorType(tensor.dtype), tensor.shape.numpy()
            made = ir.Value(name=name, type=kind, shape=ir.Shape(shape), const_value=tensor)
            work.graph.register_initializer(made)
            if value.is_graph_output():
                hold(work, value, made, node)
            else:
                value.replace_all_uses_with(made)
                old, value.name = value.name, work.fresh(f"{value.name}_unused")
                made.name = old
            work.graph.remove(node, safe=True)
            count += 1
    return count


def _hold_outputs(work: Work) -> int:
    held = 0
    for index, value in enumerate(list(work.graph.outputs)):
        if value.is_initializer() and not value.is_graph_input() and len(work.graph):
            name = value.name
            made = work.insert(work.graph[0], "Identity", [value], f"{name}_held").outputs[0]
            made.type, made.shape = value.type, value.shape
            work.graph.outputs[index] = made
            value.name, made.name = work.fresh(f"{name}_value"), name
            held += 1
    return held


def _tensor(node: ir.Node) -> ir.TensorProtocol | None:
    for name, attr in node.attributes.items():
        if attr.is_ref():
            return None
        if name == "value":
            return attr.as_tensor()
        dtype: Any = {"value_float": np.float32, "value_floats": np.float32}.get(name)
        dtype = dtype or {"value_int": np.int64, "value_ints": np.int64}.get(name)
        if dtype is not None:
            return ir.tensor(np.asarray(attr.value, dtype))
    return None


def drop_unused(work: Work) -> int:
    """Dead nodes, optional outputs that nobody reads, initializers without readers. The signature stays."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    before = work.graph.num_nodes() + len(work.graph.initializers)
    remove_unused(work)
    RemoveUnusedNodesPass()(work.model)
    return before - work.graph.num_nodes() - len(work.graph.initializers)
