"""No tensor is larger than a machine could hold: said before anything of that size is made."""

from __future__ import annotations

import math

import onnx_ir as ir

from axtool.errors import FitError

MAX_ELEMENTS = 2**31  # of one tensor; what an .axm file may describe


def check_sizes(model: ir.Model, file: str) -> None:
    """Raise FitError for values of 2^31 elements or more, each with the node that makes it."""
    lines = []
    for index, node in enumerate(model.graph):
        for value in node.outputs:
            if value.shape is None or not value.shape.is_static():
                continue
            shape = [int(d) for d in value.shape.numpy()]
            count = math.prod(shape)
            if count >= MAX_ELEMENTS:
                made = f"{node.op_type} '{node.name}' (node {index}) makes '{value.name}'"
                lines.append(f"{made} of shape {shape}: {count:,} elements, the most is 2^31")
    if lines:
        raise FitError(
            lines[0],
            where=file,
            hint="give a smaller --input-shape; check the pads, scales and shapes that lead to this size",
            code="tensor-too-large",
            details=lines,
        )
