"""Results of a task from two models, sample by sample  ->  how often they say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from axtool.runtime.boxes import matched

IOU = 0.5


@dataclass
class Agreement:
    """Counts over samples: objects of the reference, those found again (same class, IoU >= 0.5), those invented."""

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
            wanted, got = a.get(index, np.zeros((0, 4))), b.get(index, np.zeros((0, 4)))
            pairs = matched(wanted, got, IOU)
            self.objects += len(wanted)
            self.found += pairs
            self.invented += len(got) - pairs

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


def _by_class(result: Mapping[str, Any]) -> dict[int, np.ndarray[Any, np.dtype[np.float64]]]:
    groups: dict[int, list[list[float]]] = {}
    for row in result["detections"]:
        groups.setdefault(row["index"], []).append(row["box"])
    return {index: np.array(boxes, np.float64) for index, boxes in groups.items()}
