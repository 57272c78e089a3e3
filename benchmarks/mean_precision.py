"""Objects that were found and objects that are there, picture by picture  ->  mAP: the mean over classes of the area
under precision and recall, at 101 points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]  # (n, 4) x1, y1, x2, y2


class MeanPrecision:
    """Sums over pictures. An object is found by the detection of its class with the best score that covers it."""

    def __init__(self, least_iou: float = 0.5) -> None:
        self._least_iou = least_iou
        self._hits: dict[int, list[tuple[float, bool]]] = {}  # by class: score, and whether it is right
        self._there: dict[int, int] = {}

    def add(self, detections: Sequence[Mapping[str, Any]], truth: Sequence[Sequence[float]]) -> None:
        """One picture: rows of `axtool.runtime.task.interpret`, and x1, y1, x2, y2, class of each object."""
        for index in {int(row[4]) for row in truth} | {int(row["index"]) for row in detections}:
            there = np.array([row[:4] for row in truth if int(row[4]) == index], np.float64).reshape(-1, 4)
            self._there[index] = self._there.get(index, 0) + len(there)
            rows = sorted((row for row in detections if row["index"] == index), key=lambda row: -row["score"])
            taken = np.zeros(len(there), bool)
            for row in rows:
                covered = np.where(taken, -1.0, _iou(np.array(row["box"], np.float64), there))
                right = bool(len(there)) and float(covered.max()) >= self._least_iou
                if right:
                    taken[covered.argmax()] = True
                self._hits.setdefault(index, []).append((float(row["score"]), right))

    def mean(self) -> float:
        """The mean over the classes that are there; 0 where nothing is."""
        areas = [_area(self._hits.get(index, []), count) for index, count in self._there.items() if count]
        return float(np.mean(areas)) if areas else 0.0


def _area(hits: Sequence[tuple[float, bool]], count: int) -> float:
    if not hits:
        return 0.0
    right = np.cumsum([hit for _, hit in sorted(hits, key=lambda pair: -pair[0])])
    recall, precision = right / count, right / np.arange(1, len(right) + 1)
    reached = [precision[recall >= least] for least in np.linspace(0, 1, 101)]
    return float(np.mean([part.max() if part.size else 0.0 for part in reached]))


def _iou(box: NDArray[np.float64], others: Boxes) -> NDArray[np.float64]:
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.clip(high - low, 0, None).prod(1)
    return both / ((box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(1) - both + 1e-9)
