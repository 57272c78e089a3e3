"""What comes between decoding and results: suppression, masks, the way back to the picture, scores of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import geometry
from axtool.runtime.boxes import nms as greedy
from axtool.runtime.op.operator import Operator, Unpacked, calls_functions
from axtool.runtime.results import OrientedObject

Rows = NDArray[np.float32]
BACKENDS = ("opencv", "numpy", "torch")
MANY = 1500  # rows from which on a loop that ends at max_boxes is faster than OpenCV, which judges them all


class Nms(Operator):
    """Greedy suppression inside each class: of rows that overlap by more than `iou_threshold` the best stays.

    `backend` opencv leaves many rows to numpy, which ends at `max_boxes`: 5000 rows take 7 ms and not 117 (measured).
    `box_format` xyxy reads columns 0 to 3; xywhr a centre, a size and the angle in column 6. Column 4 is the score, 5
    the class. Rows come out best first.
    """

    iou_threshold: float = 0.45
    class_agnostic: bool = False
    max_boxes: int = 300
    backend: str = "opencv"
    box_format: str = "xyxy"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"nms: there is no backend '{self.backend}'; known: {', '.join(BACKENDS)}")
        if self.box_format not in ("xyxy", "xywhr"):
            raise ValueError(f"nms: there is no box_format '{self.box_format}'; known: xyxy, xywhr")
        if not 0 <= self.iou_threshold <= 1 or self.max_boxes < 1:
            raise ValueError("nms: want an iou_threshold of 0 to 1, and max_boxes of at least 1")

    def __call__(self, rows: Any) -> Rows:
        table = np.asarray(rows, np.float32)
        least = 7 if self.box_format == "xywhr" else 6
        if table.ndim != 2 or table.shape[1] < least:
            raise ValueError(f"nms wants rows (n, {least} or more), got {table.shape}")
        if not len(table):
            return table
        strange = table[:, 5][~(np.abs(table[:, 5]) < 2**31)]
        if strange.size and not self.class_agnostic:
            raise ValueError(f"nms: column 5 is the class, got {strange[0]:g}")
        classes = np.zeros(len(table), np.int64) if self.class_agnostic else table[:, 5].astype(np.int64)
        kept = self._rotated(table, classes) if self.box_format == "xywhr" else self._upright(table, classes)
        return np.ascontiguousarray(table[kept[: self.max_boxes]])

    def _upright(self, table: Rows, classes: NDArray[np.int64]) -> NDArray[Any]:
        if self.backend == "numpy" or (self.backend == "opencv" and len(table) > MANY):
            boxes, scores = table[:, :4].astype(np.float64), table[:, 4].astype(np.float64)
            return greedy(boxes, scores, classes, self.iou_threshold, self.max_boxes)
        if self.backend == "torch":
            import torch
            import torchvision

            tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in (table[:, :4], table[:, 4], classes)]
            return np.asarray(torchvision.ops.batched_nms(*tensors, self.iou_threshold).numpy())
        import cv2

        # OpenCV parts the classes by class * (largest coordinate + 1), which holds only where none is negative
        corner = table[:, :2].astype(np.float64)
        sides = np.concatenate([corner - corner.min(0), table[:, 2:4] - corner], 1)
        kept = cv2.dnn.NMSBoxesBatched(
            sides.tolist(), table[:, 4].tolist(), classes.tolist(), -np.inf, self.iou_threshold
        )
        order = np.asarray(kept, np.int64).ravel()
        return order[np.argsort(-table[order, 4], kind="stable")]

    def _rotated(self, table: Rows, classes: NDArray[np.int64]) -> NDArray[Any]:
        """Greedy too, by the intersection of turned rectangles."""
        import cv2

        def rectangle(row: Rows) -> Any:
            return ((float(row[0]), float(row[1])), (float(row[2]), float(row[3])), float(np.degrees(row[6])))

        areas = table[:, 2] * table[:, 3]
        reach = np.hypot(table[:, 2], table[:, 3]) / 2  # of the circle around each: most pairs do not even touch there
        kept: list[int] = []
        for index in np.argsort(-table[:, 4], kind="stable"):
            others = np.array(kept, np.int64)
            apart = np.hypot(*(table[others, :2] - table[index, :2]).T)
            for other in others[(classes[others] == classes[index]) & (apart <= reach[others] + reach[index])]:
                _, corners = cv2.rotatedRectangleIntersection(rectangle(table[other]), rectangle(table[index]))
                shared = 0.0 if corners is None else cv2.contourArea(cv2.convexHull(corners))
                if shared > self.iou_threshold * (areas[other] + areas[index] - shared):
                    break
            else:
                kept.append(int(index))
        return np.array(kept, np.int64)


class ProtoToMask(Operator):
    """Masks (n, h, w) at the resolution of the prototypes: sigmoid(coefficients @ prototypes), cut to the box, and
    thresholded. For rows still in pixels of the model, so before `to_image_space`.
    """

    mask_threshold: float = 0.5
    num_mask_coeffs: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.mask_threshold < 1:
            raise ValueError(f"proto_to_mask: mask_threshold is {self.mask_threshold}, want between 0 and 1")

    def __call__(self, rows: Any, proto: Any) -> NDArray[np.bool_]:
        table, prototypes = np.asarray(rows, np.float32), np.asarray(proto, np.float32)
        if table.ndim != 2 or table.shape[1] < 6 + self.num_mask_coeffs or prototypes.shape[0] != self.num_mask_coeffs:
            count = self.num_mask_coeffs
            raise ValueError(
                f"want rows (n, {6 + count}) and prototypes ({count}, h, w), got {table.shape}, {prototypes.shape}"
            )
        _, h, w = prototypes.shape
        width, height = geometry.need("proto_to_mask").model_size
        # sigmoid(x) > t where x > log(t / (1 - t)): no exponential for every pixel
        level = np.log(self.mask_threshold / (1 - self.mask_threshold))
        masks = (table[:, 6 : 6 + self.num_mask_coeffs] @ prototypes.reshape(self.num_mask_coeffs, -1)) > level
        boxes = table[:, :4] * np.array((w / width, h / height, w / width, h / height), np.float32)
        x, y = np.arange(w) + 0.5, np.arange(h) + 0.5
        across = (x >= boxes[:, 0:1]) & (x <= boxes[:, 2:3])
        down = (y >= boxes[:, 1:2]) & (y <= boxes[:, 3:4])
        return np.asarray(masks.reshape(-1, h, w) & down[:, :, None] & across[:, None, :])


class ToImageSpace(Operator):
    """Pixels of the model's input -> [0, 1] of the picture, back through what the transforms did; boxes are clipped.

    `box_cols` is the range of the box columns. `box_format` xyxy, or xywhr for turned boxes (angle in column 6): where
    the picture was stretched out of shape, a turned box comes back as a parallelogram, and what is given is the
    rectangle of the same area along its longer side. `keypoint_cols` are the columns of keypoints' x; y is the one
    behind each.
    """

    box_cols: tuple[int, int] = (0, 4)
    box_format: str = "xyxy"
    keypoint_cols: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.box_format not in ("xyxy", "xywhr"):
            raise ValueError(f"to_image_space: there is no box_format '{self.box_format}'; known: xyxy, xywhr")
        if self.box_cols[1] - self.box_cols[0] != 4:
            raise ValueError(f"to_image_space: box_cols is a range of four columns, got {self.box_cols}")

    def __call__(self, rows: Any) -> Rows:
        table, first = np.array(rows, np.float32), self.box_cols[0]
        least = max(self.box_cols[1], 7 if self.box_format == "xywhr" else 0)
        if table.ndim != 2 or table.shape[1] < least:
            raise ValueError(f"to_image_space wants rows (n, {least} or more), got {table.shape}")
        frame = geometry.need("to_image_space")
        size = np.array(frame.image_size, np.float64)
        box = table[:, first : first + 4].astype(np.float64)
        if self.box_format == "xyxy":
            corners = (
                frame.to_image(np.stack([box[:, [0, 1]], box[:, [2, 1]], box[:, [2, 3]], box[:, [0, 3]]], 1)) / size
            )
            table[:, first : first + 4] = np.clip(np.concatenate([corners.min(1), corners.max(1)], 1), 0, 1)
        else:
            turned, angle = _turned_in_image(frame, box, table[:, 6].astype(np.float64))
            table[:, first : first + 4], table[:, 6] = turned / [*size, *size], angle
        for column in self.keypoint_cols or ():
            table[:, column : column + 2] = frame.to_image(table[:, column : column + 2]) / size
        return table


def _turned_in_image(
    frame: geometry.Frame, boxes: NDArray[np.float64], angles: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Turned boxes (n, 4) of centre and sides, and their angles, from pixels of the model to those of the picture."""
    centre, w, h = boxes[:, :2], boxes[:, 2:3], boxes[:, 3:]
    along = np.stack([np.cos(angles), np.sin(angles)], 1)
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    first, second = (
        frame.to_image(centre + side) - frame.to_image(centre - side) for side in (along * w / 2, across * h / 2)
    )
    lengths = np.stack([np.hypot(*first.T), np.hypot(*second.T)], 1)
    area = np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
    by_first = lengths[:, 0] >= lengths[:, 1]
    longer = np.where(by_first, lengths[:, 0], lengths[:, 1])
    shorter = np.divide(area, longer, out=np.zeros_like(area), where=longer > 0)
    seen = np.where(by_first, np.arctan2(first[:, 1], first[:, 0]), np.arctan2(-second[:, 0], second[:, 1]))
    # a box is the same turned by half: the angle nearest to the one that the model gave
    angle = angles + (seen - angles + np.pi / 2) % np.pi - np.pi / 2
    sides = np.where(by_first[:, None], np.stack([longer, shorter], 1), np.stack([shorter, longer], 1))
    return np.concatenate([frame.to_image(centre), sides], 1), angle


