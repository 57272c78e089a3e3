"""Detections of two models, picture by picture  ->  how many of the best boxes agree, and how well they lie.

Of each picture the best boxes of either side, by score and at any score above 0, are paired: the same class, an IoU
above the limit, each used once, the largest overlap first. Unlike `axtool.verify.agreement` no threshold decides which
objects are there, so that a set of boxes always has something to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.boxes import iou
from axtool.runtime.detect import DECODERS
from axtool.runtime.detect_heads import detr_outputs
from axtool.runtime.objects import Objects, objects_of
from axtool.types import TensorSpec

BEST = 10  # boxes of a picture
IOU = 0.5  # two boxes are one object above this
MATCHED = 0.8  # of the reference's boxes: what is wanted where no limit is given
Arrays = Mapping[str, NDArray[Any]]


@dataclass
class BoxAgreement:
    """Sums over the pictures; `task` says how outputs become boxes, as `axtool.runtime.objects.objects_of` reads it."""

    task: Mapping[str, Any]
    samples: int = 0
    wanted: int = 0
    got: int = 0
    matched: int = 0
    overlap: float = 0.0  # sum of the IoU of the pairs

    def add(self, reference: Arrays, result: Arrays) -> None:
        """One picture: the outputs of the two models by name."""
        a, b = (objects_of(self.task, outputs, None, threshold=0.0, most=BEST) for outputs in (reference, result))
        pairs = paired(a, b)
        self.samples += 1
        self.wanted += len(a.boxes)
        self.got += len(b.boxes)
        self.matched += len(pairs)
        self.overlap += sum(pairs)

    @property
    def share(self) -> float:
        """Of the reference's boxes, those that were matched; 1 where there are none."""
        return self.matched / self.wanted if self.wanted else 1.0

    @property
    def mean_iou(self) -> float | None:
        """Of the matched pairs; None without any."""
        return self.overlap / self.matched if self.matched else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "best": BEST, "iou": IOU, "samples": self.samples, "reference_boxes": self.wanted, "device_boxes": self.got,
            "matched": self.matched, "matched_share": self.share, "mean_iou": self.mean_iou,
        }  # fmt: skip

    def failures(self, least: float | None) -> tuple[str, list[str]]:
        """(what is checked, why it fails) against the least share of matched boxes."""
        wanted = MATCHED if least is None else least
        checked = f"matched share of the best {BEST} boxes >= {wanted:g}"
        if self.share >= wanted:
            return checked, []
        return checked, [
            f"{self.matched} of {self.wanted} best boxes match ({self.share:.4f}), want at least {wanted:g}"
        ]


def paired(wanted: Objects, got: Objects) -> list[float]:
    """The IoU of each pair: the same class, IoU above the limit, each object used once, the largest overlap first."""
    overlap = np.where(wanted.classes[:, None] == got.classes[None], iou(wanted.boxes, got.boxes), -1.0)
    found: list[float] = []
    while overlap.size and overlap.max() > IOU:
        row, column = np.unravel_index(int(overlap.argmax()), overlap.shape)
        found.append(float(overlap[row, column]))
        overlap[row, :], overlap[:, column] = -1, -1
    return found


def boxes_task(
    task: Mapping[str, Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Mapping[str, Any] | None:
    """The task that the boxes are decoded by: the file's own, or a DETR's where the outputs are of that form.

    None where nothing says how outputs become boxes.
    """
    if task.get("decode") in DECODERS:
        return {**task, "kind": "detection"}
    if task or len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    try:
        detr_outputs({spec.name: np.empty(spec.shape, np.float32) for spec in outputs})
    except ValueError:
        return None
    _, a, b, c = inputs[0].shape
    return {"kind": "detection", "decode": "detr", "size": [b, c] if a in (1, 3) else [a, b]}
