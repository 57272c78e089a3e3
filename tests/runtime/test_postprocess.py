"""Suppression, masks, the way back to the picture, and results, with values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import CocoClasses, op
from axtool.runtime.results import BBox, Classification, DetectedObject, OrientedObject

ROWS = np.array(
    [
        [0, 0, 10, 10, 0.8, 0],
        [1, 0, 11, 10, 0.9, 0],  # 9/11 of the first
        [1, 0, 11, 10, 0.7, 1],  # the same place, another class
        [20, 20, 30, 30, 0.6, 0],
    ],
    np.float32,
)


@pytest.mark.parametrize("backend", ["opencv", "numpy"])
def test_of_two_boxes_of_a_class_that_overlap_the_better_stays(backend: str) -> None:
    np.testing.assert_array_equal(op.nms(backend=backend)(ROWS), ROWS[[1, 2, 3]])


@pytest.mark.parametrize("backend", ["opencv", "numpy"])
def test_without_classes_the_better_of_any_two_stays(backend: str) -> None:
    np.testing.assert_array_equal(op.nms(class_agnostic=True, backend=backend)(ROWS), ROWS[[1, 3]])


def test_backends_keep_the_same_of_many_boxes() -> None:
    rng = np.random.default_rng(2)
    corner = rng.uniform(0, 60, (300, 2))
    rows = np.concatenate(
        [corner, corner + rng.uniform(8, 30, (300, 2)), rng.random((300, 1)), rng.integers(0, 3, (300, 1))], 1
    )
    rows = rows.astype(np.float32)
    np.testing.assert_array_equal(op.nms(backend="opencv")(rows), op.nms(backend="numpy")(rows))


@pytest.mark.parametrize("backend", ["opencv", "numpy"])
def test_classes_stay_apart_where_boxes_begin_left_of_the_picture(backend: str) -> None:
    rows = np.array([[40, 40, 100, 100, 0.9, 0], [-61, -61, -1, -1, 0.8, 1]], np.float32)
    np.testing.assert_array_equal(op.nms(backend=backend)(rows), rows)


@pytest.mark.parametrize("classes", [1, 80])
def test_many_rows_are_left_to_the_loop_that_ends_early_and_come_out_the_same(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(classes)
    corner = rng.uniform(0, 600, (2000, 2))
    rows = [corner, corner + rng.uniform(8, 60, (2000, 2)), rng.random((2000, 1)), rng.integers(0, classes, (2000, 1))]
    table = np.concatenate(rows, 1).astype(np.float32)
    quick = op.nms()(table)
    monkeypatch.setattr("axtool.runtime.op.postprocess.MANY", 10_000)
    np.testing.assert_array_equal(quick, op.nms()(table))


def test_no_more_than_the_best_boxes_come_out() -> None:
    np.testing.assert_array_equal(op.nms(max_boxes=1)(ROWS), ROWS[[1]])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e10])
def test_a_class_that_is_none_is_refused(value: float) -> None:
    rows = np.array([[0, 0, 1, 1, 0.5, value]])
    with pytest.raises(ValueError, match="column 5 is the class, got"):
        op.nms()(rows)
    assert len(op.nms(class_agnostic=True)(rows)) == 1


def test_no_rows_stay_no_rows() -> None:
    assert op.nms()(np.zeros((0, 6), np.float32)).shape == (0, 6)


def test_turned_boxes_are_compared_as_they_lie() -> None:
    quarter = np.float32(np.pi / 2)
    rows = np.array([[10, 10, 20, 2, 0.9, 0, 0], [10, 10, 2, 20, 0.8, 0, quarter], [10, 10, 20, 2, 0.7, 0, quarter]])
    np.testing.assert_array_equal(op.nms(box_format="xywhr")(rows)[:, 4], np.float32([0.9, 0.7]))


def test_turned_boxes_at_angle_zero_are_suppressed_as_upright_ones() -> None:
    rng = np.random.default_rng(6)
    for count in (1, 2, 7, 40):
        centre, size = rng.uniform(-20, 40, (count, 2)), rng.uniform(5, 30, (count, 2))
        rest = np.concatenate([rng.random((count, 1)), rng.integers(0, 2, (count, 1)), np.zeros((count, 1))], 1)
        turned = op.nms(box_format="xywhr")(np.concatenate([centre, size, rest], 1))
        upright = op.nms()(np.concatenate([centre - size / 2, centre + size / 2, rest], 1))
        np.testing.assert_array_equal(turned[:, 4:], upright[:, 4:])


def test_boxes_go_back_through_a_letterbox_to_the_picture() -> None:
    picture = np.zeros((50, 100, 3), np.uint8)
    pipeline = op.seq(
        op.letterbox(200, 200), lambda _: np.array([[50, 75, 150, 125, 0.9, 0], [0, 0, 200, 200, 0.5, 1]]),
        op.to_image_space(),
    )  # fmt: skip
    # scaled by two and moved down by 50: 25 to 75 of 100 across, 12.5 to 37.5 of 50 down; the second is cut
    np.testing.assert_allclose(pipeline(picture)[:, :4], [[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1]])


def test_keypoints_go_back_with_their_box() -> None:
    rows = np.array([[0, 0, 10, 10, 0.9, 0, 5, 10, 0.8]])
    pipeline = op.seq(op.resize(20, 20), lambda _: rows, op.to_image_space(keypoint_cols=range(6, 9, 3)))
    np.testing.assert_allclose(pipeline(np.zeros((40, 80, 3), np.uint8))[0, 6:], [0.25, 0.5, 0.8])


def turned_back(rows: list[list[float]], height: int, width: int, *moves: op.Operator) -> np.ndarray:
    """Turned boxes of the model's pixels in pixels of a picture (height, width): cx, cy, w, h, angle."""
    back = op.seq(*moves, lambda _: np.array(rows), op.to_image_space(box_format="xywhr"))
    found = back(np.zeros((height, width, 3), np.uint8)).astype(np.float64)
    return np.concatenate([found[:, :4] * [width, height, width, height], found[:, 6:7]], 1)


