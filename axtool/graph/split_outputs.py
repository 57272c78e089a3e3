"""A model and names of its tensors  ->  the model that ends there."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from axtool.errors import UsageError, nearest


def cut_outputs(model: ir.Model, outputs: Sequence[str], file: str = "") -> ir.Model:
    """Make `outputs` the outputs of `model`, in that order, and drop what they do not need.

    `model` is changed and returned. Cut before the passes run: what they fold away cannot be named afterwards. Raises
    UsageError that lists every unknown name with its nearest ones, and names the `file`.
    """
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    graph = model.graph
    known = {value.name: value for node in graph for value in node.outputs if value.name}
    wanted = [known.get(name) for name in outputs]
    missing = [name for name, value in zip(outputs, wanted, strict=True) if value is None]
    if missing:
        inputs = {value.name for value in graph.inputs}
        hints = {name: "it is an input" if name in inputs else nearest(name, sorted(known)) for name in missing}
        details = [f"'{name}': {hint}" for name, hint in hints.items()]
        what = f"no tensor is called {', '.join(repr(name) for name in missing)}"
        raise UsageError(what, where=file, hint=hints[missing[0]], details=details, code="unknown-output")
    if len(set(outputs)) != len(outputs):
        raise UsageError(f"an output is named twice: {', '.join(outputs)}", where=file, code="duplicate-output")
    graph.outputs.clear()
    graph.outputs.extend(value for value in wanted if value is not None)
    RemoveUnusedNodesPass()(model)
    return model
