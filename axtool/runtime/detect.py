"""Output tensors of a detector  ->  boxes, scores and classes in pixels of the model's input, before suppression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.boxes import centres_to_corners
from axtool.runtime.detect_heads import decode_detr, decode_retina_face, decode_ssd, decode_yolact
from axtool.runtime.found import Arrays, Found


def decode_yolo(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """(1, 4 + classes [+ extra], anchors): centre, size in pixels, class scores after their sigmoid.

    The extra of a pose are x, y and visibility of its `keypoints`; of a segmentation the coefficients of the masks,
    whose prototypes are the output of rank 4.
    """
    return _yolo(task, outputs, threshold, "yolov8")


def decode_yolo_anchored(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """(1, anchors, 5 + classes [+ extra]): centre, size in pixels, objectness, class scores; extra as of `yolo`."""
    return _yolo(task, outputs, threshold, "yolov5")


def _yolo(task: Mapping[str, Any], outputs: Arrays, threshold: float, algo: str) -> Found:
    from axtool.runtime.op.decode import DecodeDetections, candidates  # the operators import this module

    output = _of_rank(outputs, 3)
    kind, (first, axis) = task.get("kind"), (5, 2) if algo == "yolov5" else (4, 1)
    prototypes = _of_rank(outputs, 4)[0].astype(np.float64) if kind == "segmentation" else None
    points = int(task["keypoints"]) if kind == "pose" else 0
    extra = len(prototypes) if prototypes is not None else 3 * points
    count = int(task.get("classes") or output.shape[axis] - first - extra)
    more = extra or output.shape[axis] - first - count  # a detector may be read from a model that gives more
    found = candidates(DecodeDetections(algo, count, threshold), output, algo, count, more)
    boxes, scores, classes, behind = (array.astype(np.float64) for array in found[:4])
    return Found(
        centres_to_corners(boxes),
        scores,
        classes.astype(np.int64),
        behind.reshape(-1, points, 3) if points else None,
        None if prototypes is None else behind,
        prototypes,
    )


def decode_yolox(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """(1, anchors, 5 + classes) on a grid: offset in cells, log of the size in cells, objectness, class scores."""
    rows = _only(outputs)[0].astype(np.float64)
    height, width = task["size"]
    boxes = off_grid(rows[:, :4], *grid(width, height, task.get("strides", (8, 16, 32))))
    return _best(centres_to_corners(boxes), rows[:, 5:] * rows[:, 4:5], threshold)


def grid(width: int, height: int, strides: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cell x, y of every anchor of an input of this size (n, 2), and its stride in pixels (n, 1)."""
    cells, steps = [], []
    for stride in strides:
        y, x = np.mgrid[0 : height // stride, 0 : width // stride]
        cells.append(np.stack([x.ravel(), y.ravel()], 1))
        steps.append(np.full((x.size, 1), stride))
    return np.concatenate(cells), np.concatenate(steps)


def off_grid(boxes: NDArray[Any], cells: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """YOLOX boxes relative to their cell -> centre and size in pixels: `(xy + cell) * stride`, `exp(wh) * stride`.

    The logarithm of a size is cut to 20 either way, so that no noise becomes infinite.
    """
    relative = np.asarray(boxes, np.float64)
    centre, size = (relative[:, :2] + cells) * steps, np.exp(np.clip(relative[:, 2:4], -20, 20)) * steps
    return np.concatenate([centre, size], 1)


def decode_centerface(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """Heatmap (1, 1, h, w), log size and offset (1, 2, h, w) with y before x, all at a quarter of the input."""
    heat, size, offset = (outputs[name][0].astype(np.float64) for name in task["outputs"][:3])
    y, x = np.nonzero(heat[0] > threshold)
    extent = 4 * np.exp(np.clip(size[:, y, x], -10, 10))
    centre_y, centre_x = 4 * (y + offset[0, y, x] + 0.5), 4 * (x + offset[1, y, x] + 0.5)
    boxes = np.stack([centre_x, centre_y, extent[1], extent[0]], 1)
    return Found(centres_to_corners(boxes), heat[0, y, x], np.zeros(len(y), np.int64))


def decode_dbnet(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """Text probability (1, 1, h, w): regions above 0.3, grown by area * ratio / perimeter, scored by their mean."""
    import cv2

    chance = _only(outputs)[0, 0].astype(np.float64)
    mask = (chance > float(task.get("mask_threshold", 0.3))).astype(np.uint8)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes, scores = [], []
    for contour in contours:
        x, y, w, h = cv2.boundingRect(contour)
        if min(w, h) < 3:
            continue
        inside = np.zeros((h, w), np.uint8)
        cv2.fillPoly(inside, [contour - (x, y)], 1)
        grow = w * h * float(task.get("unclip", 1.5)) / (2 * (w + h))
        boxes.append((x - grow, y - grow, x + w + grow, y + h + grow))
        scores.append(float(chance[y : y + h, x : x + w][inside > 0].mean()))
    found = np.array(boxes, np.float64).reshape(-1, 4)
    kept = np.array(scores) > threshold if scores else np.zeros(0, bool)
    return Found(found[kept], np.array(scores, np.float64)[kept], np.zeros(int(kept.sum()), np.int64))


DECODERS: Mapping[str, Callable[[Mapping[str, Any], Arrays, float], Found]] = {
    "yolo": decode_yolo,
    "yolo-anchored": decode_yolo_anchored,
    "yolox": decode_yolox,
    "centerface": decode_centerface,
    "dbnet": decode_dbnet,
    "retinaface": decode_retina_face,
    "ssd": decode_ssd,
    "yolact": decode_yolact,
    "detr": decode_detr,
}
SETS = ("detr",)  # decoders of models that name each object once: nothing is suppressed


def _only(outputs: Arrays) -> NDArray[Any]:
    return next(iter(outputs.values()))


def _of_rank(outputs: Arrays, rank: int) -> NDArray[Any]:
    """The only output with so many axes. Raises ValueError without one, or with several."""
    found = [array for array in outputs.values() if array.ndim == rank]
    if len(found) != 1:
        raise ValueError(f"{len(found)} outputs of rank {rank}, want one")
    return found[0]


def _best(boxes: NDArray[np.float64], scores: NDArray[np.float64], threshold: float) -> Found:
    classes, best = scores.argmax(1), scores.max(1)
    kept = best > threshold
    return Found(boxes[kept], best[kept], classes[kept].astype(np.int64))


def label(labels: Sequence[str], index: int) -> str:
    """The name of a class, or its number."""
    return labels[index] if index < len(labels) else str(index)
