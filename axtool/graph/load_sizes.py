"""No tensor is larger than a machine could hold: said from shapes alone, before anything of that size is made."""

from __future__ import annotations

import math

import onnx_ir as ir

from axtool.errors import FitError

# Of one tensor. Calibration and verify run the model in float and hold several of them at once: the kernels of
# onnxruntime take three times the size of their result, so that a larger one ends in a machine without memory.
MAX_BYTES = 2**31


def check_sizes(model: ir.Model, file: str) -> None:
    """Raise FitError for values of more than `MAX_BYTES`, each with the node that makes it."""
    lines = []
    for index, node in enumerate(model.graph):
        for value in node.outputs:
            if value.shape is None or not value.shape.is_static():
                continue
            shape = [int(d) for d in value.shape.numpy()]
            size = size_bytes(shape, value.dtype)
            if size > MAX_BYTES:
                made = f"{node.op_type} '{node.name}' (node {index}) makes '{value.name}'"
                lines.append(f"{made} of shape {shape}: {size:,} bytes, the most is {MAX_BYTES:,}")
    if lines:
        raise FitError(
            lines[0],
            where=file,
            hint="give a smaller --input-shape; check the pads, scales and shapes that lead to this size",
            code="tensor-too-large",
            details=lines,
        )


def size_bytes(shape: list[int], dtype: ir.DataType | None) -> int:
    """Bytes of a tensor; of a type that is not known as if it were float32, of strings those of a pointer each."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return 4 * math.prod(shape)
    if dtype == ir.DataType.STRING:
        return 8 * math.prod(shape)
    return (math.prod(shape) * dtype.bitwidth + 7) // 8
