"""Conv, ConvTranspose, Gemm or MatMul, then BatchNormalization  ->  the MAC op with scaled weights and a new bias.

Only when nobody else reads the MAC op's output. A BatchNormalization that stands alone becomes Mul and Add with one
constant a channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.scale_mac import MACS, can_scale, scale_mac
from axtool.graph.passes.work import Work, constant, feeds_only, made_by, rank_of

Floats = NDArray[np.float64]


def fold_batchnorm(work: Work) -> int:
    count = 0
    for node in work.nodes("BatchNormalization"):
        factors = _affine(work, node)
        if factors is None:
            continue
        mac = made_by(node.inputs[0], *MACS)
        alone = mac is not None and mac.outputs[0] not in work.given and feeds_only(mac.outputs[0], node)
        if mac is not None and alone and can_scale(mac, len(factors[0])):
            scale_mac(work, mac, *factors)
            work.take_over(mac, node)
        else:
            _to_mul_add(work, node, *factors)
        count += 1
    return count


def _affine(work: Work, node: ir.Node) -> tuple[Floats, Floats] | None:
    """(scale, shift) of each channel in float64, or None where the node is not a plain inference BatchNormalization.

    Parameters that are not finite stay in their node, so that the message about them can name it.
    """
    if work.attrs(node).get("training_mode") or any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        return None
    spatial = node.attributes.get("spatial")
    arrays = [constant(value) for value in node.inputs[1:5]]
    if (spatial is not None and not spatial.as_int()) or len(arrays) != 4 or any(array is None for array in arrays):
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    epsilon = node.attributes.get("epsilon")
    root = np.sqrt(variance + (epsilon.as_float() if epsilon is not None else 1e-5))
    scale = gamma / np.where(root > 0, root, np.nan)
    shift = beta - mean * scale
    return (scale, shift) if np.isfinite(scale).all() and np.isfinite(shift).all() else None


def _to_mul_add(work: Work, node: ir.Node, scale: Floats, shift: Floats) -> None:
    source, name = node.inputs[0], node.outputs[0].name
    assert source is not None
    rank = rank_of(source) or rank_of(node.outputs[0]) or 4
    shape = (-1,) + (1,) * (rank - 2)
    dtype: Any = source.dtype.numpy() if source.dtype is not None else np.float32
    factor = work.add_constant(scale.astype(dtype).reshape(shape), f"{name}_scale")
    offset = work.add_constant(shift.astype(dtype).reshape(shape), f"{name}_shift")
    product = work.insert(node, "Mul", [source, factor], f"{name}_scaled").outputs[0]
    product.type, product.shape = source.type, source.shape
    node.resize_outputs(1)
    work.become(node, "Add", [product, offset])
