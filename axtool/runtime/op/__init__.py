"""The operators of pipelines: classes (`op.DecodeDetections`) and their snake_case names (`op.decode_detections`)."""

from __future__ import annotations

from typing import Any

from axtool.runtime import classes
from axtool.runtime.classes import CLASSES, KEYPOINTS
from axtool.runtime.geometry import frame_context
from axtool.runtime.op.ax_results import (
    AxClassification,
    AxDepthMap,
    AxDetection,
    AxObb,
    AxPose,
    AxSegmentation,
    AxSemanticSegmentation,
)
from axtool.runtime.op.combinators import Constant, Identity, Itemgetter, Pack, Par, Seq, Unpack
from axtool.runtime.op.decode import (
    DecodeDetections,
    DecodeObb,
    DecodePose,
    DecodeSegmentation,
    DecodeSemanticSegmentation,
    DecodeSsd,
)
from axtool.runtime.op.decode_maps import DecodeCenterFace, DecodeDbnet
from axtool.runtime.op.decode_priors import DecodeRetinaFace, DecodeYolact
from axtool.runtime.op.decode_sets import DecodeDetr
from axtool.runtime.op.device_ops import AxRuntimeModel, Depad, Dequant, NchwToNhwc, Pad, Quant
from axtool.runtime.op.for_each import ForEach
from axtool.runtime.op.load import LoadedSeq, load
from axtool.runtime.op.observe import Dumper, Observer
from axtool.runtime.op.onnx_model import OnnxModel
from axtool.runtime.op.operator import Operator, registered
from axtool.runtime.op.postprocess import Filter, Nms, ProtoToMask, Softmax, SortBy, Split, ToImageSpace, Top1, TopK
from axtool.runtime.op.prepare import Prepare
from axtool.runtime.op.regions import CropRoi, CropRotatedRoi
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
crop_roi, crop_rotated_roi, croproi, dumper, observer = CropRoi, CropRotatedRoi, CropRoi, Dumper, Observer
centercrop, linearscaling, todtype, toimage, totensor = CenterCrop, LinearScaling, ToDtype, ToImageTensor, ToTensor
ax_classification, ax_depth_map, ax_detection, ax_obb = AxClassification, AxDepthMap, AxDetection, AxObb
ax_pose, ax_segmentation, ax_semantic_segmentation = AxPose, AxSegmentation, AxSemanticSegmentation
axclassification, axdepthmap, axdetection, axobb = AxClassification, AxDepthMap, AxDetection, AxObb
axpose, axsegmentation = AxPose, AxSegmentation
decode_detections, decode_obb, decode_pose = DecodeDetections, DecodeObb, DecodePose
decode_center_face, decode_dbnet, prepare = DecodeCenterFace, DecodeDbnet, Prepare
decode_detr, decode_retina_face, decode_segmentation = DecodeDetr, DecodeRetinaFace, DecodeSegmentation
decode_semantic_segmentation, decode_ssd, decode_yolact = DecodeSemanticSegmentation, DecodeSsd, DecodeYolact
filter, nms, proto_to_mask, softmax, sort_by, split = Filter, Nms, ProtoToMask, Softmax, SortBy, Split
to_image_space, top1, top_k, topk, foreach = ToImageSpace, Top1, TopK, TopK, ForEach
seq, par, unpack, pack, itemgetter, identity = Seq, Par, Unpack, Pack, Itemgetter, Identity
constant, for_each, onnx_model = Constant, ForEach, OnnxModel

__all__ = [
    "AxClassification", "AxDepthMap", "AxDetection", "AxObb", "AxPose", "AxRuntimeModel", "AxSegmentation",
    "AxSemanticSegmentation", "CenterCrop", "ColorConvert", "Constant", "ContrastNormalize", "CropRoi",
    "CropRotatedRoi", "DecodeCenterFace", "DecodeDbnet", "DecodeDetections", "DecodeDetr", "DecodeObb", "DecodePose",
    "DecodeRetinaFace", "DecodeSegmentation", "DecodeSemanticSegmentation", "DecodeSsd", "DecodeYolact", "Depad",
    "Dequant", "Dumper", "Filter", "ForEach", "Identity", "InterpolationMode", "Itemgetter", "Letterbox",
    "LinearScaling", "LoadedSeq", "NchwToNhwc", "Nms", "Normalize", "Observer", "OnnxModel", "Operator", "Pack", "Pad",
    "Par", "Perspective", "Prepare", "ProtoToMask", "Quant", "Resize", "Seq", "Softmax", "SortBy", "Split",
    "TensorLayout", "ToDtype", "ToImageSpace", "ToImageTensor", "ToTensor", "Top1", "TopK", "Unpack",
    "ax_classification", "ax_depth_map", "ax_detection", "ax_obb", "ax_pose", "ax_segmentation",
    "ax_semantic_segmentation", "axclassification", "axdepthmap", "axdetection", "axobb", "axpose", "axsegmentation",
    "center_crop", "centercrop", "color_convert", "colorconvert", "constant", "contrast_normalize", "crop_roi",
    "crop_rotated_roi", "croproi", "decode_center_face", "decode_dbnet", "decode_detections", "decode_detr",
    "decode_obb", "decode_pose", "decode_retina_face", "decode_segmentation", "decode_semantic_segmentation",
    "decode_ssd", "decode_yolact", "dumper", "filter", "for_each", "foreach", "frame_context", "identity", "itemgetter",
    "letterbox", "linear_scaling", "linearscaling", "load", "nms", "normalize", "observer", "onnx_model", "pack", "par",
    "perspective", "prepare", "proto_to_mask", "resize", "seq", "softmax", "sort_by", "split", "to_dtype",
    "to_image_space", "to_image_tensor", "to_tensor", "todtype", "toimage", "top1", "top_k", "topk", "totensor",
    "unpack",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The names of classes, read when they are asked for; and an operator that was registered after this module: one of
    the user's own, by its snake_case name.
    """
    if name in CLASSES or name == KEYPOINTS:
        return getattr(classes, name)
    found = registered(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
