"""Decoders against plain loops and values worked out by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from axtool.runtime import op
from axtool.runtime.detect import decode_yolox


def test_an_anchor_free_output_becomes_rows_of_corners_score_and_class() -> None:
    output = np.zeros((1, 6, 3), np.float32)  # 4 + two classes, three anchors
    output[0, :, 0] = 10, 20, 4, 6, 0.1, 0.9
    output[0, :, 1] = 50, 60, 10, 10, 0.2, 0.1
    output[0, :, 2] = 30, 30, 2, 2, 0.6, 0.3
    rows = op.decode_detections("yolov8", 2)(output)
    np.testing.assert_allclose(rows, [[8, 17, 12, 23, 0.9, 1], [29, 29, 31, 31, 0.6, 0]], rtol=1e-6)
    assert rows.dtype == np.float32


def test_objectness_multiplies_the_scores() -> None:
    output = np.array([[[10, 20, 4, 6, 0.5, 0.4, 0.8], [0, 0, 2, 2, 0.5, 0.4, 0.3]]], np.float32)
    np.testing.assert_allclose(op.decode_detections("yolov5", 2)(output), [[8, 17, 12, 23, 0.4, 1]], rtol=1e-6)


@pytest.mark.parametrize("algo", ["yolov8", "yolov5"])
def test_decoding_is_a_plain_loop_over_anchors(algo: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.random((200, 9), np.float32)  # four of a box, objectness, four classes
    output = rows[None] if algo == "yolov5" else rows[:, [0, 1, 2, 3, 5, 6, 7, 8]].T[None]
    wanted = []
    for row in rows:
        chances = row[5:] * row[4] if algo == "yolov5" else row[5:]
        if chances.max() > 0.4:
            x, y, w, h = row[:4]
            wanted.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2, chances.max(), chances.argmax()])
    np.testing.assert_array_equal(op.decode_detections(algo, 4, 0.4)(output), np.array(wanted, np.float32))


def test_no_anchor_above_the_threshold_is_an_empty_table() -> None:
    assert op.decode_detections("yolo11", 3)(np.zeros((1, 7, 9), np.float32)).shape == (0, 6)


def test_a_score_that_is_not_a_number_is_above_no_threshold() -> None:
    output = np.full((1, 5, 2), np.nan, np.float32)
    assert len(op.decode_detections("yolov8", 1)(output)) == 0


def test_only_the_best_boxes_are_kept_where_there_are_too_many() -> None:
    output = np.zeros((1, 5, 4), np.float32)
    output[0, 4] = 0.5, 0.9, 0.7, 0.6
    np.testing.assert_allclose(op.decode_detections("yolov8", 1, max_boxes_pre_nms=2)(output)[:, 4], [0.9, 0.7])


def test_a_yolox_grid_is_decoded_where_strides_are_given() -> None:
    output = np.zeros((1, 5, 6), np.float32)  # grids of 2x2 and 1x1 of an input of 16x16
    output[0, 3] = 0.5, 0.25, np.log(2), 0, 1, 0.9  # the point (1, 1) of stride 8
    decode = op.decode_detections("yolox", 1, strides=(8, 16))
    with op.frame_context((16, 16)):
        rows = decode(output)
    np.testing.assert_allclose(rows, [[12 - 8, 10 - 4, 12 + 8, 10 + 4, 0.9, 0]], rtol=1e-6)


def test_strides_that_make_another_number_of_anchors_are_refused() -> None:
    output = np.zeros((1, 5, 6), np.float32)
    words = "strides (8,) of an input of 16x16 make 4 anchors, the output has 5"
    with op.frame_context((16, 16)), pytest.raises(ValueError, match=re.escape(words)):
        op.decode_detections("yolox", 1, strides=(8,))(output)


def test_a_grid_box_of_noise_stays_finite() -> None:
    output = np.array([[[0, 0, 200, -200, 1, 1]]], np.float32)
    with op.frame_context((8, 8)):
        assert np.isfinite(op.decode_detections("yolox", 1, strides=(8,))(output)).all()


def test_a_grid_is_decoded_as_by_the_command_line() -> None:
    rng = np.random.default_rng(5)
    output = rng.random((1, 64 + 16 + 4, 8), np.float32)
    with op.frame_context((64, 64)):
        rows = op.decode_detections("yolox", 3, 0.3, strides=(8, 16, 32))(output)
    found = decode_yolox({"size": (64, 64)}, {"out": output}, 0.3)
    np.testing.assert_allclose(rows[:, :4], found.boxes, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(rows[:, 5], found.classes)


def test_without_classes_the_objectness_is_the_score() -> None:
    output = np.array([[[10, 20, 4, 6, 0.9], [0, 0, 2, 2, 0.1]]], np.float32)
    np.testing.assert_allclose(op.decode_detections("yolov5", 0)(output), [[8, 17, 12, 23, 0.9, 0]], rtol=1e-6)


def test_poses_keep_their_keypoints_behind_the_box() -> None:
    output = np.array([[[10], [20], [4], [6], [0.9], [1], [2], [0.5], [3], [4], [0.25]]], np.float32)
    rows = op.decode_pose("yolov8", 2)(output)
    np.testing.assert_allclose(rows, [[8, 17, 12, 23, 0.9, 0, 1, 2, 0.5, 3, 4, 0.25]], rtol=1e-6)


def test_segmentation_gives_rows_and_prototypes_as_two_arguments() -> None:
    output = np.array([[[10], [20], [4], [6], [0.9], [1], [-1]]], np.float32)
    proto = np.ones((1, 2, 3, 3), np.float32)
    rows, prototypes = op.decode_segmentation("yolov8", 1, num_mask_coeffs=2)(output, proto)
    np.testing.assert_allclose(rows[0, 6:], [1, -1])
    assert prototypes.shape == (2, 3, 3)


def test_oriented_boxes_keep_centre_size_and_angle() -> None:
    output = np.array([[[10], [20], [4], [6], [0.1], [0.8], [0.5]]], np.float32)
    np.testing.assert_allclose(op.decode_obb(2)(output), [[10, 20, 4, 6, 0.8, 1, 0.5]], rtol=1e-6)


def test_ssd_boxes_are_turned_to_x_y_clipped_and_scaled_to_the_models_input() -> None:
    boxes = np.array([[[-0.5, 0.25, 0.5, 2.0], [0, 0, 1, 1]]], np.float32)
    scores = np.array([[[0.1, 0.9], [0.1, 0.2]]], np.float32)
    rows = op.decode_ssd(width=200, height=100)(boxes, scores)
    np.testing.assert_allclose(rows, [[50, 0, 200, 50, 0.9, 1]], rtol=1e-6)


def test_retina_faces_are_decoded_from_their_priors() -> None:
    count = 2 * (8 * 8 + 4 * 4 + 2 * 2)
    loc, conf, landms = np.zeros((1, count, 4)), np.zeros((1, count, 2)), np.zeros((1, count, 10))
    conf[0, 3, 1] = 0.9  # the second prior, of 32 pixels, of the point (1, 0) of stride 8
    loc[0, 3] = 1, 0, np.log(2) / 0.2, 0
    landms[0, 3, :2] = 0, 1
    rows = op.decode_retina_face(width=64, height=64)(*(a.astype(np.float32) for a in (loc, conf, landms)))
    np.testing.assert_allclose(rows[0, :6], [12 + 3.2 - 32, 4 - 16, 12 + 3.2 + 32, 4 + 16, 0.9, 0], rtol=1e-5)
    np.testing.assert_allclose(rows[0, 6:10], [12, 4 + 3.2, 12, 4], rtol=1e-5)


def test_landmarks_of_a_face_have_its_score_where_a_pose_is_wanted() -> None:
    loc, conf, landms = (np.zeros((1, 2 * (64 + 16 + 4), size), np.float32) for size in (4, 2, 10))
    conf[0, 0, 1] = 0.75
    rows = op.decode_retina_face(width=64, height=64, keypoint_scores=True)(loc, conf, landms)
    np.testing.assert_allclose(rows[0, 6:], [4, 4, 0.75] * 5)
    assert len(op.ax_pose(5)(rows)[0].keypoints) == 5


def yolact(side: int) -> list[np.ndarray]:
    """loc, conf, mask and proto of nothing: three anchors of each cell of grids of an eighth of the side and halves."""
    count = 3 * sum((-(-side // stride)) ** 2 for stride in (8, 16, 32, 64, 128))
    shapes = ((1, count, 4), (1, count, 4), (1, count, 2), (1, 5, 5, 2))
    return [np.zeros(shape, np.float32) for shape in shapes]


def test_yolact_at_550_has_the_anchors_of_its_published_grids() -> None:
    loc, *_ = yolact(550)
    assert loc.shape[1] == 19248 == 3 * (69**2 + 35**2 + 18**2 + 9**2 + 5**2)
    assert op.decode_yolact(width=550, height=550)(*yolact(550))[0].shape == (0, 8)


def test_yolact_is_decoded_from_its_priors_and_gives_rows_and_prototypes() -> None:
    loc, conf, mask, proto = yolact(64)
    anchor = 3 * 8 + 2  # the last ratio, 2, of the first cell of the second row
    conf[0, anchor] = 0.1, 0.2, 0.6, 0.1
    loc[0, anchor] = 1, 0, np.log(2) / 0.2, 0
    mask[0, anchor] = 0.5, -0.5
    proto[0, 2, 3, 1] = 7
    rows, prototypes = op.decode_yolact(width=64, height=64)(loc, conf, mask, proto)
    side = 24 * 2**0.5  # of a prior of ratio 2: both sides
    x, y = 4 + 0.1 * side, 12
    np.testing.assert_allclose(rows[0, :6], [x - side, y - side / 2, x + side, y + side / 2, 0.6, 1], rtol=1e-5)
    np.testing.assert_allclose(rows[0, 6:], [0.5, -0.5])
    assert prototypes.shape == (2, 5, 5)
    assert prototypes[1, 2, 3] == 7


def test_yolact_outputs_that_do_not_belong_together_are_refused() -> None:
    loc, conf, mask, proto = yolact(64)
    with pytest.raises(ValueError, match="2 coefficients of a mask for 3 prototypes"):
        op.decode_yolact(width=64, height=64)(loc, conf, mask, np.zeros((1, 5, 5, 3), np.float32))
    with pytest.raises(ValueError, match=r"want float \(1, 258, 4\)"):
        op.decode_yolact(width=64, height=64)(loc[:, :-1], conf, mask, proto)


def test_semantic_segmentation_takes_scores_or_labels() -> None:
    scores = np.zeros((1, 3, 2, 2), np.float32)
    scores[0, 2, 0, 1] = 1
    labels = op.decode_semantic_segmentation(3)(scores)
    np.testing.assert_array_equal(labels, [[0, 2], [0, 0]])
    np.testing.assert_array_equal(op.decode_semantic_segmentation(3)(labels[None]), labels)


@pytest.mark.parametrize(
    ("make", "output", "words"),
    [
        (lambda: op.decode_detections("yolov8", 8), np.zeros((1, 13, 9), np.float32), "want float (1, 12, n)"),
        (lambda: op.decode_detections("yolov5", 80), np.zeros((1, 84, 9), np.float32), "want float (1, n, 85)"),
        (lambda: op.decode_detections("yolov8", 80), np.zeros((1, 84, 9), np.int8), "got int8"),
        (lambda: op.decode_obb(15), np.zeros((1, 19, 9), np.float32), "DecodeObb: want float (1, 20, n)"),
    ],
)  # fmt: skip
def test_an_output_of_another_shape_is_refused_with_both(make: object, output: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make()(output)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"algo": "yolov88"}, "there is no algo 'yolov88'; did you mean yolov8"),
        ({"confidence_threshold": 1.5}, "confidence_threshold is 1.5, want 0 to 1"),
        ({"num_classes": 0}, "num_classes is 0, want at least 1"),
        ({"max_boxes_pre_nms": 0}, "max_boxes_pre_nms is 0, want at least 1"),
        ({"input_format": "ltwh"}, "there is no input_format 'ltwh'"),
    ],
)
def test_a_parameter_out_of_range_is_refused(params: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        op.decode_detections(**{"algo": "yolov8", "num_classes": 2, **params})
