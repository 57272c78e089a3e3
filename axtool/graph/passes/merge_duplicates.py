"""Initializers with the same type, dimensions and bytes  ->  one. 0.0 and -0.0, or (1,) and (), stay apart."""

from __future__ import annotations

from hashlib import sha256

import onnx_ir as ir

from axtool.graph.passes.work import Work


def merge_duplicates(work: Work) -> int:
    first: dict[tuple[object, ...], ir.Value] = {}
    count = 0
    for value, tensor in _alike(work):
        key = (tensor.dtype, tuple(tensor.shape.numpy()), sha256(tensor.tobytes()).digest(), work.given.get(value))
        kept = first.setdefault(key, value)
        if kept is not value:
            assert value.name is not None
            value.replace_all_uses_with(kept)
            work.graph.initializers.pop(value.name)
            count += 1
    return count


def _alike(work: Work) -> list[tuple[ir.Value, ir.TensorProtocol]]:
    """Initializers that share type, dimensions and first bytes with another: the rest need not be hashed."""
    groups: dict[tuple[object, ...], list[tuple[ir.Value, ir.TensorProtocol]]] = {}
    for value in work.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or value.is_graph_output() or tensor.dtype == ir.DataType.STRING:
            continue
        start = tensor.numpy().reshape(-1)[:16].tobytes()
        groups.setdefault((tensor.dtype, tuple(tensor.shape.numpy()), start), []).append((value, tensor))
    return [pair for group in groups.values() if len(group) > 1 for pair in group]
