"""What pipelines find, as frozen values. Coordinates are normalized to [0, 1] of the picture unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class CoordFormat(Enum):
    """How four numbers say a box."""

    XYXY = "xyxy"
    XYWH = "xywh"
    LTWH = "ltwh"


class CoordSpace(Enum):
    """What coordinates are counted in."""

    MODEL_PIXEL = "model_pixel"
    NORMALIZED = "normalized"
    IMAGE_PIXEL = "image_pixel"


@dataclass(frozen=True, slots=True)
class BBox:
    """A box by two corners."""

    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def from_xywh(cls, x: float, y: float, w: float, h: float) -> BBox:
        """From a centre and a size."""
        return cls(x - w / 2, y - h / 2, x + w / 2, y + h / 2)

    @classmethod
    def from_ltwh(cls, left: float, top: float, w: float, h: float) -> BBox:
        """From the left top corner and a size."""
        return cls(left, top, left + w, top + h)

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        return max(self.width, 0.0) * max(self.height, 0.0)

    def xyxy(self) -> tuple[float, float, float, float]:
        """Both corners."""
        return self.x0, self.y0, self.x1, self.y1

    def xywh(self) -> tuple[float, float, float, float]:
        """Centre and size."""
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2, self.width, self.height

    def ltwh(self) -> tuple[float, float, float, float]:
        """Left top corner and size."""
        return self.x0, self.y0, self.width, self.height

    def to_pixels(self, width: int, height: int) -> BBox:
        """A normalized box in pixels of a picture of this size."""
        return BBox(self.x0 * width, self.y0 * height, self.x1 * width, self.y1 * height)


@dataclass(frozen=True, slots=True)
class DetectedObject:
    """`index` is the row that it was made from."""

    index: int
    class_id: int | IntEnum
    bbox: BBox
    score: float


@dataclass(frozen=True, slots=True)
class OrientedObject:
    """A turned box: centre, size, and the angle in radians."""

    index: int
    class_id: int | IntEnum
    cx: float
    cy: float
    w: float
    h: float
    angle: float
    score: float


@dataclass(frozen=True, slots=True)
class Keypoint:
    """A point and how sure the model is that it is seen."""

    x: float
    y: float
    confidence: float


@dataclass(frozen=True, slots=True)
class PoseObject:
    """A box with its keypoints, by name where names are known."""

    index: int
    class_id: int | IntEnum
    bbox: BBox
    score: float
    keypoints: tuple[Keypoint, ...]
    keypoint_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class SegmentedObject:
    """A box with its mask: boolean (h, w) at the resolution of the prototypes."""

    index: int
    class_id: int | IntEnum
    bbox: BBox
    score: float
    mask: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Classification:
    """A class and its score."""

    class_id: int | IntEnum
    score: float


@dataclass(frozen=True, eq=False, slots=True)
class SemanticMap:
    """The class of every pixel, (h, w)."""

    classes: NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class DepthMap:
    """The depth of every pixel, (h, w), in the model's unit."""

    depth: NDArray[np.float32]


COCO = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic_light",
    "fire_hydrant", "stop_sign", "parking_meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports_ball", "kite", "baseball_bat", "baseball_glove", "skateboard", "surfboard", "tennis_racket", "bottle",
    "wine_glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot_dog", "pizza", "donut", "cake", "chair", "couch", "potted_plant", "bed", "dining_table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell_phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy_bear", "hair_drier", "toothbrush",
)  # fmt: skip
DOTA = (
    "plane", "ship", "storage_tank", "baseball_diamond", "tennis_court", "basketball_court", "ground_track_field",
    "harbor", "bridge", "large_vehicle", "small_vehicle", "helicopter", "roundabout", "soccer_ball_field",
    "swimming_pool",
)  # fmt: skip
CocoClasses = IntEnum("CocoClasses", [(name, index) for index, name in enumerate(COCO)])  # type: ignore[misc]
DotaClasses = IntEnum("DotaClasses", [(name, index) for index, name in enumerate(DOTA)])  # type: ignore[misc]
