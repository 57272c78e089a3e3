"""y = mac(x) * scale + shift, one scale and shift for each output channel  ->  the same MAC op with other constants.

The weight is copied when another node reads it too, and the bias is made where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from axtool.graph.passes.work import Work, constant, per_channel, rank_of

MACS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def out_channels(mac: ir.Node) -> int | None:
    """How many output channels a MAC op with constant weights has, or None where its weight is not a plain constant."""
    weight = constant(mac.inputs[1])
    if weight is None or weight.dtype.kind != "f" or weight.ndim < 2:
        return None
    if mac.op_type == "Conv":
        return int(weight.shape[0])
    if mac.op_type == "ConvTranspose":
        return int(weight.shape[1]) * _int(mac, "group", 1)
    if mac.op_type == "Gemm":
        return int(weight.shape[0 if _int(mac, "transB", 0) else 1])
    return int(weight.shape[1]) if weight.ndim == 2 else None


def can_scale(mac: ir.Node, channels: int, shifted: bool = True) -> bool:
    """True if the MAC op can take a scale for each of `channels` channels, and a shift where there is one."""
    if out_channels(mac) != channels or (mac.op_type == "MatMul" and shifted and rank_of(mac.inputs[0]) != 2):
        return False  # only a 2-D MatMul has a form with a bias: Gemm
    bias = mac.inputs[2] if len(mac.inputs) > 2 else None
    if bias is None:
        return True
    array = constant(bias)
    return array is not None and _bias_vector(mac, array, channels) is not None


def scale_mac(work: Work, mac: ir.Node, scale: NDArray[np.float64], shift: NDArray[np.float64]) -> None:
    """Change the constants. The products are made in float64 and rounded once."""
    weight = constant(mac.inputs[1])
    assert weight is not None
    stem = mac.inputs[1].name if mac.inputs[1] is not None else "weight"
    if not np.all(scale == 1):
        scaled = weight.astype(np.float64) * _for_weight(mac, weight, scale)
        work.set_constant(mac, 1, scaled.astype(weight.dtype), f"{stem}_scaled")
    old = mac.inputs[2] if len(mac.inputs) > 2 else None
    bias = np.zeros(len(scale))
    if old is not None:
        array = constant(old)
        assert array is not None
        vector = _bias_vector(mac, array, len(scale))
        assert vector is not None
        bias = vector.astype(np.float64) * (_float(mac, "beta", 1.0) if mac.op_type == "Gemm" else 1.0)
    bias = bias * scale + shift
    if old is None and not bias.any():
        return
    if mac.op_type == "MatMul":
        mac.op_type = "Gemm"
    mac.attributes.pop("beta", None)
    work.set_constant(mac, 2, bias.astype(weight.dtype), f"{stem}_bias")


def _for_weight(mac: ir.Node, weight: NDArray[Any], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scales of the output channels in the shape in which they multiply the weight."""
    if mac.op_type == "ConvTranspose":  # (cin, cout / group, *kernel): the input channel says the group
        group = _int(mac, "group", 1)
        by_input = np.repeat(scale.reshape(group, -1), weight.shape[0] // group, axis=0)
        return by_input.reshape(by_input.shape + (1,) * (weight.ndim - 2))
    if mac.op_type == "Conv" or (mac.op_type == "Gemm" and _int(mac, "transB", 0)):
        return scale.reshape((-1,) + (1,) * (weight.ndim - 1))
    return scale.reshape(1, -1)


def _bias_vector(mac: ir.Node, array: NDArray[Any], channels: int) -> NDArray[Any] | None:
    """The bias as one number a channel; None for a Gemm whose C varies over rows."""
    gemm = mac.op_type == "Gemm"
    return per_channel(array, 2 if gemm else 1, channels, 1 if gemm else 0)


def _int(node: ir.Node, name: str, default: int) -> int:
    attr = node.attributes.get(name)
    return default if attr is None else attr.as_int()


def _float(node: ir.Node, name: str, default: float) -> float:
    attr = node.attributes.get(name)
    return default if attr is None else attr.as_float()
