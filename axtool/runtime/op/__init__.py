"""The operators of pipelines: classes (`op.DecodeDetections`) and their snake_case names (`op.decode_detections`)."""

from __future__ import annotations

from typing import Any

from axtool.runtime.geometry import frame_context
from axtool.runtime.op.combinators import Constant, ForEach, Identity, Itemgetter, Pack, Par, Seq, Unpack
from axtool.runtime.op.device_ops import AxRuntimeModel, Depad, Dequant, NchwToNhwc, Pad, Quant
from axtool.runtime.op.load import LoadedSeq, load
from axtool.runtime.op.onnx_model import OnnxModel
from axtool.runtime.op.operator import Operator, registered
from axtool.runtime.op.tensors import (
    ContrastNormalize,
    LinearScaling,
    Normalize,
    TensorLayout,
    ToDtype,
    ToImageTensor,
    ToTensor,
)
from axtool.runtime.op.transforms import (
    CenterCrop,
    ColorConvert,
    InterpolationMode,
    Letterbox,
    Perspective,
    Resize,
    colorconvert,
)

center_crop, color_convert, letterbox, perspective, resize = CenterCrop, ColorConvert, Letterbox, Perspective, Resize
contrast_normalize, linear_scaling, normalize = ContrastNormalize, LinearScaling, Normalize
to_dtype, to_image_tensor, to_tensor = ToDtype, ToImageTensor, ToTensor
centercrop, linearscaling, todtype, toimage, totensor = CenterCrop, LinearScaling, ToDtype, ToImageTensor, ToTensor
seq, par, unpack, pack, itemgetter, identity = Seq, Par, Unpack, Pack, Itemgetter, Identity
constant, for_each, onnx_model = Constant, ForEach, OnnxModel

__all__ = [
    "AxRuntimeModel", "CenterCrop", "ColorConvert", "Constant", "ContrastNormalize", "Depad", "Dequant", "ForEach",
    "Identity", "InterpolationMode", "Itemgetter", "Letterbox", "LinearScaling", "LoadedSeq", "NchwToNhwc",
    "Normalize", "OnnxModel", "Operator", "Pack", "Pad", "Par", "Perspective", "Quant", "Resize", "Seq",
    "TensorLayout", "ToDtype", "ToImageTensor", "ToTensor", "Unpack", "center_crop", "centercrop", "color_convert",
    "colorconvert", "constant", "contrast_normalize", "for_each", "frame_context", "identity", "itemgetter",
    "letterbox", "linear_scaling", "linearscaling", "load", "normalize", "onnx_model", "pack", "par", "perspective",
    "resize", "seq", "to_dtype", "to_image_tensor", "to_tensor", "todtype", "toimage", "totensor", "unpack",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """An operator that was registered after this module: one of the user's own, by its snake_case name."""
    found = registered(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
