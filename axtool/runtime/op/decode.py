"""Decoders: tensors that a model declares -> rows of what it found, in pixels of the model's input.

Rows are float32: (n, 6) `[x0, y0, x1, y1, score, class]`, with what else belongs to an object behind. Only rows whose
score is above the threshold come out, best first where there are more than `max_boxes_pre_nms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import nearest
from axtool.runtime import geometry
from axtool.runtime.detect import grid, off_grid
from axtool.runtime.op.operator import Operator, Unpacked

Float = NDArray[np.float32]
ANCHOR_FREE = ("yolov8", "yolov9", "yolo11", "yolo26", "yolo12")  # (1, 4 + classes + extra, n), no objectness
OBJECTNESS = ("yolov5", "yolov6", "yolov7", "yolox")  # (1, n, 5 + classes + extra)
END_TO_END = ("yolov10",)  # (1, n, 6), suppressed already
ALGOS = (*OBJECTNESS, *ANCHOR_FREE, *END_TO_END)
FORMATS = ("auto", "xyxy", "cxcywh")


class Decoder(Operator):
    """What all decoders check."""

    def check(self, algo: str | None, threshold: float, most: int, input_format: str = "auto") -> None:
        who = type(self).__name__
        if algo is not None and algo not in ALGOS:
            raise ValueError(f"{who}: there is no algo '{algo}'; {nearest(algo, ALGOS)}")
        if not 0 <= threshold <= 1:
            raise ValueError(f"{who}: confidence_threshold is {threshold}, want 0 to 1")
        if most < 1:
            raise ValueError(f"{who}: max_boxes_pre_nms is {most}, want at least 1")
        if input_format not in FORMATS:
            raise ValueError(f"{who}: there is no input_format '{input_format}'; known: {', '.join(FORMATS)}")


class DecodeDetections(Decoder):
    """Rows (n, 6) of a YOLO's output: (1, 4 + classes, n), or (1, n, 5 + classes) with objectness, by `algo`.

    `yolox` wants boxes in pixels: pass `strides` for a model that leaves them relative to its grid. With objectness
    `num_classes` may be 0: the objectness is the score then, and every class 0.
    """

    algo: str
    num_classes: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"
    strides: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.check(self.algo, self.confidence_threshold, self.max_boxes_pre_nms, self.input_format)
        least = 0 if self.algo in OBJECTNESS else 1
        if self.num_classes < least:
            raise ValueError(f"DecodeDetections: num_classes is {self.num_classes}, want at least {least}")

    def __call__(self, output: Any) -> Float:
        if self.algo in END_TO_END:
            rows = shaped(self, output, (None, 6))
            return np.ascontiguousarray(rows[rows[:, 4] > self.confidence_threshold][: self.max_boxes_pre_nms])
        found = candidates(self, output, self.algo, self.num_classes, 0)
        boxes, scores, classes, _, index = found
        if self.strides:
            boxes = self._off_grid(boxes, index, np.asarray(output).shape[-2])
        return rows_of(boxes, scores, classes, self.input_format)

    def _off_grid(self, boxes: Float, index: NDArray[np.intp], count: int) -> Float:
        """The boxes of these of `count` anchors in pixels. Raises ValueError where the strides make another count."""
        width, height = geometry.need("decode_detections with strides").model_size
        cells, steps = grid(width, height, self.strides)
        if len(cells) != count:
            raise ValueError(
                f"DecodeDetections: strides {tuple(self.strides)} of an input of {width}x{height} make {len(cells)} "
                f"anchors, the output has {count}"
            )
        return off_grid(boxes, cells[index], steps[index]).astype(np.float32)


class DecodePose(Decoder):
    """Rows (n, 6 + 3 * num_keypoints): x, y and visibility of each keypoint behind the box."""

    algo: str
    num_keypoints: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"
    num_classes: int = 1

    def __post_init__(self) -> None:
        self.check(self.algo, self.confidence_threshold, self.max_boxes_pre_nms, self.input_format)

    def __call__(self, output: Any) -> Float:
        boxes, scores, classes, extra, _ = candidates(self, output, self.algo, self.num_classes, 3 * self.num_keypoints)
        return rows_of(boxes, scores, classes, self.input_format, extra)


class DecodeSegmentation(Decoder):
    """(rows (n, 6 + num_mask_coeffs), prototypes (num_mask_coeffs, h, w)) of the two outputs."""

    algo: str
    num_classes: int
    num_mask_coeffs: int = 32
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __post_init__(self) -> None:
        self.check(self.algo, self.confidence_threshold, self.max_boxes_pre_nms, self.input_format)

    def __call__(self, output: Any, proto: Any) -> Any:
        prototypes = np.asarray(proto)
        prototypes = prototypes[0] if prototypes.ndim == 4 else prototypes
        if prototypes.ndim != 3 or prototypes.shape[0] != self.num_mask_coeffs:
            raise ValueError(
                f"DecodeSegmentation: want prototypes ({self.num_mask_coeffs}, h, w), got {np.shape(proto)}"
            )
        boxes, scores, classes, extra, _ = candidates(self, output, self.algo, self.num_classes, self.num_mask_coeffs)
        return Unpacked((rows_of(boxes, scores, classes, self.input_format, extra), prototypes))


class DecodeObb(Decoder):
    """Rows (n, 7) `[cx, cy, w, h, score, class, angle]` of (1, 4 + num_classes + 1, n); the angle in radians."""

    num_classes: int
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000

    def __post_init__(self) -> None:
        self.check(None, self.confidence_threshold, self.max_boxes_pre_nms)

    def __call__(self, output: Any) -> Float:
        boxes, scores, classes, extra, _ = candidates(self, output, "yolo11", self.num_classes, 1)
        return np.concatenate([boxes, scores[:, None], classes[:, None], extra], 1).astype(np.float32)


class DecodeSsd(Decoder):
    """Rows (n, 6) of boxes (1, n, 4), normalized `y0, x0, y1, x1`, and scores (1, n, classes) without a background.

    Boxes are clipped to the model's input, whose size is that of the frame, or `width` and `height`.
    """

    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        self.check(None, self.confidence_threshold, self.max_boxes_pre_nms)

    def __call__(self, boxes: Any, scores: Any) -> Float:
        corners = shaped(self, boxes, (None, 4))
        chances = shaped(self, scores, (len(corners), None))
        kept, best, classes = over(chances.T, self.confidence_threshold, self.max_boxes_pre_nms)
        width, height = model_size(self, self.width, self.height)
        yxyx = np.clip(corners[kept], 0, 1)
        return rows_of(
            yxyx[:, [1, 0, 3, 2]] * np.array((width, height, width, height), np.float32), best, classes, "xyxy"
        )


class DecodeSemanticSegmentation(Operator):
    """The class of every pixel (h, w), of scores (1, num_classes, h, w), or of labels (1, h, w) as they are."""

    num_classes: int

    def __call__(self, output: Any) -> NDArray[np.int64]:
        array = np.asarray(output)
        if array.ndim == 4 and array.shape[:2] == (1, self.num_classes):
            return np.asarray(array[0].argmax(0), np.int64)
        if array.ndim == 3 and array.shape[0] == 1 and np.issubdtype(array.dtype, np.integer):
            return np.asarray(array[0], np.int64)
        raise ValueError(
            f"DecodeSemanticSegmentation: want scores (1, {self.num_classes}, h, w) or labels (1, h, w), "
            f"got {array.dtype} {array.shape}"
        )


Candidates = tuple[Float, Float, NDArray[np.intp], Float, NDArray[np.intp]]


def candidates(who: Operator, output: Any, algo: str, num_classes: int, extra: int) -> Candidates:
    """(boxes (n, 4), scores, classes, what is behind them (n, extra), anchor numbers) above the threshold."""
    threshold, most = getattr(who, "confidence_threshold"), getattr(who, "max_boxes_pre_nms")  # noqa: B009
    if algo in OBJECTNESS:
        columns = shaped(who, output, (None, 5 + num_classes + extra)).T
        likely = np.flatnonzero(columns[4] > threshold)  # a score is a chance times the objectness, so no more than it
        objectness = columns[4, likely]
        chances = columns[5 : 5 + num_classes, likely] * objectness if num_classes else objectness[None]
        kept, scores, classes = over(chances, threshold, most)
        kept, first = likely[kept], 5
    else:
        columns = shaped(who, output, (4 + num_classes + extra, None))
        kept, scores, classes = over(columns[4 : 4 + num_classes], threshold, most)
        first = 4
    return columns[:4, kept].T, scores, classes, columns[first + num_classes :, kept].T, kept


def over(chances: Float, threshold: float, most: int) -> tuple[NDArray[np.intp], Float, NDArray[np.intp]]:
    """Which columns of (classes, n) have a best score above the threshold, that score and its class."""
    best = chances.max(0)
    kept = np.flatnonzero(best > threshold)  # a NaN is above nothing
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-best[kept], kind="stable")[:most]])
    return kept, best[kept], chances[:, kept].argmax(0)


def rows_of(
    boxes: Float, scores: Float, classes: NDArray[np.intp], input_format: str = "auto", extra: Float | None = None
) -> Float:
    """Rows `[x0, y0, x1, y1, score, class, ...]`; `auto` boxes are centre and size."""
    corners: NDArray[Any] = boxes
    if input_format != "xyxy":
        half = boxes[:, 2:] / 2
        corners = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)
    parts: list[NDArray[Any]] = [corners, scores[:, None], classes[:, None], *([] if extra is None else [extra])]
    return np.ascontiguousarray(np.concatenate(parts, 1), np.float32)


def shaped(who: Operator, output: Any, wanted: tuple[int | None, int | None]) -> Float:
    """The output without its batch of one. Raises ValueError with the shape that was seen and the one wanted."""
    array = np.asarray(output)
    inner = array[0] if array.ndim == 3 and array.shape[0] == 1 else array
    fits = inner.ndim == 2 and all(want is None or want == got for want, got in zip(wanted, inner.shape, strict=True))
    if not fits or not np.issubdtype(array.dtype, np.floating):
        shown = ", ".join("n" if want is None else str(want) for want in wanted)
        hint = (
            "; decode_obb, decode_pose and decode_segmentation read more" if isinstance(who, DecodeDetections) else ""
        )
        raise ValueError(f"{type(who).__name__}: want float (1, {shown}), got {array.dtype} {array.shape}{hint}")
    return np.asarray(inner, np.float32)


def model_size(who: Operator, width: int, height: int) -> tuple[int, int]:
    """The size that was given, else that of the frame's model."""
    return (width, height) if width and height else geometry.need(type(who).__name__).model_size