@pytest.mark.parametrize("angle", [-0.7, 0, 0.3, 1.5, 2.0])
def test_a_turned_box_keeps_its_angle_where_the_picture_kept_its_shape(angle: float) -> None:
    found = turned_back([[60, 80, 40, 10, 0.9, 0, angle]], 50, 100, op.letterbox(200, 200))
    np.testing.assert_allclose(found, [[30, 15, 20, 5, angle]], atol=1e-4)


def test_a_turned_box_along_the_axes_survives_a_stretch_exactly() -> None:
    quarter = np.pi / 2
    rows = [[50, 50, 20, 10, 0.9, 0, 0], [50, 50, 20, 10, 0.9, 0, quarter]]
    found = turned_back(rows, 100, 400, op.resize(100, 100))
    np.testing.assert_allclose(found, [[200, 50, 80, 10, 0], [200, 50, 20, 40, quarter]], atol=1e-4)


@pytest.mark.parametrize("turned_by", [0, np.pi / 2])
def test_the_angle_of_a_thin_box_is_that_of_its_line_in_the_picture(turned_by: float) -> None:
    # a line of slope 1 in the model's square was one of slope 1/2 in a picture twice as wide
    sides = [40, 1e-3] if turned_by == 0 else [1e-3, 40]
    angle = np.pi / 4 - turned_by
    found = turned_back([[50, 50, *sides, 0.9, 0, angle]], 100, 200, op.resize(100, 100))[0]
    assert found[4] + turned_by == pytest.approx(np.arctan2(1, 2), abs=1e-4)
    assert max(found[2:4]) == pytest.approx(40 * np.sqrt(2.5), rel=1e-4)


def test_the_area_of_a_turned_box_is_stretched_with_the_picture() -> None:
    for angle in np.linspace(-1.5, 1.5, 7):
        found = turned_back([[50, 50, 30, 20, 0.9, 0, angle]], 100, 300, op.resize(100, 100))[0]
        assert found[2] * found[3] == pytest.approx(3 * 600, rel=1e-4)
        assert abs(found[4] - angle) <= np.pi / 2


def test_turned_boxes_without_an_angle_are_refused() -> None:
    with op.frame_context((10, 10)), pytest.raises(ValueError, match=r"rows \(n, 7 or more\), got \(4, 6\)"):
        op.to_image_space(box_format="xywhr")(ROWS)


def test_the_way_back_of_a_crop_is_a_shift() -> None:
    rows = np.array([[0, 0, 20, 20, 0.9, 0]])
    pipeline = op.seq(op.center_crop(20), lambda _: rows, op.to_image_space())
    np.testing.assert_allclose(pipeline(np.zeros((40, 40, 3), np.uint8))[0, :4], [0.25, 0.25, 0.75, 0.75])


def test_a_perspective_is_undone_at_the_corners() -> None:
    matrix = [[1, 0, 0], [0, 1, 0], [0.01, 0, 1]]
    pipeline = op.seq(op.perspective(matrix, 100, 100), lambda _: np.array([[0, 0, 50, 10, 1, 0]]), op.to_image_space())
    # x' = x / (1 + 0.01 x), so x' = 50 was x = 100, and y there was 10 * 2
    np.testing.assert_allclose(pipeline(np.zeros((100, 100, 3), np.uint8))[0, :4], [0, 0, 1, 0.2], atol=1e-6)


def test_a_step_alone_asks_for_a_frame() -> None:
    with pytest.raises(RuntimeError, match=r"to_image_space does not know the picture.*op\.frame_context\(image\)"):
        op.to_image_space()(ROWS)


