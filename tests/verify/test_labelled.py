"""Accuracy on labelled pictures: figures worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.verify.labelled import Found, Labels, Tally, average_precision, keypoint_error, mask_iou

BOX, FAR, FAR_TOO = (0, 0, 10, 10), (50, 50, 60, 60), (80, 80, 90, 90)
HALF = (0, 0, 10, 6)  # IoU 0.6 with BOX: right at 0.5, wrong at 0.75


def boxes(*rows: tuple[float, ...]) -> Any:
    return np.array(rows, np.float64).reshape(-1, 4)


def labels(*rows: tuple[float, ...], classes: list[int] | None = None, **more: Any) -> Labels:
    return Labels(boxes(*rows), np.array(classes or [0] * len(rows), np.int64), **more)


def found(*rows: tuple[float, ...], scores: list[float], classes: list[int] | None = None, **more: Any) -> Found:
    return Found(boxes(*rows), np.array(scores), np.array(classes or [0] * len(rows), np.int64), **more)


def accuracy(*pictures: tuple[Labels, Found]) -> Tally:
    made = Tally()
    for picture in pictures:
        made.add(*picture)
    return made


def test_everything_found_and_nothing_else_is_1() -> None:
    made = accuracy((labels(BOX, FAR), found(FAR, BOX, scores=[0.4, 0.9])))
    assert made.mean_average_precision(0.5) == made.mean_average_precision(0.75) == 1


def test_nothing_found_is_0() -> None:
    assert accuracy((labels(BOX), found(scores=[]))).mean_average_precision(0.5) == 0


def test_one_of_two_found_is_the_51_recalls_up_to_a_half() -> None:
    made = accuracy((labels(BOX, FAR), found(BOX, scores=[0.9])))
    assert made.mean_average_precision(0.5) == pytest.approx(51 / 101)


def test_a_wrong_box_before_a_right_one_halves_the_precision() -> None:
    made = accuracy((labels(BOX), found(FAR, BOX, scores=[0.9, 0.8])))
    assert made.mean_average_precision(0.5) == pytest.approx(0.5)


def test_a_wrong_box_behind_the_last_right_one_costs_nothing() -> None:
    made = accuracy((labels(BOX), found(FAR, BOX, scores=[0.1, 0.8])))
    assert made.mean_average_precision(0.5) == 1


def test_precision_is_the_best_of_this_recall_and_all_greater_ones() -> None:
    # right, wrong, right of two labels: precision 1, 1/2, 2/3; so 51 recalls at 1 and 50 at 2/3
    made = accuracy((labels(BOX, FAR), found(BOX, FAR_TOO, FAR, scores=[0.9, 0.8, 0.7])))
    assert made.mean_average_precision(0.5) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_a_second_box_on_the_same_label_is_wrong() -> None:
    made = accuracy((labels(BOX, FAR), found(BOX, BOX, FAR, scores=[0.9, 0.8, 0.7])))
    assert made.mean_average_precision(0.5) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_the_limit_of_the_overlap_decides() -> None:
    made = accuracy((labels(BOX), found(HALF, scores=[0.9])))
    assert (made.mean_average_precision(0.5), made.mean_average_precision(0.75)) == (1, 0)


def test_scores_rank_detections_of_all_pictures_together() -> None:
    # the wrong one of the second picture comes first
    made = accuracy((labels(BOX), found(BOX, scores=[0.5])), (labels(), found(FAR, scores=[0.9])))
    assert made.mean_average_precision(0.5) == pytest.approx(0.5)


def test_a_label_is_only_found_by_its_own_class() -> None:
    made = accuracy((labels(BOX, classes=[3]), found(BOX, scores=[0.9], classes=[4])))
    assert made.mean_average_precision(0.5) == 0


def test_the_mean_is_over_labelled_classes_alone() -> None:
    made = accuracy((labels(BOX, FAR, classes=[3, 7]), found(BOX, FAR_TOO, scores=[0.9, 0.9], classes=[3, 5])))
    assert made.mean_average_precision(0.5) == pytest.approx(0.5)


def test_pictures_without_any_label_have_no_mean() -> None:
    assert accuracy((labels(), found(BOX, scores=[0.9]))).mean_average_precision(0.5) is None


def test_a_class_without_labels_has_no_average_precision() -> None:
    with pytest.raises(ValueError, match="no label of class 2"):
        average_precision([(labels(BOX), found(BOX, scores=[0.9]))], 2, 0.5)


def points(*rows: list[tuple[float, float]]) -> dict[str, Any]:
    return {"keypoints": np.array(rows, np.float64)}


def test_the_error_of_keypoints_is_the_mean_difference_over_the_size() -> None:
    wanted, got = np.array([[0.0, 0.0], [4.0, 4.0]]), np.array([[1.0, 0.0], [4.0, 1.0]])
    assert keypoint_error(wanted, got, 10) == pytest.approx(0.1)  # (1 + 0 + 0 + 3) / 4 / 10


def test_pck_is_the_share_of_found_labels_below_a_tenth_of_their_size() -> None:
    near, away = [(1.9, 1.9)], [(53.0, 55.0)]  # off by 0.9 of 10, and by 2.5 on average
    truth = labels(BOX, FAR, FAR_TOO, **points([(1.0, 1.0)], [(55.0, 58.0)], [(0.0, 0.0)]))
    made = accuracy((truth, found(BOX, FAR, scores=[0.9, 0.8], **points(near, away))))
    assert made.pck == 0.5
    assert made.to_dict()["keypoint_objects"] == 2


def test_an_unsure_detection_is_not_judged_by_its_keypoints() -> None:
    made = accuracy((labels(BOX, **points([(1, 1)])), found(BOX, scores=[0.25], **points([(1, 1)]))))
    assert made.pck is None


def test_of_two_detections_the_one_that_overlaps_more_is_judged() -> None:
    got = found(HALF, BOX, scores=[0.9, 0.5], **points([(9, 9)], [(1, 1)]))
    assert accuracy((labels(BOX, **points([(1, 1)])), got)).keypoint_errors == [0]


def mask(*pixels: tuple[int, int]) -> Any:
    made = np.zeros((4, 4), bool)
    for pixel in pixels:
        made[pixel] = True
    return made


def test_the_overlap_of_masks_is_shared_pixels_over_all() -> None:
    assert mask_iou(mask((0, 0), (0, 1)), mask((0, 1), (0, 2))) == pytest.approx(1 / 3)
    assert mask_iou(mask(), mask()) == 0


def test_mask_iou_is_the_mean_over_found_labels() -> None:
    truth = labels(BOX, FAR, masks=np.stack([mask((0, 0)), mask((1, 1), (1, 2))]))
    got = found(BOX, FAR, scores=[0.9, 0.9], masks=np.stack([mask((0, 0)), mask((1, 1))]))
    made = accuracy((truth, got))
    assert made.mean_mask_iou == pytest.approx(0.75)
    assert made.to_dict()["mask_objects"] == 2


def test_figures_without_keypoints_or_masks_have_neither() -> None:
    made = accuracy((labels(BOX), found(BOX, scores=[0.9]))).to_dict()
    assert made == {"pictures": 1, "labels": 1, "map50": 1.0, "map75": 1.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Labels(np.zeros((2, 4)), np.zeros(1, np.int64)), r"labels: 1 classes and boxes \(2, 4\)"),
        (lambda: labels(BOX, keypoints=np.zeros((1, 4))), r"labels: 1 classes and keypoints \(1, 4\)"),
        (lambda: found(BOX, scores=[0.9], masks=np.zeros((2, 4, 4), bool)), r"found: 1 classes and masks \(2, 4, 4\)"),
        (lambda: found(BOX, scores=[0.9, 0.8]), r"found: 1 classes and scores \(2,\)"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_masks_of_two_resolutions_are_refused() -> None:
    got = found(BOX, scores=[0.9], masks=np.zeros((1, 2, 2), bool))
    with pytest.raises(ValueError, match=r"the label has a mask \(4, 4\), the model gives \(2, 2\)"):
        accuracy((labels(BOX, masks=np.zeros((1, 4, 4), bool)), got))
