"""Boxes (n, 4) as x1, y1, x2, y2: overlap, suppression, and pairing of two sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]


def iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of every a with every b, (len(a), len(b))."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    overlap = np.clip(high - low, 0, None).prod(2)
    union = area(a)[:, None] + area(b)[None] - overlap
    return np.asarray(np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0))


def area(boxes: Boxes) -> NDArray[np.float64]:
    """Areas; 0 for a box that is inside out."""
    return np.asarray(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(1))


def nms(
    boxes: Boxes, scores: NDArray[np.float64], classes: NDArray[np.int64], limit: float, most: int | None = None
) -> NDArray[np.int64]:
    """Indices of the boxes kept, best first, at most `most`: greedy non-maximum suppression inside each class."""
    best_first = np.argsort(-scores, kind="stable")
    by_class = np.argsort(classes[best_first], kind="stable")  # class after class, the best first in each
    index = best_first[by_class]
    place = np.empty(len(index), np.int64)  # of the n-th best among the classes
    place[by_class] = np.arange(len(index))
    end = np.searchsorted(classes[index], classes[index], "right").tolist()  # of each one's class
    x0, y0, x1, y1 = np.ascontiguousarray(boxes[index].T)
    areas, gone, kept = area(boxes[index]), np.zeros(len(index), bool), []
    for at in place.tolist():
        if gone[at]:
            continue
        kept.append(int(index[at]))
        if len(kept) == most:
            break
        rest = slice(at + 1, end[at])
        width = np.minimum(x1[at], x1[rest]) - np.maximum(x0[at], x0[rest])
        height = np.minimum(y1[at], y1[rest]) - np.maximum(y0[at], y0[rest])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        union = areas[at] + areas[rest] - shared
        gone[rest] |= np.divide(shared, union, out=np.zeros_like(shared), where=union > 0) > limit
    return np.array(kept, np.int64)


def centres_to_corners(boxes: Boxes) -> Boxes:
    """cx, cy, w, h -> x1, y1, x2, y2."""
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def matched(reference: Boxes, found: Boxes, limit: float = 0.5) -> int:
    """How many reference boxes have a partner of IoU >= limit among the found ones, each used once, best first."""
    return pairs(iou(reference, found), limit)


def pairs(overlap: NDArray[np.float64], limit: float) -> int:
    """How many rows of an overlap (n, m) have a column of at least the limit, each used once, best first."""
    overlap, count = overlap.copy(), 0
    while overlap.size and overlap.max() >= limit:
        row, column = np.unravel_index(int(overlap.argmax()), overlap.shape)
        overlap[row, :], overlap[:, column] = -1, -1
        count += 1
    return count
