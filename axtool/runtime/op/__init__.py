"""The operators of pipelines: classes (`op.DecodeDetections`) and their snake_case names (`op.decode_detections`)."""

from __future__ import annotations

from typing import Any

from axtool.runtime.op.combinators import Constant, ForEach, Identity, Itemgetter, Pack, Par, Seq, Unpack
from axtool.runtime.op.device_ops import AxRuntimeModel, Depad, Dequant, NchwToNhwc, Pad, Quant
from axtool.runtime.op.load import LoadedSeq, load
from axtool.runtime.op.onnx_model import OnnxModel
from axtool.runtime.op.operator import Operator, registered

seq, par, unpack, pack, itemgetter, identity = Seq, Par, Unpack, Pack, Itemgetter, Identity
constant, for_each, onnx_model = Constant, ForEach, OnnxModel

__all__ = [
    "AxRuntimeModel", "Constant", "Depad", "Dequant", "ForEach", "Identity", "Itemgetter", "LoadedSeq", "NchwToNhwc",
    "OnnxModel", "Operator", "Pack", "Pad", "Par", "Quant", "Seq", "Unpack",
    "constant", "for_each", "identity", "itemgetter", "load", "onnx_model", "pack", "par", "seq", "unpack",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """An operator that was registered after this module: one of the user's own, by its snake_case name."""
    found = registered(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
