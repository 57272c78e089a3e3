"""The last step of a pipeline: rows -> results with names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import geometry
from axtool.runtime.op.operator import Operator, calls_functions
from axtool.runtime.results import (
    BBox,
    Classification,
    DepthMap,
    DetectedObject,
    Keypoint,
    OrientedObject,
    PoseObject,
    SegmentedObject,
    SemanticMap,
)

ClassId = Callable[[int], Any]


class AxClassification(Operator):
    """[Classification, ...] of scores and indices, as `top_k` gives them, or of all scores of one picture."""

    class_id_type: ClassId = int

    def __post_init__(self) -> None:
        calls_functions(self, self.class_id_type)

    def __call__(self, values: Any, indices: Any = None) -> list[Classification]:
        if isinstance(values, tuple) and indices is None:
            values, indices = values
        scores = np.asarray(values).reshape(-1)
        classes = np.arange(scores.size) if indices is None else np.asarray(indices).reshape(-1)
        if classes.shape != scores.shape:
            raise ValueError(f"ax_classification: {scores.size} scores for {classes.size} indices")
        return [Classification(self.class_id_type(int(c)), float(s)) for s, c in zip(scores, classes, strict=True)]


class AxDetection(Operator):
    """[DetectedObject, ...] of rows (n, 6)."""

    class_id_type: ClassId = int

    def __post_init__(self) -> None:
        calls_functions(self, self.class_id_type)

    def __call__(self, rows: Any) -> list[DetectedObject]:
        table, box = _table(self, rows, 6), _boxes()
        return [DetectedObject(i, self.class_id_type(int(r[5])), box(r), float(r[4])) for i, r in enumerate(table)]


class AxObb(Operator):
    """[OrientedObject, ...] of rows (n, 7)."""

    class_id_type: ClassId = int

    def __post_init__(self) -> None:
        calls_functions(self, self.class_id_type)

    def __call__(self, rows: Any) -> list[OrientedObject]:
        made, frame = [], _cut_frame()
        for index, row in enumerate(_table(self, rows, 7)):
            cx, cy, w, h, score, class_id, angle = (float(value) for value in row[:7])
            found = OrientedObject(index, self.class_id_type(int(class_id)), cx, cy, w, h, angle, score)
            if frame is not None:
                corners = np.array(found.corners_in(*frame.image_size)) / frame.image_size
                found = replace(found, _frame=tuple((x, y) for x, y in frame.in_whole(corners).tolist()))
            made.append(found)
        return made


class AxPose(Operator):
    """[PoseObject, ...] of rows (n, 6 + 3 * num_keypoints)."""

    num_keypoints: int = 17
    keypoint_names: Sequence[str] | None = None
    class_id_type: ClassId = int

    def __post_init__(self) -> None:
        calls_functions(self, self.class_id_type)

    def __call__(self, rows: Any) -> list[PoseObject]:
        names = tuple(self.keypoint_names or ())
        if names and len(names) != self.num_keypoints:
            raise ValueError(f"ax_pose: {len(names)} names for {self.num_keypoints} keypoints")
        made, box, frame = [], _boxes(), _cut_frame()
        for index, row in enumerate(_table(self, rows, 6 + 3 * self.num_keypoints)):
            points = row[6 : 6 + 3 * self.num_keypoints].reshape(-1, 3)
            keypoints = tuple(
                Keypoint(x, y, seen, name, _frame=place)
                for (x, y, seen), name, place in zip(
                    points.tolist(), names or (None,) * len(points), _places(points, frame), strict=True
                )
            )
            class_id = self.class_id_type(int(row[5]))
            made.append(PoseObject(index, keypoints, box(row), float(row[4]), class_id, names))
        return made


class AxSegmentation(Operator):
    """[SegmentedObject, ...] of rows (n, 6 or more) and masks (n, h, w)."""

    class_id_type: ClassId = int

    def __post_init__(self) -> None:
        calls_functions(self, self.class_id_type)

    def __call__(self, rows: Any, masks: Any = None) -> list[SegmentedObject]:
        if isinstance(rows, tuple) and masks is None:
            rows, masks = rows
        table, shapes, box = _table(self, rows, 6), np.asarray(masks), _boxes()
        if shapes.ndim != 3 or len(shapes) != len(table):
            raise ValueError(f"ax_segmentation: want a mask (h, w) for each of {len(table)} rows, got {shapes.shape}")
        return [
            SegmentedObject(i, self.class_id_type(int(r[5])), mask, box(r), float(r[4]))
            for i, (r, mask) in enumerate(zip(table, shapes, strict=True))
        ]


class AxSemanticSegmentation(Operator):
    """A SemanticMap of classes (h, w)."""

    def __call__(self, classes: Any) -> SemanticMap:
        array = np.asarray(classes)
        if array.ndim != 2:
            raise ValueError(f"ax_semantic_segmentation wants classes (h, w), got {array.shape}")
        return SemanticMap(array)


class AxDepthMap(Operator):
    """A DepthMap of an output that is (h, w) without its axes of one."""

    def __call__(self, depth: Any) -> DepthMap:
        array = np.squeeze(np.asarray(depth, np.float32))
        if array.ndim != 2:
            raise ValueError(f"ax_depth_map wants (h, w), got {np.shape(depth)}")
        return DepthMap(array)


def _table(who: Operator, rows: Any, least: int) -> NDArray[np.float32]:
    table = np.asarray(rows, np.float32)
    if table.ndim != 2 or table.shape[1] < least:
        raise ValueError(f"{type(who).__name__} wants rows (n, {least}), got {np.shape(rows)}")
    return table


def _places(points: NDArray[np.float32], frame: geometry.Frame | None) -> list[tuple[float, float] | None]:
    """Where keypoints lie in the whole picture, behind a crop."""
    if frame is None:
        return [None] * len(points)
    return [(x, y) for x, y in frame.in_whole(points[:, :2]).tolist()]


def _boxes() -> Callable[[NDArray[np.float32]], BBox]:
    """What makes the box of a row; behind a crop with the same box in the whole picture, upright there."""
    frame = _cut_frame()

    def box(row: NDArray[np.float32]) -> BBox:
        x0, y0, x1, y1 = (float(value) for value in row[:4])
        if frame is None:
            return BBox(x0, y0, x1, y1)
        corners = frame.in_whole([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        return BBox(x0, y0, x1, y1, _frame=BBox(*corners.min(0).tolist(), *corners.max(0).tolist()))

    return box


def _cut_frame() -> geometry.Frame | None:
    """The frame, where its picture is a part of a larger one."""
    frame = geometry.current()
    return frame if frame is not None and frame.is_cut else None
