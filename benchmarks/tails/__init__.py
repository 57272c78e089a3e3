"""Tails of well-known detectors, as ONNX graphs of our own writing, each beside the kernel that replaces it."""

from __future__ import annotations

from benchmarks.tails import anchored, detr, faces, labels, maps, ssd, yolact, yolo
from benchmarks.tails.case import Case

_LABELS = "SegFormerPostamble"
_SCRFD = {"outputs": [["score", 1, "sigmoid"], ["bbox", 4], ["kps", 10]], "join": False, "batched": False}
_YOLO = "UltralyticsYoloPostamble"
_ANCHORS = [[list(pair) for pair in level] for level in anchored.ANCHORS]

CASES: tuple[Case, ...] = (
    Case("yolov8n-640", yolo.yolov8, _YOLO, {"num_classes": 80}, 640, 640, 15),
    Case(
        "yolo11n-seg-640",
        lambda: yolo.yolov8(extra="mask", channels=32),
        _YOLO,
        {"num_classes": 80},
        640,
        640,
        12,
    ),
    Case(
        "yolo11n-pose-640",
        lambda: yolo.yolov8(classes=1, extra="keypoint", channels=51),
        _YOLO,
        {"num_classes": 1},
        640,
        640,
        12,
    ),
    Case(
        "yolo11n-obb-640",
        lambda: yolo.yolov8(classes=15, extra="angle", channels=1),
        _YOLO,
        {"num_classes": 15},
        640,
        640,
        12,
    ),
    Case("yolov6-640", yolo.yolov6, _YOLO, {"num_classes": 80, "dfl_bins": 17}, 640, 640, 12),
    Case("yolox-s-640", yolo.yolox, _YOLO, {"num_classes": 80, "has_objectness": True}, 640, 640, 8),
    Case(
        "yolov5s-640", anchored.yolov5, "AnchoredYoloPostamble", {"num_classes": 80, "anchors": _ANCHORS}, 640, 640, 8
    ),
    Case("ssd-mobilenetv2-fpnlite-320", ssd.fpn_lite, "SsdPostamble", {"num_classes": 90}, 320, 320, 10),
    Case(
        "ssd-mobilenet-300",
        ssd.ssd_300,
        "SsdPostamble",
        {"num_classes": 90, "anchor_generator": "ssd"},
        300,
        300,
        8,
    ),
    Case("retinaface-mnet025-640", faces.retinaface, "RetinaFacePostamble", {}, 640, 640, 8),
    Case("scrfd-640", faces.scrfd, "DenseHeadPostamble", _SCRFD, 640, 640, 1),
    Case("yolact-r50-550", yolact.yolact, "YolactPostamble", {}, 550, 550, 15),
    Case("segformer-19-256x512", lambda: labels.labels(64, 128, 19, 4), _LABELS, {"num_classes": 19}, 512, 256, 4),
    Case("segformer-150-256x512", lambda: labels.labels(64, 128, 150, 4), _LABELS, {"num_classes": 150}, 512, 256, 8),
    Case("labels-19-256x512", lambda: labels.labels(256, 512, 19, 1), _LABELS, {"num_classes": 19}, 512, 256, 1),
    Case("detr-100", detr.detr, "DetrPostamble", {"num_classes": 92}, 800, 750, 1),
    Case("dbnet-640", lambda: maps.sigmoid_mask(640, 640), "DbnetPostamble", {}, 640, 640, 1),
    Case("centerface-480x640", maps.centerface, "CenterFacePostamble", {}, 640, 480, 1),
    Case(
        "selfie-segmentation-256",
        lambda: maps.sigmoid_mask(channels_last=True),
        "SigmoidMaskPostamble",
        {"num_classes": 1, "layout": "nhwc"},
        256,
        256,
        1,
    ),
)
