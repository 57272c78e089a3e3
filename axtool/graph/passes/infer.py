"""Types and shapes of every value, from those of the inputs."""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph.functions import attach


def infer_shapes(model: ir.Model) -> None:
    """Fill in what onnx can infer. What it cannot infer stays unknown: no error for an op that it does not know."""
    from onnx_ir.passes.common import ShapeInferencePass

    attach(model)
    ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
