"""Max(x, 0), Min(Max(x, a), b), Clip after Relu, Clip of Clip  ->  one Relu or Clip;  Max(x, a*x)  ->  LeakyRelu.

onnxruntime lets NaN through either form. Bounds that cross (min > max) are left as they are. Infinite bounds are
written as such: Clip without a bound ends at the largest float, Max and Min let infinity through.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.work import Work, feeds_only, is_float, made_by, rank_of, scalar


def fuse_clip(work: Work) -> int:
    count = 0
    for node in work.nodes("Max", "Min", "Clip", "Relu"):
        count += _leaky(work, node) or _merge(work, node) or _to_relu(work, node)
    return count


def bounds(work: Work, node: ir.Node | None) -> tuple[ir.Value, float, float] | None:
    """(x, lo, hi) if the node is clip(x, lo, hi) with known bounds: Clip, Relu, or Max/Min with a scalar."""
    if node is None or node.domain != "" or not node.inputs or not is_float(node.outputs[0]):
        return None
    first = node.inputs[0]
    if node.op_type == "Relu" and first is not None:
        return first, 0.0, math.inf
    if node.op_type == "Clip" and first is not None:
        attrs = work.attrs(node)
        return (first, attrs["min"], attrs["max"]) if attrs else None
    if node.op_type in ("Max", "Min") and len(node.inputs) == 2:
        for value, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            bound, rank, own = scalar(other), rank_of(other), rank_of(value)
            if value is not None and bound is not None and rank is not None and own is not None and rank <= own:
                return (value, bound, math.inf) if node.op_type == "Max" else (value, -math.inf, bound)
    return None


def _merge(work: Work, node: ir.Node) -> bool:
    """clip(clip(x)) as one Clip, when nobody reads the inner one."""
    outer = bounds(work, node)
    if outer is None:
        return False
    value, lo, hi = outer
    inner_node = made_by(value, "Clip", "Relu", "Max", "Min")
    inner = bounds(work, inner_node)
    if inner is None or inner_node is None or value in work.given or not feeds_only(value, node):
        return node.op_type in ("Max", "Min") and _write(work, node, value, lo, hi)
    source, inner_lo, inner_hi = inner
    if lo > hi or inner_lo > inner_hi:
        return False
    both = min(max(inner_lo, lo), hi), min(max(inner_hi, lo), hi)
    done = _write(work, node, source, *both)
    if done:
        work.graph.remove(inner_node, safe=True)
    return done


def _to_relu(work: Work, node: ir.Node) -> bool:
    """Clip to [0, inf) is Relu."""
    found = bounds(work, node) if node.op_type == "Clip" else None
    if found is None or found[1:] != (0.0, math.inf):
        return False
    work.become(node, "Relu", [found[0]])
    return True


def _write(work: Work, node: ir.Node, value: ir.Value, lo: float, hi: float) -> bool:
    if lo > hi:
        return False
    if (lo, hi) == (0.0, math.inf):
        work.become(node, "Relu", [value])
    elif work.opset < 11:
        work.become(node, "Clip", [value], min=lo, max=hi)
    else:
        dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
        stem = node.outputs[0].name
        limits = [work.add_constant(np.array(b, dtype), f"{stem}_{side}") for side, b in (("min", lo), ("max", hi))]
        work.become(node, "Clip", [value, *limits])
    return True


def _leaky(work: Work, node: ir.Node) -> bool:
    """Max(x, a * x) with 0 <= a <= 1, in either order, where the slope adds no axes."""
    if node.op_type != "Max" or len(node.inputs) != 2:
        return False
    for value, other in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        product = made_by(other, "Mul")
        if product is None or other is None or other in work.given or not feeds_only(other, node):
            continue
        factors = list(product.inputs)
        if value not in factors or rank_of(value) != rank_of(node.outputs[0]):
            continue
        slope = scalar(factors[1 - factors.index(value)])
        if slope is not None and 0 <= slope <= 1:
            work.become(node, "LeakyRelu", [value], alpha=slope)
            work.graph.remove(product, safe=True)
            return True
    return False
