"""Operators that cut out what was found: the picture of the frame in, an object or a row says which part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import geometry
from axtool.runtime.op.operator import Operator, choice
from axtool.runtime.op.transforms import like, pixels_of
from axtool.runtime.results import BBox, CoordFormat, OrientedObject

_TO_BOX: dict[CoordFormat, Callable[[float, float, float, float], BBox]] = {
    CoordFormat.XYXY: BBox, CoordFormat.XYWH: BBox.from_xywh, CoordFormat.LTWH: BBox.from_ltwh,
}  # fmt: skip


class CropRoi(Operator):
    """The part of the frame's picture that a box marks; what follows is about that part.

    With `property`, the box is that attribute of an object, often 'bbox': normalized, as results are, or in pixels of
    the picture where a coordinate is above 1. With `indices`, it is four columns of a row, in pixels of the model's
    input, and `format` says what they mean. Edges are rounded to whole pixels; what sticks out of the picture is cut.
    Raises ValueError for a box without an area or outside the picture, TypeError where there is no picture.
    """

    property: str | None = None
    indices: Sequence[int] | None = None
    format: CoordFormat | str = CoordFormat.XYXY

    def __post_init__(self) -> None:
        self.format = choice(CoordFormat, self.format, "format of a box")
        if (self.property is None) == (self.indices is None):
            raise ValueError(
                "crop_roi wants property, the attribute that is the box ('bbox'), or indices, four columns of a row"
            )
        if self.indices is not None and (len(self.indices) != 4 or min(self.indices) < 0):
            raise ValueError(f"crop_roi: a box is four columns counted from 0, got indices={tuple(self.indices)}")

    def __call__(self, item: Any) -> Any:
        frame, image, pixels = _picture("crop_roi")
        box = self._of_object(item, pixels) if self.indices is None else self._of_row(item, frame)
        x0, y0, x1, y1 = _whole(box, pixels)
        made = like(image, np.ascontiguousarray(pixels[y0:y1, x0:x1]))
        frame.cut(made, geometry.scaled(1, 1, -x0, -y0))
        return made

    def _of_object(self, item: Any, pixels: NDArray[np.uint8]) -> BBox:
        name = str(self.property)
        box = getattr(item, name, None)
        if box is None:
            raise TypeError(f"crop_roi: {type(item).__name__} has no box '{name}'; say which attribute it is")
        height, width = pixels.shape[:2]
        if isinstance(item, OrientedObject) and name == "bbox":
            return _around(np.array(item.corners_in(width, height)))
        corners = BBox(*box) if isinstance(box, (tuple, list)) else box
        return corners.scaled(width, height) if all(0 <= value <= 1 for value in corners.xyxy()) else corners

    def _of_row(self, row: Any, frame: geometry.Frame) -> BBox:
        values = np.asarray(row, np.float64)
        if values.ndim != 1:
            raise ValueError(f"crop_roi wants one row, got {values.shape}; put it into for_each")
        if max(self.indices or (), default=0) >= len(values):
            raise ValueError(f"crop_roi: a row of {len(values)} has no columns {tuple(self.indices or ())}")
        x0, y0, x1, y1 = _TO_BOX[CoordFormat(self.format)](*values[list(self.indices or ())].tolist()).xyxy()
        corners = frame.to_image([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        return _around(corners) if x1 > x0 and y1 > y0 else BBox(x0, y0, x1, y1)  # a box inside out stays one


class CropRotatedRoi(Operator):
    """The part of the frame's picture that a turned box marks, turned upright: OpenCV's bilinear affine warp.

    Takes an OrientedObject, as `ax_obb` gives them; `w` becomes the width. Black is what lies outside the picture.
    Raises ValueError for a box without an area or outside the picture, TypeError where there is no picture.
    """

    def __call__(self, item: Any) -> Any:
        import cv2

        if not isinstance(item, OrientedObject):
            raise TypeError(
                f"crop_rotated_roi wants an OrientedObject, got {type(item).__name__}; crop_roi takes upright boxes"
            )
        frame, image, pixels = _picture("crop_rotated_roi")
        height, width = pixels.shape[:2]
        corners = np.array(item.corners_in(width, height))
        _whole(_around(corners), pixels)
        size = item.w * width, item.h * height
        if min(size) <= 0 or max(size) > 2 * (width + height):
            why = "has no area" if min(size) <= 0 else f"is no part of a picture of {width} x {height}"
            raise ValueError(f"crop_rotated_roi: a box of {size[0]:g} x {size[1]:g} pixels {why}")
        out_w, out_h = max(round(size[0]), 1), max(round(size[1]), 1)
        cos, sin = np.cos(item.angle), np.sin(item.angle)
        upright = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]]) @ geometry.scaled(1, 1, *-corners.mean(0))
        matrix = geometry.scaled(out_w / size[0], out_h / size[1], out_w / 2, out_h / 2) @ upright
        # OpenCV counts from the middle of a pixel, the frame from its corner
        of_centres = geometry.scaled(1, 1, -0.5, -0.5) @ matrix @ geometry.scaled(1, 1, 0.5, 0.5)
        warped = np.asarray(cv2.warpAffine(pixels, of_centres[:2], (out_w, out_h)), np.uint8)
        made = like(image, warped.reshape(out_h, out_w, *pixels.shape[2:]))
        frame.cut(made, matrix)
        return made


def _picture(who: str) -> tuple[geometry.Frame, Any, NDArray[np.uint8]]:
    """The frame, its picture, and the pixels of that. Raises TypeError where there is none."""
    frame = geometry.current()
    if frame is None or frame.image is None:
        raise TypeError(
            f"{who} has no picture to cut from: run the whole pipeline on one, or wrap single steps in "
            "`with op.frame_context(image):`"
        )
    return frame, frame.image, pixels_of(frame.image, who)


def _around(points: NDArray[np.float64]) -> BBox:
    """The upright box around points (n, 2)."""
    return BBox(*points.min(0).tolist(), *points.max(0).tolist())


def _whole(box: BBox, pixels: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """The whole pixels of a box inside the picture, at least one each way. Raises ValueError where there are none."""
    height, width = pixels.shape[:2]
    corners = ", ".join(f"{value:g}" for value in box.xyxy())
    if not (np.isfinite(box.xyxy()).all() and box.width > 0 and box.height > 0):
        raise ValueError(f"the box ({corners}) has no area: its corners are x0 < x1, y0 < y1")
    if box.x1 <= 0 or box.y1 <= 0 or box.x0 >= width or box.y0 >= height:
        raise ValueError(f"the box ({corners}) in pixels lies outside the picture of {width} x {height}")
    x0, y0 = min(max(round(box.x0), 0), width - 1), min(max(round(box.y0), 0), height - 1)
    return x0, y0, max(min(round(box.x1), width), x0 + 1), max(min(round(box.y1), height), y0 + 1)
