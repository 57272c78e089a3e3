"""x - c  ->  x + (-c),  x / c  ->  x * (1/c),  for float constants: later passes look for Add and Mul alone.

A division stays where the reciprocal is not a normal number (c = 0, infinite, or so small that 1/c overflows).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, constant, is_float


def normalize_arithmetic(work: Work) -> int:
    return sum(_normalize(work, node) for node in work.nodes("Sub", "Div"))


def _normalize(work: Work, node: ir.Node) -> bool:
    value, array = node.inputs[0], constant(node.inputs[1])
    if value is None or array is None or not is_float(node.inputs[1]) or array.dtype.kind != "f" or not array.size:
        return False
    name = node.inputs[1].name if node.inputs[1] is not None else "constant"
    if node.op_type == "Sub":
        work.become(node, "Add", [value, work.add_constant(-array, f"{name}_negated")])
        return True
    with np.errstate(all="ignore"):
        inverse = (1.0 / array.astype(np.float64)).astype(array.dtype)
    smallest = np.finfo(array.dtype).tiny
    if not np.isfinite(inverse).all() or np.any(np.abs(inverse) < smallest):
        return False
    work.become(node, "Mul", [value, work.add_constant(inverse, f"{name}_inverse")])
    return True
