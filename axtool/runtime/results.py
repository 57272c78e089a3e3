"""What pipelines find, as frozen values. Coordinates are normalized to [0, 1] of the picture unless said otherwise.

Behind `crop_roi` the picture is the part that was cut out; what begins with `frame_` is about the whole one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class CoordFormat(StrEnum):
    """How four numbers say a box."""

    XYXY = "xyxy"
    XYWH = "xywh"
    LTWH = "ltwh"


class CoordSpace(StrEnum):
    """What coordinates are counted in."""

    MODEL_PIXEL = "model_pixel"
    NORMALIZED = "normalized"
    IMAGE_PIXEL = "image_pixel"


@dataclass(frozen=True, slots=True)
class BBox:
    """A box by two corners. `_frame` is the same box in the whole picture, where this one is in a part of it."""

    x0: float
    y0: float
    x1: float
    y1: float
    _frame: BBox | None = field(default=None, repr=False, compare=False, kw_only=True)

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

    def scaled(self, width: float, height: float) -> BBox:
        """A normalized box in pixels of a picture of this size, with their fractions."""
        return BBox(self.x0 * width, self.y0 * height, self.x1 * width, self.y1 * height)

    def to_pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """A normalized box in the nearest whole pixels, none outside a picture of this size: for drawing."""
        corners = [_pixel(x, y, width, height) for x, y in ((self.x0, self.y0), (self.x1, self.y1))]
        return (*corners[0], *corners[1])

    def frame_pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """As `to_pixels`, of the whole picture of this size."""
        return (self._frame or self).to_pixels(width, height)

    def in_frame_of(self, parent: BBox) -> BBox:
        """A box in [0, 1] of the part that `parent` is, in [0, 1] of what `parent` lies in."""
        x, y, w, h = parent.ltwh()
        return BBox(x + self.x0 * w, y + self.y0 * h, x + self.x1 * w, y + self.y1 * h)


NOWHERE = BBox(0.0, 0.0, 0.0, 0.0)  # of a result that is made without a box


@dataclass(frozen=True, slots=True)
class DetectedObject:
    """`index` is the row that it was made from."""

    index: int = 0
    class_id: int | IntEnum = 0
    bbox: BBox = NOWHERE
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class OrientedObject:
    """A turned box: its centre, the lengths of its sides as shares of the picture's width and height, and the angle of
    the first side in radians, from x towards y.

    The angle is that in pixels: it is the box in pixels that is a rectangle. `_frame` are the corners in the whole
    picture, where this box is in a part of it.
    """

    index: int = 0
    class_id: int | IntEnum = 0
    cx: float = 0.0
    cy: float = 0.0
    w: float = 0.0
    h: float = 0.0
    angle: float = 0.0
    score: float = 0.0
    _frame: tuple[tuple[float, float], ...] | None = field(default=None, repr=False, compare=False, kw_only=True)

    @property
    def xywhr(self) -> tuple[float, float, float, float, float]:
        """Centre, sides and angle."""
        return self.cx, self.cy, self.w, self.h, self.angle

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """The four corners in [0, 1] of a picture as wide as high; `corners_in` is for any."""
        return self.corners_in(1, 1)

    @property
    def bbox(self) -> BBox:
        """The upright box around `corners`."""
        return BBox(*(pick(xs) for pick in (min, max) for xs in zip(*self.corners, strict=True)))

    def corners_in(self, width: float, height: float) -> tuple[tuple[float, float], ...]:
        """The four corners (x, y) in pixels of a picture of this size, with their fractions."""
        half_w, half_h = self.w * width / 2, self.h * height / 2
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        x, y = self.cx * width, self.cy * height
        sides = ((-half_w, -half_h), (half_w, -half_h), (half_w, half_h), (-half_w, half_h))
        return tuple((x + a * cos - b * sin, y + a * sin + b * cos) for a, b in sides)

    def to_corners_pixels(self, width: int, height: int) -> list[tuple[int, int]]:
        """The corners in the nearest whole pixels, none outside a picture of this size: for drawing."""
        return [_pixel(x / width, y / height, width, height) for x, y in self.corners_in(width, height)]

    def frame_corners(self, width: int, height: int) -> list[tuple[int, int]]:
        """As `to_corners_pixels`, of the whole picture of this size."""
        if self._frame is None:
            return self.to_corners_pixels(width, height)
        return [_pixel(x, y, width, height) for x, y in self._frame]


@dataclass(frozen=True, slots=True)
class Keypoint:
    """A point and how sure the model is that it is seen. `_frame` is the point in the whole picture."""

    x: float
    y: float
    confidence: float
    name: str | None = None
    _frame: tuple[float, float] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def frame_x(self, width: int) -> int:
        """The nearest whole pixel across, in the whole picture of this width."""
        return _pixel((self._frame or (self.x, self.y))[0], 0, width, 1)[0]

    def frame_y(self, height: int) -> int:
        """The nearest whole pixel down, in the whole picture of this height."""
        return _pixel(0, (self._frame or (self.x, self.y))[1], 1, height)[1]


@dataclass(frozen=True, slots=True)
class PoseObject:
    """A box with its keypoints, by name where names are known."""

    index: int = 0
    keypoints: tuple[Keypoint, ...] = ()
    bbox: BBox = NOWHERE
    score: float = 0.0
    class_id: int | IntEnum = 0
    keypoint_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class SegmentedObject:
    """A box with its mask: boolean (h, w) at the resolution of the prototypes."""

    index: int = 0
    class_id: int | IntEnum = 0
    mask: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    bbox: BBox = NOWHERE
    score: float = 0.0


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


def _pixel(x: float, y: float, width: int, height: int) -> tuple[int, int]:
    """The nearest pixel of a point in [0, 1]; one outside the picture becomes the nearest inside."""
    return round(min(max(x * width, 0), width - 1)), round(min(max(y * height, 0), height - 1))
