"""What a model found beside what is labelled, picture by picture  ->  mAP50, mAP75, keypoint PCK and mask IoU.

mAP is the mean over the classes that have labels of the average precision: detections of all pictures, best score
first, each paired with the unused label of its picture and class that it overlaps most, right where that IoU reaches
the limit; precision is made monotone from the right and averaged at 101 recalls, as COCO does (at one IoU at a time).

Keypoints and masks are judged on found labels only: of the detections of the label's class above `SURE`, the one that
overlaps it most, where their IoU reaches 0.5. A label's keypoint error is the mean absolute difference of coordinates
over the square root of its box's area; PCK is the share of found labels with an error below 10 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.boxes import area, iou

Floats = NDArray[np.float64]
SURE = 0.25  # the score above which a detection's keypoints or mask are judged
SAME_OBJECT = 0.5  # the IoU at which a detection is of a label
PCK_SHARE = 0.1  # of the square root of the box's area
RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of a picture: boxes (n, 4) as x1, y1, x2, y2; classes (n,); keypoints (n, k, 2); masks (n, h, w).

    Boxes and keypoints are in one unit, pixels of the picture; masks at any resolution that `Found` has too.
    """

    boxes: Floats
    classes: NDArray[np.int64]
    keypoints: Floats | None = None
    masks: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        _check("labels", self.boxes, self.classes, self.keypoints, self.masks)


@dataclass(frozen=True, eq=False)
class Found:
    """What a model found in a picture: as `Labels`, with scores (n,)."""

    boxes: Floats
    scores: Floats
    classes: NDArray[np.int64]
    keypoints: Floats | None = None
    masks: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        _check("found", self.boxes, self.classes, self.keypoints, self.masks)
        if self.scores.shape != self.classes.shape:
            raise ValueError(f"found: {len(self.classes)} classes and scores {self.scores.shape}")


@dataclass
class Tally:
    """Adds up pictures. A share of nothing is None: no label, or none found whose keypoints or mask could be judged."""

    pictures: list[tuple[Labels, Found]] = field(default_factory=list)
    keypoint_errors: list[float] = field(default_factory=list)
    mask_ious: list[float] = field(default_factory=list)

    def add(self, labels: Labels, found: Found) -> None:
        """One picture. Raises ValueError where keypoints or masks of the two differ in shape."""
        for row, at in paired(labels, found):
            if labels.keypoints is not None and found.keypoints is not None:
                size = float(np.sqrt(area(labels.boxes[row : row + 1])[0]))
                self.keypoint_errors.append(keypoint_error(labels.keypoints[row], found.keypoints[at], size))
            if labels.masks is not None and found.masks is not None:
                self.mask_ious.append(mask_iou(labels.masks[row], found.masks[at]))
        # masks are counted already, and a data set of them does not fit into memory
        self.pictures.append((Labels(labels.boxes, labels.classes), Found(found.boxes, found.scores, found.classes)))

    def mean_average_precision(self, limit: float) -> float | None:
        """The mean over the labelled classes at an IoU limit."""
        classes = sorted({int(c) for labels, _ in self.pictures for c in labels.classes})
        figures = [average_precision(self.pictures, index, limit) for index in classes]
        return float(np.mean(figures)) if figures else None

    @property
    def pck(self) -> float | None:
        """The share of found labels whose keypoints are right within 10 %."""
        errors = np.array(self.keypoint_errors)
        return float((errors < PCK_SHARE).mean()) if errors.size else None

    @property
    def mean_mask_iou(self) -> float | None:
        """The mean over found labels."""
        return float(np.mean(self.mask_ious)) if self.mask_ious else None

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain values; all but the counts are shares of 1."""
        made: dict[str, float | int | None] = {
            "pictures": len(self.pictures),
            "labels": sum(len(labels.classes) for labels, _ in self.pictures),
            "map50": self.mean_average_precision(0.5),
            "map75": self.mean_average_precision(0.75),
        }
        if self.keypoint_errors:
            made |= {"keypoint_pck": self.pck, "keypoint_objects": len(self.keypoint_errors)}
        if self.mask_ious:
            made |= {"mask_iou": self.mean_mask_iou, "mask_objects": len(self.mask_ious)}
        return made


def average_precision(pictures: Sequence[tuple[Labels, Found]], index: int, limit: float) -> float:
    """Of one class at one IoU limit. Raises ValueError where no picture has a label of the class."""
    total = sum(int((labels.classes == index).sum()) for labels, _ in pictures)
    if not total:
        raise ValueError(f"no label of class {index}: it has no average precision")
    scores: list[float] = []
    right: list[bool] = []
    for labels, found in pictures:
        mine = found.classes == index
        order = np.argsort(-found.scores[mine], kind="stable")
        scores += found.scores[mine][order].tolist()
        right += _right(labels.boxes[labels.classes == index], found.boxes[mine][order], limit)
    best_first = np.argsort(-np.array(scores), kind="stable")
    hits = np.cumsum(np.array(right, bool)[best_first])
    recall, precision = hits / total, hits / np.arange(1, len(hits) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or any greater one
    first = np.searchsorted(recall, RECALLS, side="left")
    return float(np.append(highest, 0.0)[first].mean())


def paired(labels: Labels, found: Found) -> list[tuple[int, int]]:
    """(label, detection) of every found label; one detection may serve two labels that lie on each other."""
    overlap = iou(labels.boxes, found.boxes)
    allowed = (labels.classes[:, None] == found.classes[None]) & (found.scores > SURE)[None]
    overlap = np.where(allowed, overlap, -1.0)
    return [(row, int(line.argmax())) for row, line in enumerate(overlap) if line.size and line.max() >= SAME_OBJECT]


def keypoint_error(wanted: Floats, got: Floats, size: float) -> float:
    """Mean absolute difference of the coordinates (k, 2) over the size of the object, in the same unit."""
    if wanted.shape != got.shape:
        raise ValueError(f"the label has keypoints {wanted.shape}, the model gives {got.shape}")
    return float(np.abs(wanted - got).mean() / size) if size > 0 else float("inf")


def mask_iou(wanted: NDArray[np.bool_], got: NDArray[np.bool_]) -> float:
    """Pixels in both masks over pixels in either; 0 for two empty ones, of which nothing is right."""
    if wanted.shape != got.shape:
        raise ValueError(f"the label has a mask {wanted.shape}, the model gives {got.shape}")
    return int((wanted & got).sum()) / max(1, int((wanted | got).sum()))


def _right(wanted: Floats, got: Floats, limit: float) -> list[bool]:
    """For each detection, best first: whether it is the first one of a label."""
    overlap = iou(got, wanted)
    right = []
    for line in overlap:
        at = int(line.argmax()) if line.size else 0
        hit = bool(line.size and line[at] >= limit)
        right.append(hit)
        if hit:
            overlap[:, at] = -1
    return right


def _check(
    what: str,
    boxes: Floats,
    classes: NDArray[np.int64],
    keypoints: Floats | None,
    masks: NDArray[np.bool_] | None,
) -> None:
    count = len(classes)
    if boxes.shape != (count, 4):
        raise ValueError(f"{what}: {count} classes and boxes {boxes.shape}, want ({count}, 4)")
    if keypoints is not None and (keypoints.ndim != 3 or keypoints.shape[::2] != (count, 2)):
        raise ValueError(f"{what}: {count} classes and keypoints {keypoints.shape}, want ({count}, k, 2)")
    if masks is not None and (masks.ndim != 3 or len(masks) != count):
        raise ValueError(f"{what}: {count} classes and masks {masks.shape}, want ({count}, h, w)")
