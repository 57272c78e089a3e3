"""Compiled models in pipelines: `from axtool.runtime import Image, Postamble, TensorInfo, mega, op`.

The names are imported when they are first used, so that the command line pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axtool.runtime import cv, device_config, mega, op, scheduler
    from axtool.runtime.classes import COCO_KEYPOINT_NAMES, CocoClasses, DotaClasses, ImagenetClasses
    from axtool.runtime.devices.context import Context
    from axtool.runtime.devices.seam import DeviceInfo
    from axtool.runtime.devices.select import select_devices
    from axtool.runtime.image import ColorFormat, Image
    from axtool.runtime.postamble import Postamble
    from axtool.runtime.profiler import OperatorProfiler
    from axtool.runtime.resources import ResourceMonitor
    from axtool.runtime.results import (
        BBox,
        Classification,
        CoordFormat,
        CoordSpace,
        DepthMap,
        DetectedObject,
        Keypoint,
        OrientedObject,
        PoseObject,
        SegmentedObject,
        SemanticMap,
    )
    from axtool.runtime.tensor_info import TensorInfo

__all__ = [
    "COCO_KEYPOINT_NAMES", "BBox", "Classification", "CocoClasses", "ColorFormat", "Context", "CoordFormat",
    "CoordSpace", "DepthMap", "DetectedObject", "DeviceInfo", "DotaClasses", "Image", "ImagenetClasses", "Keypoint",
    "OperatorProfiler", "OrientedObject", "PoseObject", "Postamble", "ResourceMonitor", "SegmentedObject",
    "SemanticMap", "TensorInfo", "cv", "device_config", "mega", "op", "scheduler", "select_devices",
]  # fmt: skip

_MODULES = ("cv", "device_config", "mega", "op", "scheduler")
_HOMES = {
    "COCO_KEYPOINT_NAMES": "axtool.runtime.classes", "CocoClasses": "axtool.runtime.classes",
    "DotaClasses": "axtool.runtime.classes", "ImagenetClasses": "axtool.runtime.classes",
    "Context": "axtool.runtime.devices.context", "DeviceInfo": "axtool.runtime.devices.seam",
    "select_devices": "axtool.runtime.devices.select",
    "ColorFormat": "axtool.runtime.image", "Image": "axtool.runtime.image",
    "Postamble": "axtool.runtime.postamble", "TensorInfo": "axtool.runtime.tensor_info",
    "OperatorProfiler": "axtool.runtime.profiler", "ResourceMonitor": "axtool.runtime.resources",
}  # fmt: skip
_RESULTS = "axtool.runtime.results"  # where every other name is


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"axtool.runtime.{name}")
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, _RESULTS)), name)
    raise AttributeError(f"module 'axtool.runtime' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
