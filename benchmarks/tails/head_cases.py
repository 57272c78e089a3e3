"""The heads whose values keep the order of the device's bytes, for `benchmarks.postamble`."""

from __future__ import annotations

from benchmarks.tails import anchored, faces, ssd
from benchmarks.tails.case import Case

_SSD_300 = {"num_classes": 90, "anchor_generator": "ssd"}

CASES: tuple[Case, ...] = (
    Case(
        "YOLOv5s",
        anchored.yolov5,
        "AnchoredYoloPostamble",
        {"num_classes": 80, "anchors": [[list(pair) for pair in level] for level in anchored.ANCHORS]},
        640,
        640,
        8,
    ),
    Case("SSD-MobileNetV2-FPNLite 320", ssd.fpn_lite, "SsdPostamble", {"num_classes": 90}, 320, 320, 10),
    Case("SSD-MobileNet 300", ssd.ssd_300, "SsdPostamble", _SSD_300, 300, 300, 8),
    Case("RetinaFace MobileNet-0.25", faces.retinaface, "RetinaFacePostamble", {}, 640, 640, 8),
)
