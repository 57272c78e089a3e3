"""Names of the tensors of a model, and new ones."""

from __future__ import annotations

import onnx_ir as ir


def fresh(stem: str, taken: set[str] | set[str | None]) -> str:
    """A name that is not taken, and is from now on: `stem`, or `stem_2`, ..."""
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    taken.add(name)
    return name


def value_names(model: ir.Model) -> tuple[str, ...]:
    """Names of the values of the main graph: inputs, initializers, node outputs, each once, in graph order."""
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [value for node in model.graph for value in node.outputs]
    return tuple(dict.fromkeys(value.name for value in values if value.name))
