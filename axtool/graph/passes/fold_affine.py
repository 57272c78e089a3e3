"""Conv (or another MAC op), then Mul or Add with one constant a channel  ->  the MAC op with other weights and bias.

Sub and Div with a constant have become Add and Mul before. Only when nobody else reads the MAC op's output.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from axtool.graph.passes.scale_mac import MACS, can_scale, out_channels, scale_mac
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, per_channel, rank_of, shape_of


def fold_affine(work: Work) -> int:
    return sum(_fold(work, node) for node in work.nodes("Add", "Mul"))


def _fold(work: Work, node: ir.Node) -> bool:
    at = 1 if constant(node.inputs[1]) is not None else 0
    array, value = constant(node.inputs[at]), node.inputs[1 - at]
    mac = made_by(value, *MACS)
    if array is None or mac is None or value is None or value in work.given or not feeds_only(value, node):
        return False
    channels, rank = out_channels(mac), rank_of(value)
    if channels is None or rank is None or shape_of(value) != shape_of(node.outputs[0]):
        return False
    axis = rank - 1 if mac.op_type in ("Gemm", "MatMul") else 1
    vector = per_channel(array, rank, channels, axis)
    added = node.op_type == "Add"
    if vector is None or not np.isfinite(vector).all() or not can_scale(mac, channels, shifted=added):
        return False
    ones, zeros = np.ones(channels), np.zeros(channels)
    vector = vector.astype(np.float64)
    scale_mac(work, mac, *((ones, vector) if added else (vector, zeros)))
    work.take_over(mac, node)
    return True
