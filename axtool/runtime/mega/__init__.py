"""The built-in postamble kernels: each is an Operator class in a file of its own beside this one."""

from __future__ import annotations

from axtool.runtime.mega.anchored_yolo import AnchoredYoloPostamble
from axtool.runtime.mega.classification import ClassificationPostamble
from axtool.runtime.mega.dense_head import DenseHeadPostamble
from axtool.runtime.mega.detr import DetrPostamble
from axtool.runtime.mega.map_heads import CenterFacePostamble, DbnetPostamble, SigmoidMaskPostamble
from axtool.runtime.mega.retina_face import RetinaFacePostamble
from axtool.runtime.mega.segformer import SegFormerPostamble
from axtool.runtime.mega.ssd import SsdPostamble
from axtool.runtime.mega.ultra_face import UltraFacePostamble
from axtool.runtime.mega.ultralytics_yolo import UltralyticsYoloPostamble
from axtool.runtime.mega.yolact import YolactPostamble

__all__ = [
    "AnchoredYoloPostamble",
    "CenterFacePostamble",
    "ClassificationPostamble",
    "DbnetPostamble",
    "DenseHeadPostamble",
    "DetrPostamble",
    "RetinaFacePostamble",
    "SegFormerPostamble",
    "SigmoidMaskPostamble",
    "SsdPostamble",
    "UltraFacePostamble",
    "UltralyticsYoloPostamble",
    "YolactPostamble",
]
