"""Cycles of fx32 and fp16 by the instructions of an element's 32-bit ALU, from the costs of the target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from axtool.ops.elements import in_bytes, is_wide
from axtool.types import Layer

# The cost of one tile-channel of a vector op, by op.
MIXED_COSTS: Mapping[str, str] = MappingProxyType(
    {
        "fx_add": "fx_add",
        "fx_mul": "fx_mul",
        "fx_requantize": "fx_shift",
        "fx_quantize": "requantize",
        "fx_dequantize": "fx_dequantize",
        "fx_lut": "interpolate",
        "fx_from_fp16": "fp16_convert",
        "fp16_from_fx": "fp16_convert",
    }
)


def passes_of(layer: Layer, costs: Mapping[str, float]) -> float:
    """How many times as long as over int8 the MAC array takes over the layer's inputs."""
    if layer.op == "fp16_linear":
        return costs["fp16_passes"]
    return costs["int16_passes"] if is_wide(layer.op) and in_bytes(layer.attrs) == 2 else 1


def narrowing(layer: Layer, depth: int, costs: Mapping[str, float]) -> float:
    """Cycles in which a linear makes fp16 of the inputs of one tile of tokens: once, for all its output channels."""
    size = in_bytes(layer.attrs)
    if layer.op != "fp16_linear" or size == 2:
        return 0.0
    return depth * (costs["fp16_convert"] + (costs["fx_dequantize"] if size == 1 else 0.0))
