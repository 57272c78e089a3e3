"""Agreement on poses and segmentations: the boxes alone do not decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime.masks import run_lengths
from axtool.verify.agreement import Agreement

BOX = [10.0, 10.0, 50.0, 50.0]  # 40 x 40: 10 % of its size are 4 pixels


def posed(shift: float, box: list[float] = BOX, index: int = 0) -> dict[str, Any]:
    points = [[20 + shift, 20 + shift, 0.9], [40 + shift, 40 + shift, 0.9]]
    return {"kind": "pose", "detections": [{"index": index, "box": box, "keypoints": points}]}


def masked(columns: slice) -> dict[str, Any]:
    mask = np.zeros((60, 60), bool)
    mask[10:50, columns] = True
    row = {"index": 0, "box": BOX, "mask": {"size": [60, 60], "counts": run_lengths(mask)}}
    return {"kind": "segmentation", "detections": [row]}


@pytest.mark.parametrize(("shift", "found"), [(0, 1), (3.9, 1), (4.1, 0)])
def test_a_pose_is_found_again_where_its_keypoints_are(shift: float, found: int) -> None:
    agreement = Agreement()
    agreement.add(posed(0), posed(shift))
    assert (agreement.objects, agreement.found, agreement.invented) == (1, found, 1 - found)


def test_keypoints_that_agree_do_not_mend_a_box_or_a_class_that_does_not() -> None:
    agreement = Agreement()
    agreement.add(posed(0), posed(0, [30.0, 30.0, 70.0, 70.0]))
    agreement.add(posed(0), posed(0, index=1))
    assert (agreement.objects, agreement.found) == (2, 0)


@pytest.mark.parametrize(("columns", "found"), [(slice(10, 50), 1), (slice(10, 31), 1), (slice(10, 29), 0)])
def test_a_segmentation_is_found_again_where_half_of_its_mask_is(columns: slice, found: int) -> None:
    agreement = Agreement()
    agreement.add(masked(slice(10, 50)), masked(columns))
    assert agreement.found == found
