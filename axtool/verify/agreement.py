"""Results of a task from two models, sample by sample  ->  how often they say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.boxes import area, iou, pairs
from axtool.runtime.masks import from_run_lengths
from axtool.verify.labelled import PCK_SHARE, keypoint_error, mask_iou

IOU = 0.5
Row = Mapping[str, Any]


@dataclass
class Agreement:
    """Counts over samples: objects of the reference, those found again (same class, IoU >= 0.5), those invented.

    The IoU is that of the boxes, for a segmentation that of the masks. An object of a pose is found again where its
    keypoints are, too, on average within 10 % of its size.
    """

    samples: int = 0
    objects: int = 0
    found: int = 0
    invented: int = 0
    same_class: int = 0
    classified: int = 0

    def add(self, reference: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """One sample: two results of `axtool.runtime.task.interpret`."""
        self.samples += 1
        if reference["kind"] == "classification":
            self.classified += 1
            self.same_class += reference["classes"][0]["index"] == result["classes"][0]["index"]
            return
        a, b = _by_class(reference), _by_class(result)
        for index in a.keys() | b.keys():
            wanted, got = a.get(index, []), b.get(index, [])
            again = pairs(_overlap(wanted, got), IOU)
            self.objects += len(wanted)
            self.found += again
            self.invented += len(got) - again

    @property
    def found_share(self) -> float:
        """Of the reference's objects, or of its classes for a classifier; 1 when there are none."""
        if self.classified:
            return self.same_class / self.classified
        return self.found / self.objects if self.objects else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        if self.classified:
            return {"top1_agreement": self.found_share, "samples": self.samples}
        return {
            "objects": self.objects, "found": self.found, "found_share": self.found_share,
            "invented": self.invented, "samples": self.samples, "iou": IOU,
        }  # fmt: skip


def _by_class(result: Mapping[str, Any]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in result["detections"]:
        groups.setdefault(row["index"], []).append(row)
    return groups


def _overlap(wanted: Sequence[Row], got: Sequence[Row]) -> NDArray[np.float64]:
    """How much every object (rows) and every other one (columns) are the same, by boxes, masks or keypoints."""
    boxes, others = (np.array([row["box"] for row in rows], np.float64).reshape(-1, 4) for rows in (wanted, got))
    overlap = iou(boxes, others)
    for at, to in zip(*np.nonzero(overlap), strict=True):
        a, b = wanted[at], got[to]
        if "mask" in a:
            overlap[at, to] = mask_iou(_mask(a), _mask(b))
        elif "keypoints" in a:
            size = float(np.sqrt(area(boxes[at : at + 1])[0]))
            points, others_points = (np.array(row["keypoints"], np.float64)[:, :2] for row in (a, b))
            overlap[at, to] *= keypoint_error(points, others_points, size) < PCK_SHARE
    return overlap


def _mask(row: Row) -> NDArray[np.bool_]:
    rows, columns = row["mask"]["size"]
    return from_run_lengths(row["mask"]["counts"], (rows, columns))
