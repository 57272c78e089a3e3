"""Tasks of RetinaFace, SSD, YOLACT and DETR: what `interpret` finds is what the operators of their pipelines find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import op
from axtool.runtime.task import check_task, completed, interpret
from axtool.types import TensorSpec

FACE = {"kind": "pose", "decode": "retinaface", "keypoints": 5, "size": [64, 96], "labels": ["face"], "iou": 0.4}
SSD = {"kind": "detection", "decode": "ssd", "size": [64, 96], "labels": ["cat", "dog"], "iou": 0.5}
SET = {"kind": "detection", "decode": "detr", "size": [64, 96], "labels": ["cat", "dog", "owl"]}
MASKS = {"kind": "segmentation", "decode": "yolact", "size": [64, 64], "labels": ["cat", "dog"], "iou": 0.5}


def outputs(*shapes: tuple[int, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {f"o{at}": rng.normal(0, 0.5, shape).astype(np.float32) for at, shape in enumerate(shapes)}


def faces() -> dict[str, Any]:
    made = outputs((1, 252, 4), (1, 252, 2), (1, 252, 10))  # two anchors of 12 x 8, 6 x 4 and 3 x 2 cells
    made["o1"] = np.clip(made["o1"], 0, 1)
    return made


def test_faces_and_landmarks_are_those_of_the_operators() -> None:
    made = faces()
    found = interpret({**FACE, "threshold": 0.6}, made)["detections"]
    rows = op.nms(0.4)(op.decode_retina_face(0.6, width=96, height=64, keypoint_scores=True)(*made.values()))
    assert len(found) == len(rows) > 5
    np.testing.assert_allclose([row["score"] for row in found], rows[:, 4], rtol=1e-6)
    np.testing.assert_allclose([row["box"] for row in found], rows[:, :4], atol=2e-3)
    points = np.array([row["keypoints"] for row in found]).reshape(len(found), -1)
    np.testing.assert_allclose(points, rows[:, 6:], atol=2e-3)


def test_faces_are_as_large_as_the_sides_of_their_priors() -> None:
    made = faces()
    task = {**FACE, "threshold": 0.6, "iou": 1.0}
    half = interpret({**task, "min_sizes": [[8, 16], [32, 64], [128, 256]]}, made)["detections"]
    for row, small in zip(interpret(task, made)["detections"], half, strict=True):
        x0, y0, x1, y1 = row["box"]
        a0, b0, a1, b1 = small["box"]
        np.testing.assert_allclose([a1 - a0, b1 - b0], [(x1 - x0) / 2, (y1 - y0) / 2], atol=2e-3)


def test_priors_for_another_number_of_strides_are_refused() -> None:
    with pytest.raises(UsageError, match="not those of a retinaface model"):
        interpret({**FACE, "min_sizes": [[8, 16]]}, faces())


def test_the_outputs_of_a_face_detector_may_come_in_any_order() -> None:
    made = faces()
    task = {**FACE, "threshold": 0.6}
    assert interpret(task, dict(reversed(made.items()))) == interpret(task, made)


def test_ssd_boxes_are_those_of_the_operators() -> None:
    made = outputs((1, 60, 4), (1, 60, 2))
    made["o0"] = np.sort(np.abs(made["o0"]), -1)
    found = interpret({**SSD, "threshold": 0.5}, made)["detections"]
    rows = op.nms(0.5)(op.decode_ssd(0.5, width=96, height=64)(*made.values()))
    assert len(found) == len(rows) > 3
    np.testing.assert_allclose([row["box"] for row in found], rows[:, :4], atol=2e-3)
    assert [row["index"] for row in found] == rows[:, 5].astype(int).tolist()


def test_yolact_objects_have_masks_inside_their_boxes() -> None:
    made = outputs((1, 258, 4), (1, 258, 3), (1, 258, 4), (1, 16, 16, 4))
    made["o1"][:] = 0
    made["o1"][0, [24, 200], [1, 2]] = 0.9, 0.8
    found = interpret({**MASKS, "threshold": 0.5}, made)["detections"]
    rows, _ = op.decode_yolact(0.5, width=64, height=64)(*made.values())
    assert [row["label"] for row in found] == ["cat", "dog"]
    np.testing.assert_allclose([row["box"] for row in found], rows[:, :4], atol=2e-3)
    assert all("mask" in row for row in found)


def detr() -> dict[str, Any]:
    made = outputs((1, 20, 4), (1, 20, 4))  # three classes and 'no object'; as many boxes as wide
    made["o0"] *= 4
    made["o1"] = 1 / (1 + np.exp(-made["o1"]))
    return made


def test_detr_boxes_are_those_of_the_operator() -> None:
    made = detr()
    found = interpret({**SET, "threshold": 0.5}, made)["detections"]
    rows = op.decode_detr(0.5, width=96, height=64)(*made.values())
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    assert len(found) == len(rows) > 3
    np.testing.assert_allclose([row["box"] for row in found], rows[:, :4], atol=2e-3)
    assert [row["index"] for row in found] == rows[:, 5].astype(int).tolist()


def test_a_set_of_boxes_is_not_suppressed() -> None:
    made = detr()
    made["o1"][:] = made["o1"][:, :1]  # twenty boxes in one place
    made["o0"][:, :, 0] += 10
    assert len(interpret({**SET, "threshold": 0.5}, made)["detections"]) == 20


def test_no_object_is_no_class_and_takes_its_share_of_the_softmax() -> None:
    made = {"logits": np.array([[[1.0, 0, 0, 3.0]]], np.float32), "boxes": np.full((1, 1, 4), 0.5, np.float32)}
    (row,) = interpret({**SET, "threshold": 0.0}, made)["detections"]
    assert (row["label"], row["box"]) == ("cat", [24.0, 16.0, 72.0, 48.0])
    assert row["score"] == pytest.approx(np.e / (np.e + 2 + np.e**3))


@pytest.mark.parametrize("shapes", [[(1, 20, 4)], [(1, 20, 92), (1, 19, 4)], [(1, 20, 92), (1, 20, 5)]])
def test_outputs_that_are_no_detrs_are_refused(shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(UsageError, match="not those of a detr model"):
        interpret(SET, outputs(*shapes))


@pytest.mark.parametrize("task", [FACE, SSD, MASKS, SET])
def test_the_size_comes_from_the_model_where_the_task_does_not_say_it(task: dict[str, Any]) -> None:
    spec = TensorSpec("input", (1, 3, 32, 48), "float32")
    assert completed({**task, "size": None}, [spec], [])["size"] == [32, 48]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({**SSD, "kind": "pose", "keypoints": 5}, "decoder 'ssd' gives no pose"),
        ({**FACE, "kind": "segmentation"}, "decoder 'retinaface' gives no segmentation"),
    ],
)
def test_a_task_that_the_decoder_cannot_serve_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_task(task)


@pytest.mark.parametrize("task", [FACE, SSD, MASKS, SET])
def test_outputs_of_another_model_are_refused_with_their_shapes(task: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"not those of a {task['decode']} model: o0"):
        interpret({**task, "threshold": 0.5}, outputs((1, 7, 4), (1, 8, 2), (1, 7, 10), (1, 4, 4, 3)))
