"""Outputs of a detector, a pose or a segmentation model  ->  the objects in the picture, best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.prepare import Placement
from axtool.runtime.boxes import nms
from axtool.runtime.detect import DECODERS, SETS
from axtool.runtime.found import Found
from axtool.runtime.masks import masks_in_picture


class Objects(NamedTuple):
    """boxes (n, 4) x1, y1, x2, y2 in pixels of the picture; scores and classes (n,); keypoints (n, k, 3) x, y, how
    sure; n masks (rows, columns) over the picture, made one by one. What the task does not have is None.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]
    keypoints: NDArray[np.float64] | None = None
    masks: Iterator[NDArray[np.bool_]] | None = None


def objects_of(
    task: Mapping[str, Any],
    outputs: Mapping[str, NDArray[Any]],
    placement: Placement | None,
    *,
    threshold: float,
    most: int | None = None,
    mask_size: tuple[int, int] | None = None,
) -> Objects:
    """What is above the threshold, of one class once, at most `most`; boxes cut to the picture.

    Without a placement the picture is the model's input. Masks have `mask_size` (rows, columns), by default that of the
    picture. Raises ValueError, KeyError or IndexError where the outputs are not the task's.
    """
    found = DECODERS[task["decode"]](task, outputs, threshold)
    if task.get("keep"):
        labels = task.get("labels", ())
        found = found.at(np.isin(found.classes, [i for i, name in enumerate(labels) if name in task["keep"]]))
    limit = 1.0 if task["decode"] in SETS else float(task.get("iou", 0.5))
    kept = nms(found.boxes, found.scores, found.classes, limit)[:most]
    return _in_picture(task, found.at(kept), placement, mask_size)


def _in_picture(
    task: Mapping[str, Any], found: Found, placement: Placement | None, mask_size: tuple[int, int] | None
) -> Objects:
    boxes, points, masks = found.boxes, found.keypoints, None
    if task["kind"] == "segmentation":
        if found.coefficients is None or found.prototypes is None:
            raise ValueError(f"decoder {task['decode']} gives no masks")
        place = placement or _whole_input(task)
        size = mask_size or place.image_size
        masks = masks_in_picture(boxes, found.coefficients, found.prototypes, place, size)
    if task["kind"] == "pose" and points is None:
        raise ValueError(f"decoder {task['decode']} gives no keypoints")
    if placement is not None and len(boxes):
        edge = placement.image_size[::-1]
        boxes = np.clip(placement.to_image(boxes.reshape(-1, 2, 2)), 0, edge).reshape(-1, 4)
        if points is not None:
            points = np.concatenate([placement.to_image(points[:, :, :2]), points[:, :, 2:]], 2)
    return Objects(boxes, found.scores, found.classes, points if task["kind"] == "pose" else None, masks)


def _whole_input(task: Mapping[str, Any]) -> Placement:
    """A picture that is the model's input."""
    height, width = task["size"]
    return Placement(1.0, 1.0, 0.0, 0.0, (height, width), (height, width))