def test_masks_are_cut_to_their_box() -> None:
    proto = np.stack([np.full((4, 4), 5.0), np.zeros((4, 4))]).astype(np.float32)
    rows = np.array([[0, 0, 8, 16, 0.9, 0, 1, 0], [0, 0, 16, 16, 0.9, 0, -1, 1]])
    with op.frame_context((16, 16)):
        masks = op.proto_to_mask(num_mask_coeffs=2)(rows, proto)
    np.testing.assert_array_equal(masks[0], np.array([[True, True, False, False]] * 4))
    assert not masks[1].any()


@pytest.mark.parametrize("threshold", [0, 1, -0.5])
def test_a_mask_threshold_that_decides_nothing_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=f"mask_threshold is {threshold}, want between 0 and 1"):
        op.proto_to_mask(threshold)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_, np.float32])
def test_top_k_is_right_for_every_kind_of_number(dtype: type) -> None:
    _, indices = op.top_k(2)(np.array([1, 0, 1, 0], dtype))
    np.testing.assert_array_equal(indices, [0, 2])


def test_the_lowest_byte_is_not_the_largest() -> None:
    values, _ = op.top_k(1)(np.array([-128, 5], np.int8))
    assert values.tolist() == [5]


def test_top_k_gives_values_and_indices_of_the_largest() -> None:
    values, indices = op.top_k(2)(np.array([[0.1, 0.5, 0.4]]))
    np.testing.assert_array_equal(values, [0.5, 0.4])
    np.testing.assert_array_equal(indices, [1, 2])


def test_top_k_along_an_axis_keeps_the_others() -> None:
    values, indices = op.top_k(1, dim=-1, largest=False)(np.array([[3, 1, 2], [4, 6, 5]]))
    assert (values.tolist(), indices.tolist()) == ([[1], [4]], [[1], [0]])


@pytest.mark.parametrize("between", [(), (op.unpack(),)])
def test_a_classifiers_tail_gives_its_best_classes(between: tuple[op.Operator, ...]) -> None:
    pipeline = op.seq(op.softmax(), op.top_k(2), *between, op.ax_classification())
    best, second = pipeline(np.log(np.array([[1, 6, 3]], np.float32)))
    assert (best.class_id, second.class_id) == (1, 2)
    assert best.score == pytest.approx(0.6, rel=1e-6)


def test_detections_have_classes_of_the_type_that_is_asked_for() -> None:
    (found,) = op.ax_detection(CocoClasses)(np.array([[0, 0, 1, 0.5, 0.9, 16]]))
    assert found.class_id is CocoClasses.dog
    assert found.bbox == BBox(0, 0, 1, 0.5)


def test_a_pose_names_its_keypoints() -> None:
    (pose,) = op.ax_pose(1, keypoint_names=["nose"])(np.array([[0, 0, 1, 1, 0.9, 0, 0.5, 0.25, 0.75]]))
    assert (pose.keypoints[0].x, pose.keypoints[0].y, pose.keypoints[0].confidence) == (0.5, 0.25, 0.75)
    assert pose.keypoint_names == ("nose",)


def test_a_filter_keeps_what_meets_every_condition() -> None:
    items = [Classification(0, 0.9), Classification(1, 0.8), Classification(1, 0.2)]
    assert op.filter(class_ids=[1], min_score=0.5)(items) == [items[1]]
    assert op.seq(op.split(min_score=0.5), lambda kept, others: (len(kept), len(others)))(items) == (2, 1)


def test_results_are_sorted_by_an_attribute() -> None:
    items = [Classification(0, 0.2), Classification(1, 0.8)]
    assert op.sort_by("score", top=1)(items) == [items[1]]


def test_boxes_are_sorted_by_area_and_by_distance_from_the_middle() -> None:
    corner = DetectedObject(0, 0, BBox(0, 0, 0.5, 0.5), 0.9)
    middle = DetectedObject(1, 0, BBox(0.4, 0.4, 0.6, 0.6), 0.8)
    assert op.sort_by("area")([middle, corner]) == [corner, middle]
    assert op.sort_by("center_distance", descending=False)([corner, middle]) == [middle, corner]


def test_turned_boxes_have_an_area_too() -> None:
    small, large = (OrientedObject(0, 0, 0.5, 0.5, side, side, 0.3, 0.5) for side in (0.1, 0.2))
    assert op.sort_by("area")([small, large]) == [large, small]


def test_a_box_converts_between_its_forms() -> None:
    box = BBox.from_xywh(0.5, 0.5, 0.2, 0.4)
    np.testing.assert_allclose(box.xyxy(), (0.4, 0.3, 0.6, 0.7))
    np.testing.assert_allclose(BBox.from_ltwh(*box.ltwh()).xywh(), (0.5, 0.5, 0.2, 0.4))
    assert box.to_pixels(100, 10) == (40, 3, 60, 7)
    np.testing.assert_allclose(box.scaled(100, 10).xyxy(), (40, 3, 60, 7))
