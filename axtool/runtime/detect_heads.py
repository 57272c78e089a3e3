"""Outputs of RetinaFace, SSD, YOLACT and DETR  ->  boxes, scores, classes, landmarks and mask coefficients, in pixels
of the model's input, before suppression.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import detect_priors as priors
from axtool.runtime.boxes import centres_to_corners
from axtool.runtime.found import Arrays, Found


def decode_retina_face(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """loc (1, n, 4), conf (1, n, 2) after its softmax, landms (1, n, 10), in any order: faces with five landmarks.

    `min_sizes` of the task are the sides of the priors in pixels, for each stride; by default the published ones.
    """
    height, width = task["size"]
    sides = task.get("min_sizes") or priors.FACE_SIDES
    boxes = priors.square_priors((width, height), priors.FACE_STRIDES, sides)
    loc, conf, landms = (_rows(outputs, columns, len(boxes)) for columns in (4, 2, 10))
    kept = np.flatnonzero(conf[:, 1] > threshold)
    scores, pixels = conf[kept, 1].astype(np.float64), np.array((width, height), np.float64)
    points = priors.landmarks(landms[kept], boxes[kept]) * pixels
    seen = np.repeat(scores[:, None, None], points.shape[1], 1)
    corners = priors.corners(loc[kept], boxes[kept]) * np.tile(pixels, 2)
    return Found(corners, scores, np.zeros(len(kept), np.int64), np.concatenate([points, seen], 2))


def decode_ssd(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """boxes (1, n, 4) as fractions y1, x1, y2, x2, and scores (1, n, classes) without a background."""
    height, width = task["size"]
    boxes, scores = list(outputs.values())[:2]
    if boxes.ndim != 3 or boxes.shape[::2] != (1, 4) or scores.ndim != 3 or scores.shape[:2] != boxes.shape[:2]:
        raise ValueError("want boxes (1, n, 4) and scores (1, n, classes)")
    boxes, scores = boxes[0], scores[0]
    best = scores.max(1)
    kept = np.flatnonzero(best > threshold)
    corners = np.clip(boxes[kept][:, [1, 0, 3, 2]].astype(np.float64), 0, 1) * (width, height, width, height)
    return Found(corners, best[kept].astype(np.float64), scores[kept].argmax(1))


def decode_yolact(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """loc (1, n, 4), conf (1, n, 1 + classes) after its softmax, mask (1, n, m) after its tanh, proto (1, h, w, m)."""
    height, width = task["size"]
    loc, conf, mask, proto = list(outputs.values())[:4]
    boxes = priors.mask_priors((width, height))
    if proto.ndim != 4 or mask.shape != (1, len(boxes), proto.shape[3]) or loc.shape != (1, len(boxes), 4):
        raise ValueError(f"want loc, conf and mask of {len(boxes)} anchors, and proto (1, h, w, m)")
    best = conf[0, :, 1:].max(1)
    kept = np.flatnonzero(best > threshold)
    corners = priors.corners(loc[0, kept], boxes[kept]) * np.tile((width, height), 2)
    return Found(
        corners.astype(np.float64),
        best[kept].astype(np.float64),
        conf[0, kept, 1:].argmax(1),
        coefficients=mask[0, kept].astype(np.float64),
        prototypes=proto[0].transpose(2, 0, 1).astype(np.float64),
    )


def decode_detr(task: Mapping[str, Any], outputs: Arrays, threshold: float) -> Found:
    """logits (1, queries, classes + 1), the last for 'no object', and boxes (1, queries, 4): centre and size, 0..1.

    A query is one candidate: its best class after a softmax over all, 'no object' left out.
    """
    height, width = task["size"]
    logits, boxes = detr_outputs(outputs)
    raised = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    chances = (raised / raised.sum(1, keepdims=True))[:, :-1]
    best = chances.max(1)
    kept = np.flatnonzero(best > threshold)
    corners = centres_to_corners(boxes[kept].astype(np.float64) * (width, height, width, height))
    return Found(corners, best[kept], chances[kept].argmax(1).astype(np.int64))


def detr_outputs(outputs: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    """Logits (queries, classes + 1) and boxes (queries, 4). Raises ValueError where no two outputs are these.

    Of two outputs that are 4 wide the second has the boxes, as the models give them.
    """
    rows = [array[0] for array in outputs.values() if array.ndim == 3 and array.shape[0] == 1]
    wide = [at for at, array in enumerate(rows) if array.shape[1] == 4]
    if len(rows) != 2 or not wide or len(rows[0]) != len(rows[1]) or rows[1 - wide[-1]].shape[1] < 2:
        raise ValueError("want logits (1, queries, classes + 1) and boxes (1, queries, 4)")
    return rows[1 - wide[-1]], rows[wide[-1]]


def _rows(outputs: Arrays, columns: int, count: int) -> NDArray[Any]:
    """The output (1, count, columns), without its batch. Raises ValueError where there is none."""
    for array in outputs.values():
        if array.shape == (1, count, columns):
            return np.asarray(array[0])
    raise ValueError(f"want an output (1, {count}, {columns})")