class Softmax(Operator):
    """exp(x) / sum(exp(x)) along the last axis. Not behind a kernel that gives probabilities already."""

    def __call__(self, x: Any) -> NDArray[np.float32]:
        array = np.asarray(x, np.float32)
        e = np.exp(array - array.max(-1, keepdims=True))
        return np.asarray(e / e.sum(-1, keepdims=True))


class TopK(Operator):
    """(values, indices) of the k largest along the axis `dim`, or of all values; of a list of results, the k best."""

    k: int
    dim: int | None = None
    largest: bool = True
    sorted: bool = True

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"top_k: k is {self.k}, want at least 1")

    def __call__(self, x: Any) -> Any:
        if isinstance(x, list):
            return sorted(x, key=lambda item: -item.score if self.largest else item.score)[: self.k]
        array, axis = (np.ravel(x), 0) if self.dim is None else (np.asarray(x), self.dim)
        if self.k > array.shape[axis]:
            raise ValueError(f"top_k: k is {self.k}, there are {array.shape[axis]} values")
        turned = -array if np.issubdtype(array.dtype, np.floating) else ~array  # -x of an unsigned x has another order
        keys = turned if self.largest else array
        index = np.take(np.argsort(keys, axis, kind="stable"), np.arange(self.k), axis)
        return (np.take_along_axis(array, index, axis), index)


