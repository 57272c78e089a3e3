"""MatMulNBits of onnxruntime: weights of 2, 4 or 8 bits in blocks of one scale  ->  MatMul with the float weights.

Column n of the weights is `bits`-wide numbers, the low ones of a byte first, in blocks of `block_size` along k:
w = (q - zero point) * scale of the block. The device quantizes them anew, with one scale a column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.work import Work, constant


def import_nbits(work: Work) -> int:
    nodes = [node for node in work.graph if (node.domain, node.op_type) == ("com.microsoft", "MatMulNBits")]
    return sum(_import(work, node) for node in nodes)


def _import(work: Work, node: ir.Node) -> bool:
    packed, scale, zero, groups, bias = (_given(node, at) for at in range(1, 6))
    codes, steps = constant(packed), constant(scale)
    middle, order = (None if value is None else constant(value) for value in (zero, groups))
    unknown = [value is not None and array is None for value, array in ((zero, middle), (groups, order))]
    if packed is None or codes is None or steps is None or any(unknown):
        return False
    k, n, block = (node.attributes[name].as_int() for name in ("K", "N", "block_size"))
    weights = unpacked(codes, steps, middle, order, k, n, block, bits=_bits(node))
    made = work.add_constant(weights, f"{packed.name}_dequantized")
    data = node.inputs[0]
    if bias is None:
        work.become(node, "MatMul", [data, made])
        return True
    product = work.insert(node, "MatMul", [data, made], f"{node.outputs[0].name}_product")
    product.outputs[0].shape, product.outputs[0].type = node.outputs[0].shape, node.outputs[0].type
    work.become(node, "Add", [product.outputs[0], bias])
    return True


def unpacked(
    packed: NDArray[np.uint8],
    scale: NDArray[np.floating],
    zero: NDArray[Any] | None,
    groups: NDArray[np.int32] | None,
    k: int,
    n: int,
    block: int,
    *,
    bits: int = 4,
) -> NDArray[np.floating]:
    """(k, n), of the type of the scales. `zero` is packed like the weights, or of the type of the scales; without one
    it is the middle of the range. `groups` names the block of each k, where that is not k // block.
    """
    blocks = -(-k // block)
    q = _numbers(packed.reshape(n, -1), bits)[:, : blocks * block][:, :k].astype(np.float32)
    if zero is None:
        middle = np.full((n, blocks), 2 ** (bits - 1), np.float32)
    elif zero.dtype == np.uint8:
        middle = _numbers(zero.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    else:
        middle = zero.reshape(n, blocks).astype(np.float32)
    at = np.arange(k) // block if groups is None else groups[:k]
    steps = scale.reshape(n, blocks).astype(np.float32)
    return np.ascontiguousarray(((q - middle[:, at]) * steps[:, at]).T.astype(scale.dtype))


def _numbers(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Bytes -> the numbers in them, the low bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((rows[:, :, None] >> shifts) & np.uint8(2**bits - 1)).reshape(len(rows), -1)


def _given(node: ir.Node, at: int) -> ir.Value | None:
    return node.inputs[at] if len(node.inputs) > at else None


def _bits(node: ir.Node) -> int:
    attribute = node.attributes.get("bits")
    return 4 if attribute is None else attribute.as_int()
