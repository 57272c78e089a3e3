"""Types and shapes of every value, from those of the inputs, with the bodies of our own ops in place."""

from __future__ import annotations

import onnx_ir as ir

from axtool.graph import load_infer
from axtool.graph.functions import attach


def infer_shapes(model: ir.Model) -> None:
    """Fill in what onnx can infer. What it cannot infer keeps what it had: no error for an op that it does not know."""
    load_infer.infer_shapes(attach(model))
