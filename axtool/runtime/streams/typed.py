"""What a saved pipeline gives  ->  the same in the words of `axtool.runtime.task.interpret`, which count and draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.runtime import geometry
from axtool.runtime.draw import drawn
from axtool.runtime.image import ColorFormat, Image
from axtool.runtime.label_map import shares
from axtool.runtime.masks import run_lengths
from axtool.runtime.op.operator import Operator
from axtool.runtime.results import (
    Classification,
    DetectedObject,
    OrientedObject,
    PoseObject,
    SegmentedObject,
    SemanticMap,
)
from axtool.runtime.streams.pipeline import Seen

KINDS: Mapping[type, str] = {
    DetectedObject: "detection", OrientedObject: "oriented", PoseObject: "pose", SegmentedObject: "segmentation",
}  # fmt: skip


class Typed(Operator):
    """Results of the ax_ operators -> a Seen, with `draws` drawn on the frame. Anything else is a Seen of nothing.

    Raises UsageError where there should be something to draw.
    """

    draws: bool
    portable: ClassVar[bool] = False
    stateful: ClassVar[bool] = False

    def __call__(self, *values: Any) -> Seen:
        frame = geometry.need("a saved pipeline over a stream")
        result, labels = plain_result(values[0] if len(values) == 1 else None, frame.image_size)
        if not self.draws:
            return Seen(result)
        if result is None:
            raise UsageError(
                "the pipeline gives nothing that can be drawn", code="nothing-to-draw",
                hint="let it end in an ax_ operator, such as ax_detection",
            )  # fmt: skip
        pixels = Image.from_any(frame.image).convert(ColorFormat.BGR).to_numpy()
        return Seen(result, drawn(pixels, result, labels))


def plain_result(value: Any, size: tuple[int, int]) -> tuple[dict[str, Any] | None, NDArray[np.int64] | None]:
    """(result, labels of the pixels) for a picture of `size` (width, height); None for what is no known result."""
    if isinstance(value, SemanticMap):
        import cv2

        whole = cv2.resize(value.classes.astype(np.int32), size, interpolation=cv2.INTER_NEAREST).astype(np.int64)
        return {"kind": "semantic", "size": list(whole.shape), "classes": shares(whole, ())}, whole
    items = [value] if isinstance(value, Classification) else value
    if not isinstance(items, (list, tuple)) or hasattr(items, "_fields"):
        return None, None
    if items and all(isinstance(item, Classification) for item in items):
        return {"kind": "classification", "classes": [_class(item.class_id, item.score) for item in items]}, None
    if not all(type(item) in KINDS for item in items):
        return None, None
    kind = KINDS[type(items[0])] if items else "detection"
    return {"kind": kind, "threshold": 0.0, "detections": [_row(item, size) for item in items]}, None


def _class(class_id: Any, score: float) -> dict[str, Any]:
    label = class_id.name if isinstance(class_id, Enum) else str(class_id)
    return {"index": int(class_id), "label": label, "score": float(score)}


def _row(item: Any, size: tuple[int, int]) -> dict[str, Any]:
    width, height = size
    row = _class(item.class_id, item.score)
    if isinstance(item, OrientedObject):
        corners = item.corners_in(width, height)
        row["corners"] = [_rounded(corner) for corner in corners]
        xs, ys = zip(*corners, strict=True)
        return {**row, "box": _rounded((min(xs), min(ys), max(xs), max(ys)))}
    row["box"] = _rounded(item.bbox.scaled(width, height).xyxy())
    if isinstance(item, PoseObject):
        row["keypoints"] = [_rounded((p.x * width, p.y * height, p.confidence)) for p in item.keypoints]
    if isinstance(item, SegmentedObject) and item.mask.size:
        import cv2

        mask = cv2.resize(item.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(bool)
        row["mask"] = {"size": list(mask.shape), "counts": run_lengths(mask)}
    return row


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(value), 3) for value in values]
