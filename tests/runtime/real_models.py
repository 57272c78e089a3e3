"""Real models beside the product, each with the kernel of its tail: what the tests of kernels compile and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.shared_data import EXPORTS, MODELS

BYTES: Mapping[str, Any] = {"scale": 1.0}  # 0..255 as they are
SIGNED: Mapping[str, Any] = {"scale": 1.0, "mean": [127.5] * 3, "std": [127.5] * 3}  # -1..1
YOLO = "UltralyticsYoloPostamble"
ANCHORS = [
    [[10, 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 119]], [[116, 90], [156, 198], [373, 326]],
]  # fmt: skip
TINY_FACES = [  # sides in cells of 32 pixels
    [1.6032309532165527, 2.094468116760254], [6.04114294052124, 7.08012580871582],
    [2.8824589252471924, 3.5180609226226807], [4.266905784606934, 5.17885684967041],
    [9.041765213012695, 10.663080215454102],
]  # fmt: skip


@dataclass(frozen=True)
class RealModel:
    """A file, how a picture becomes its input, and its kernel with the parameters."""

    file: Path
    kernel: str
    params: Mapping[str, Any] = field(default_factory=dict)
    preparation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.file.stem


def _trained(name: str, kernel: str, preparation: Mapping[str, Any], **params: Any) -> RealModel:
    return RealModel(MODELS / f"{name}.onnx", kernel, params, preparation)


def _exported(name: str, kernel: str, **params: Any) -> RealModel:
    """A well-known architecture with weights of no training: its graph is what a framework exports."""
    return RealModel(EXPORTS / f"{name}.onnx", kernel, params)


_BLAZE = {"join": False, "outputs": [["score", 1], ["box", 16]]}
REAL_MODELS = (
    _trained("yolox_nano_coco_416", YOLO, {**BYTES, "color": "BGR"}, num_classes=80, has_objectness=True,
             form="yolox-raw"),
    _trained("ddddocr_yolox_416", YOLO, {**BYTES, "color": "BGR"}, num_classes=1, has_objectness=True,
             form="yolox-raw", tensor_roles=["class", "box", "objectness"] * 3),
    _trained("faceapi_ssdmnv1_512_decoded", "SsdPostamble", SIGNED, num_classes=1, head_classes=2,
             anchor_generator="ssd", interpolated_second=True, aspect_ratios=[1.0, 2.0, 0.5, 3.0, 0.3333]),
    _trained("retinaface_mnet025_640", "RetinaFacePostamble", {"color": "BGR", "scale": 1.0, "mean": [104, 117, 123]}),
    _trained("yunet_n_640", "DenseHeadPostamble", {**BYTES, "color": "BGR"}, join=False,
             outputs=[["cls", 1, "sigmoid"], ["obj", 1, "sigmoid"], ["bbox", 4], ["kps", 10]],
             tensor_roles=["cls", "bbox", "obj", "kps"] * 3),
    _trained("ultraface_RFB-320", "UltraFacePostamble", {"scale": 1.0, "mean": [127] * 3, "std": [128] * 3}),
    _trained("ultraface_RFB-320_nopost", "UltraFacePostamble", {"scale": 1.0, "mean": [127] * 3, "std": [128] * 3},
             decoded=False),
    _trained("blazeface_front_128", "DenseHeadPostamble", SIGNED, **_BLAZE),
    _trained("blazeface_back_256", "DenseHeadPostamble", SIGNED, **_BLAZE),
    _trained("mp_face_full_192", "DenseHeadPostamble", SIGNED, outputs=[["box", 16], ["score", 1]]),
    _trained("centerface_480x640", "CenterFacePostamble", BYTES),
    _trained("selfie_seg_256", "SigmoidMaskPostamble", {"resize": "fit"}, num_classes=1, layout="nhwc"),
    _trained("faceapi_tinyyolov2_416_decoded", "AnchoredYoloPostamble",
             {"scale": 1.0, "mean": [117.001, 114.697, 97.404], "std": [255] * 3}, num_classes=0, decode="v2",
             anchors=[[[32 * side for side in pair] for pair in TINY_FACES]]),
    _exported("ssd_mobilenet_v2_fpnlite_320", "SsdPostamble", num_classes=90),
    _exported("ssd_mobilenet_v1_300", "SsdPostamble", num_classes=90, anchor_generator="ssd"),
    _exported("yolov5s_640", "AnchoredYoloPostamble", num_classes=80, anchors=ANCHORS),
    _exported("yolov7_tiny_640", "AnchoredYoloPostamble", num_classes=80, anchors=ANCHORS),
    _exported("yolov9t_640", YOLO, num_classes=80),
    _exported("yolo11n_pose_640", YOLO, num_classes=1),
    _exported("yolo11n_seg_640", YOLO, num_classes=80),
    _exported("yolo11n_obb_640", YOLO, num_classes=15),
    _exported("yolov6n_like_dfl17_640", YOLO, num_classes=80, dfl_bins=17),
    _exported("yolox_s_640", YOLO, num_classes=80, has_objectness=True),
    _exported("yolact_r50_550", "YolactPostamble"),
)  # fmt: skip
