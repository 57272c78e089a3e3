"""QuantizeLinear, DequantizeLinear and their scales  ->  `QFormat`: unsigned values shifted to signed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.work import Work, constant
from axtool.types import Kind, QFormat

DOMAINS = ("", "com.microsoft")
# Stored type -> (kind on the device, what to take off the zero point).
KINDS: dict[str, tuple[Kind, int]] = {
    "int8": ("int8", 0),
    "uint8": ("int8", 128),
    "int16": ("int16", 0),
    "uint16": ("int16", 32768),
}


def quantizers(work: Work, op: str) -> Iterator[ir.Node]:
    """QuantizeLinear or DequantizeLinear nodes of the main graph, onnxruntime's own included."""
    for node in tuple(work.graph):
        if node.op_type == op and node.domain in DOMAINS and node.graph is work.graph:
            yield node


def format_of(node: ir.Node) -> QFormat | None:
    """The per-tensor format of a Q or DQ node, or None: more than one scale, a scale not known, a type not ours."""
    stored = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    dtype = stored.dtype.numpy().name if stored is not None and stored.dtype is not None else ""
    scale, zero = params_of(node)
    if scale is None or scale.size != 1 or zero.size != 1 or dtype not in KINDS:
        return None
    return make_format(scale, zero, dtype)


def params_of(node: ir.Node) -> tuple[NDArray[Any] | None, NDArray[Any]]:
    """(scale, zero point) arrays of a Q or DQ node; the scale is None where either is only known at run time."""
    scale = constant(node.inputs[1])
    given = node.inputs[2] if len(node.inputs) > 2 else None
    zero = np.zeros(1, np.int64) if given is None else constant(given)
    return (None, np.zeros(1, np.int64)) if scale is None or zero is None else (scale, zero.astype(np.int64))


def make_format(scale: NDArray[Any], zero: NDArray[Any], dtype: str) -> QFormat | None:
    """The format of values stored as `dtype`, or None for a type or a scale that the device has no format for."""
    if dtype not in KINDS or not np.all(np.isfinite(scale) & (scale > 0)):
        return None
    kind, shift = KINDS[dtype]
    points = tuple(int(z) - shift for z in np.ravel(zero))
    return QFormat(kind, tuple(float(s) for s in np.ravel(scale)), points)


def same_params(first: ir.Node, second: ir.Node) -> bool:
    """True if two Q or DQ nodes use the same scale and zero point."""
    (scale, zero), (other_scale, other_zero) = params_of(first), params_of(second)
    if scale is None or other_scale is None:
        return first.inputs[1] is second.inputs[1] and list(first.inputs[2:]) == list(second.inputs[2:])
    pairs = ((scale, other_scale), (zero, other_zero))
    return all(np.array_equal(np.ravel(a), np.ravel(b)) for a, b in pairs)


def dequantized(values: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any], axis: int) -> NDArray[np.float32]:
    """(values - zero) * scale, along `axis` where there are several scales."""
    shape = [1] * values.ndim
    if scale.size > 1:
        shape[axis] = scale.size
    wide = values.astype(np.int64) - (zero.reshape(shape) if zero.size > 1 else np.ravel(zero)[0])
    steps = scale.reshape(shape) if scale.size > 1 else np.ravel(scale)[:1].reshape(())
    return np.asarray(wide.astype(np.float32) * steps, np.float32)
