"""Overlap, suppression and pairing of boxes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from axtool.runtime.boxes import area, centres_to_corners, iou, matched, nms

SIDES = st.floats(0, 50, width=32)
BOXES = st.integers(0, 12).flatmap(lambda n: hnp.arrays(np.float64, (n, 4), elements=SIDES)).map(
    lambda a: np.concatenate([a[:, :2], a[:, :2] + a[:, 2:] + 1], 1)
)  # fmt: skip


@given(BOXES, BOXES)
def test_overlap_is_a_share_and_the_same_both_ways(a: np.ndarray, b: np.ndarray) -> None:
    shares = iou(a, b)
    assert shares.shape == (len(a), len(b))
    assert ((shares >= 0) & (shares <= 1 + 1e-12)).all()
    np.testing.assert_allclose(shares, iou(b, a).T)


@given(BOXES)
def test_a_box_overlaps_itself_wholly(a: np.ndarray) -> None:
    np.testing.assert_allclose(np.diag(iou(a, a)), 1)


def test_the_overlap_of_two_halves_is_a_third() -> None:
    np.testing.assert_allclose(iou(np.array([[0.0, 0, 2, 1]]), np.array([[1.0, 0, 3, 1]])), [[1 / 3]])


def test_boxes_without_area_overlap_nothing() -> None:
    flat = np.array([[1.0, 1, 1, 5], [5.0, 5, 1, 1]])
    assert (iou(flat, flat) == 0).all()
    assert (area(flat) == 0).all()


@given(BOXES, st.integers(0, 2**32 - 1), st.floats(0.1, 0.9))
def test_what_is_kept_does_not_overlap_inside_a_class_and_covers_the_rest(
    boxes: np.ndarray, seed: int, limit: float
) -> None:
    rng = np.random.default_rng(seed)
    scores, classes = rng.random(len(boxes)), rng.integers(0, 2, len(boxes))
    kept = nms(boxes, scores, classes, limit)
    assert list(scores[kept]) == sorted(scores[kept], reverse=True)
    same = classes[kept][:, None] == classes[kept][None]
    shares = np.where(same, iou(boxes[kept], boxes[kept]), 0)
    np.fill_diagonal(shares, 0)
    assert (shares <= limit).all()
    for index in set(range(len(boxes))) - set(kept.tolist()):
        better = [k for k in kept if scores[k] >= scores[index] and classes[k] == classes[index]]
        assert iou(boxes[index : index + 1], boxes[better]).max() > limit


def plain_nms(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, limit: float) -> list[int]:
    """One box after the other, against every one that is kept."""
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable").tolist():
        same = [other for other in kept if classes[other] == classes[index]]
        if not same or iou(boxes[index : index + 1], boxes[same]).max() <= limit:
            kept.append(index)
    return kept


@given(BOXES, st.integers(0, 2**32 - 1), st.floats(0, 1), st.integers(1, 14))
def test_suppression_keeps_what_a_plain_loop_keeps_and_no_more_than_the_best(
    boxes: np.ndarray, seed: int, limit: float, most: int
) -> None:
    rng = np.random.default_rng(seed)
    scores, classes = rng.integers(0, 4, len(boxes)) / 4, rng.integers(-1, 3, len(boxes))  # many scores are equal
    wanted = plain_nms(boxes, scores, classes, limit)
    assert nms(boxes, scores, classes, limit).tolist() == wanted
    assert nms(boxes, scores, classes, limit, most).tolist() == wanted[:most]


@given(BOXES, BOXES)
def test_pairs_are_at_most_one_each(a: np.ndarray, b: np.ndarray) -> None:
    assert 0 <= matched(a, b) <= min(len(a), len(b))
    assert matched(a, a.copy()) == len(a)


def test_a_centre_box_has_its_corners() -> None:
    np.testing.assert_array_equal(centres_to_corners(np.array([[5.0, 6, 4, 2]])), [[3.0, 5, 7, 7]])
