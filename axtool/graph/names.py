"""A model  ->  the names of its tensors."""

from __future__ import annotations

import onnx_ir as ir


def value_names(model: ir.Model) -> tuple[str, ...]:
    """Names of the values of the main graph: inputs, initializers, node outputs, each once, in graph order."""
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [value for node in model.graph for value in node.outputs]
    return tuple(dict.fromkeys(value.name for value in values if value.name))