class Top1(TopK):
    """The largest alone."""

    def __init__(self, dim: int | None = None, *, name: str = "") -> None:
        super().__init__(1, dim, name=name)


class Filter(Operator):
    """The results that meet every condition given: a class, a least score, a function."""

    class_ids: Sequence[int] | None = None
    min_score: float | None = None
    fn: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        calls_functions(self, self.fn)

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        return [item for item in items if self.keeps(item)]

    def keeps(self, item: Any) -> bool:
        """Whether one result meets them."""
        return (
            (self.class_ids is None or item.class_id in self.class_ids)
            and (self.min_score is None or item.score >= self.min_score)
            and (self.fn is None or bool(self.fn(item)))
        )


class Split(Filter):
    """(those that meet every condition, the others), as separate arguments."""

    def __call__(self, items: Sequence[Any]) -> Any:
        return Unpacked(([x for x in items if self.keeps(x)], [x for x in items if not self.keeps(x)]))


class SortBy(Operator):
    """Results in the order of an attribute, or of a function; `top` of them.

    `area`, `width` and `height` are those of the box; `center_distance` is from its centre to that of the picture, as
    a share of the picture's sides, for results in image space.
    """

    by: str | Callable[[Any], Any] = "score"
    descending: bool = True
    top: int | None = None

    def __post_init__(self) -> None:
        calls_functions(self, self.by if callable(self.by) else None)

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        by = self.by
        key: Callable[[Any], Any] = by if callable(by) else lambda item: _attribute(item, by)
        return sorted(items, key=key, reverse=self.descending)[: self.top]


def _attribute(item: Any, name: str) -> Any:
    if name not in ("area", "width", "height", "center_distance"):
        return getattr(item, name)
    x, y, w, h = (item.cx, item.cy, item.w, item.h) if isinstance(item, OrientedObject) else item.bbox.xywh()
    return {"area": w * h, "width": w, "height": h, "center_distance": math.hypot(x - 0.5, y - 0.5)}[name]
