"""The networks by name, each with what was published of it: multiply-accumulates and parameters.

Published parameters count two for each channel of a BatchNorm; here it is folded, and a bias is all that is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.validation import detectors, embedded, mobile, plain, residual, yolo, yolo_later
from benchmarks.validation.shapes import Built

TORCHVISION = "torchvision documentation, table of classification weights"
HE = "He et al. 2015, Deep residual learning, table 1"
SLIM = "TensorFlow models, research/slim README"
ULTRALYTICS = "Ultralytics documentation, model tables"
DARKNET = "Darknet model page"
YOLOX = "Ge et al. 2021, YOLOX, table 6"
YOLO_V7 = "Wang et al. 2022, YOLOv7, table 2"
YOLO_V10 = "Wang et al. 2024, YOLOv10, table 1"
OSNET = "Zhou et al. 2019, Omni-scale feature learning, table 6"
VITIS = "Vitis AI 2.5 model zoo, GOPs of the network"


@dataclass(frozen=True)
class Network:
    """`gmacs` and `mparams` as published, None where nothing was. `source` says where."""

    build: Callable[[], Built]
    gmacs: float | None
    mparams: float | None
    source: str


_X400 = partial(residual.regnet, (32, 64, 160, 400), (1, 2, 7, 12), 16)
_X1600 = partial(residual.regnet, (72, 168, 408, 912), (2, 4, 10, 2), 24)
_Y400 = partial(residual.regnet, (48, 104, 208, 440), (1, 3, 6, 6), 8, 0.25)
_Y1600 = partial(residual.regnet, (48, 120, 336, 888), (2, 6, 17, 2), 24, 0.25)

NETWORKS: dict[str, Network] = {
    "resnet18": Network(partial(residual.resnet_basic, 18), 1.814, 11.690, TORCHVISION),
    "resnet34": Network(partial(residual.resnet_basic, 34), 3.664, 21.798, TORCHVISION),
    "resnet50": Network(partial(residual.resnet, 50), 4.089, 25.557, TORCHVISION),
    "resnet50-v1": Network(partial(residual.resnet, 50, stride_first=True), 3.86, 25.557, HE),
    "resnet101": Network(partial(residual.resnet, 101), 7.801, 44.549, TORCHVISION),
    "resnet101-v1": Network(partial(residual.resnet, 101, stride_first=True), 7.57, 44.549, HE),
    "resnet152": Network(partial(residual.resnet, 152), 11.514, 60.193, TORCHVISION),
    "resnet152-v1": Network(partial(residual.resnet, 152, stride_first=True), 11.3, 60.193, HE),
    "resnet152-slim": Network(partial(residual.resnet, 152, stride_last=True), 10.92, 60.193, VITIS),
    "resnet50-v2-299": Network(residual.resnet_v2_50, 6.55, 25.6, VITIS),
    "resnet18-176x80": Network(partial(residual.resnet_basic, 18, 176, 80, None), 0.55, None, VITIS),
    "resnet50-256x128": Network(partial(residual.resnet, 50, 256, 128, None), 2.65, None, VITIS),
    "sphereface20": Network(residual.sphereface20, 1.75, None, VITIS),
    "resnext50": Network(partial(residual.resnet, 50, group=32, wider=2), 4.230, 25.029, TORCHVISION),
    "wide-resnet50": Network(partial(residual.resnet, 50, wider=2), 11.398, 68.883, TORCHVISION),
    "regnet-x-400mf": Network(_X400, 0.414, 5.496, TORCHVISION),
    "regnet-x-1.6gf": Network(_X1600, 1.603, 9.190, TORCHVISION),
    "regnet-y-400mf": Network(_Y400, 0.402, 4.344, TORCHVISION),
    "regnet-y-1.6gf": Network(_Y1600, 1.612, 11.202, TORCHVISION),
    "alexnet": Network(plain.alexnet, 0.714, 61.101, TORCHVISION),
    "vgg16": Network(plain.vgg16, 15.470, 138.358, TORCHVISION),
    "squeezenet1.0": Network(partial(plain.squeezenet, "1.0"), 0.819, 1.248, TORCHVISION),
    "squeezenet1.1": Network(partial(plain.squeezenet, "1.1"), 0.349, 1.235, TORCHVISION),
    "densenet121": Network(plain.densenet121, 2.834, 7.979, TORCHVISION),
    "superpoint": Network(plain.superpoint, 26.2, None, VITIS),
    "unet-512-16": Network(partial(plain.unet, 512, 512, 16, 2, 1), None, None, ""),
    "inception-v1": Network(plain.inception_v1, 1.498, 6.625, TORCHVISION),
    "inception-v3": Network(plain.inception_v3, 5.713, 23.834, "torchvision documentation; Keras"),
    "inception-v3-224": Network(partial(plain.inception_v3, 224, counts_pads=True), None, None, ""),
    "mobilenet-v1": Network(mobile.mobilenet_v1, 0.569, 4.24, SLIM),
    "mobilenet-v1-0.5-160": Network(partial(mobile.mobilenet_v1, 0.5, 160), 0.077, 1.34, SLIM),
    "mobilenet-v2": Network(mobile.mobilenet_v2, 0.301, 3.505, TORCHVISION),
    "mobilenet-v2-1.4": Network(partial(mobile.mobilenet_v2, 1.4, 224, 1001), 0.582, 6.06, SLIM),
    "mobilenet-edge": Network(mobile.mobilenet_edge, 0.990, 4.0, "TensorFlow models, research/slim MobileNet-EdgeTPU"),
    "mobilenet-v3-small": Network(mobile.mobilenet_v3_small, 0.057, 2.543, TORCHVISION),
    "mobilenet-v3-large": Network(mobile.mobilenet_v3_large, 0.217, 5.483, TORCHVISION),
    "efficientnet-b0": Network(mobile.efficientnet_b0, 0.386, 5.289, TORCHVISION),
    "efficientnet-edgetpu-s": Network(partial(mobile.efficientnet_edgetpu, 1.0, 1.0, 224), 2.36, 5.4, VITIS),
    "efficientnet-edgetpu-m": Network(partial(mobile.efficientnet_edgetpu, 1.0, 1.1, 240), 3.67, 6.9, VITIS),
    "efficientnet-edgetpu-l": Network(partial(mobile.efficientnet_edgetpu, 1.2, 1.4, 300), 9.68, 10.6, VITIS),
    "ssd-mobilenet-v1": Network(mobile.ssd_mobilenet_v1, 1.235, 6.8, VITIS),
    "ssd-mobilenet-v2": Network(mobile.ssd_mobilenet_v2, None, None, ""),
    "yolov3-416": Network(partial(yolo.yolo_v3, 416), 32.93, 61.95, DARKNET),
    "yolov4-512": Network(partial(yolo.yolo_v4, 512), 45.6, 64.43, VITIS),
    **{f"yolov5{name}": Network(partial(yolo.yolo_v5, name), gmacs, mparams, ULTRALYTICS)
       for name, gmacs, mparams in (("n", 2.25, 1.87), ("s", 8.25, 7.23), ("m", 24.5, 21.2), ("l", 54.55, 46.5))},
    **{f"yolov8{name}": Network(partial(yolo.yolo_v8, name), gmacs, mparams, ULTRALYTICS)
       for name, gmacs, mparams in (("n", 4.35, 3.15), ("s", 14.3, 11.2), ("m", 39.45, 25.9), ("l", 82.6, 43.7))},
    **{f"yolo11{name}": Network(partial(yolo_later.yolo_11, name), gmacs, mparams, ULTRALYTICS)
       for name, gmacs, mparams in (("n", 3.25, 2.62), ("s", 10.75, 9.44), ("m", 34.0, 20.1), ("l", 43.45, 25.3),
                                    ("x", 97.45, 56.9))},
    **{f"yolo26{name}": Network(partial(yolo_later.yolo_26, name), gmacs, mparams, ULTRALYTICS)
       for name, gmacs, mparams in (("n", 2.7, 2.4), ("s", 10.35, 9.5), ("m", 34.1, 20.4), ("l", 43.2, 24.8),
                                    ("x", 96.95, 55.7))},
    **{f"yolo26{name}-obb": Network(partial(yolo_later.yolo_26, name, 1024, 15, "obb"), None, None, "")
       for name in "nsmlx"},
    "inception-resnet-v1": Network(residual.inception_resnet_v1, None, None, ""),
    **{f"yolo11{name}-{task}": Network(partial(yolo_later.yolo_11, name, size, classes, task), None, None, "")
       for name in "nl" for task, size, classes in (("pose", 640, 1), ("seg", 640, 80), ("obb", 1024, 15))},
    **{f"yolov8{name}-{task}": Network(partial(yolo.yolo_v8, name, size, classes, task), None, None, "")
       for name in "nsml" for task, size, classes in (("pose", 640, 1), ("seg", 640, 80), ("obb", 1024, 15))},
    "yolov9t": Network(partial(yolo_later.yolo_v9, "t"), None, None, ""),
    "yolov9s": Network(partial(yolo_later.yolo_v9, "s"), 13.35, 7.2, ULTRALYTICS),
    "yolov9m": Network(partial(yolo_later.yolo_v9, "m"), 38.4, 20.1, ULTRALYTICS),
    "yolov9c": Network(yolo_later.yolo_v9c, 51.05, 25.3, ULTRALYTICS),
    "gelan-s": Network(partial(yolo_later.yolo_v9, "s", grouped=True), None, None, ""),
    "gelan-m": Network(partial(yolo_later.yolo_v9, "m", grouped=True), None, None, ""),
    **{f"yolov10{name}": Network(partial(yolo_later.yolo_v10, name), gmacs, mparams, YOLO_V10)
       for name, gmacs, mparams in (("n", 3.35, 2.3), ("s", 10.8, 7.2), ("b", 46.0, 19.1))},
    "yolov3-640": Network(partial(yolo.yolo_v3, 640), None, None, ""),
    "yolov7": Network(detectors.yolo_v7, 52.35, 36.9, YOLO_V7),
    "yolov7-640x480": Network(partial(detectors.yolo_v7, 480, 640), None, None, ""),
    "yolov7-tiny": Network(detectors.yolo_v7_tiny, 2.915, 6.2, YOLO_V7),
    "yolox-s": Network(partial(detectors.yolo_x, 0.33, 0.5), 13.4, 8.97, YOLOX),
    "yolox-m": Network(partial(detectors.yolo_x, 0.67, 0.75), 36.9, 25.3, YOLOX),
    "yolox-x-1440": Network(partial(detectors.yolo_x, 1.33, 1.25, 800, 1440, 1), None, None, ""),
    "retinaface-resnet50": Network(partial(detectors.retinaface, "resnet50", 840), None, None, ""),
    "retinaface-mobile": Network(partial(detectors.retinaface, "mobile", 640), None, None, ""),
    **{f"mobilenet-v4-{name}": Network(partial(embedded.mobilenet_v4, name, size), None, None, "")
       for name, size in (("small", 224), ("medium", 224), ("large", 384))},
    **{f"efficientnet-{name}-224": Network(partial(embedded.efficientnet, width, depth), None, None, "")
       for name, width, depth in (("b1", 1.0, 1.1), ("b2", 1.1, 1.2), ("b3", 1.2, 1.4), ("b4", 1.4, 1.8))},
    "resnet10t": Network(embedded.resnet_10t, None, None, ""),
    "osnet": Network(embedded.osnet, 0.979, 2.2, OSNET),
    "fastdepth": Network(embedded.fast_depth, None, None, ""),
    "unet-256": Network(partial(embedded.unet, 256), None, None, ""),
    "unet-512": Network(partial(embedded.unet, 512), None, None, ""),
}  # fmt: skip
