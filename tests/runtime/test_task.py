"""Outputs become classes or objects: every decoder against tensors made from known boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.inputs.prepare import Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.draw import draw
from axtool.runtime.masks import from_run_lengths
from axtool.runtime.task import check_task, completed, interpret
from axtool.types import TensorSpec

BOX = (20.0, 10.0, 60.0, 40.0)  # x1, y1, x2, y2 in a 64 x 96 input
CENTRE = (40.0, 25.0, 40.0, 30.0)


def yolo() -> dict[str, np.ndarray]:
    out = np.zeros((1, 4 + 3, 5), np.float32)
    out[0, :4, 2], out[0, 4 + 1, 2] = CENTRE, 0.9
    return {"y": out}


def yolo_anchored() -> dict[str, np.ndarray]:
    out = np.zeros((1, 5, 5 + 3), np.float32)
    out[0, 3, :4], out[0, 3, 4], out[0, 3, 6] = CENTRE, 0.95, 0.95
    return {"y": out}


def yolox() -> dict[str, np.ndarray]:
    cells = [(h // s, w // s, s) for h, w, s in ((64, 96, 8), (64, 96, 16), (64, 96, 32))]
    out = np.zeros((1, sum(h * w for h, w, _ in cells), 5 + 3), np.float32)
    row = 3 * 12 + 5  # the cell (y 3, x 5) of stride 8
    out[0, row, :2] = CENTRE[0] / 8 - 5, CENTRE[1] / 8 - 3
    out[0, row, 2:4] = np.log(CENTRE[2] / 8), np.log(CENTRE[3] / 8)
    out[0, row, 4], out[0, row, 6] = 0.95, 0.95
    return {"y": out}


def centerface() -> dict[str, np.ndarray]:
    heat, size, offset = np.zeros((1, 1, 16, 24)), np.zeros((1, 2, 16, 24)), np.zeros((1, 2, 16, 24))
    y, x = 5, 9
    heat[0, 0, y, x] = 0.9
    size[0, :, y, x] = np.log(CENTRE[3] / 4), np.log(CENTRE[2] / 4)
    offset[0, :, y, x] = CENTRE[1] / 4 - y - 0.5, CENTRE[0] / 4 - x - 0.5
    return {"s": size, "h": heat, "o": offset}


def dbnet() -> dict[str, np.ndarray]:
    chance = np.zeros((1, 1, 64, 96), np.float32)
    chance[0, 0, 14:36, 24:56] = 0.9
    return {"y": chance}


DECODED: dict[str, tuple[dict[str, Any], Any, int]] = {
    "yolo": ({"classes": 3}, yolo, 1),
    "yolo-anchored": ({}, yolo_anchored, 1),
    "yolox": ({"size": [64, 96]}, yolox, 1),
    "centerface": ({"outputs": ["h", "s", "o"]}, centerface, 0),
    "dbnet": ({"unclip": 0.0}, dbnet, 0),
}
LABELS = ["cat", "dog", "owl"]


@pytest.mark.parametrize("decode", DECODED)
def test_a_decoder_finds_the_box_that_was_put_in(decode: str) -> None:
    extra, outputs, index = DECODED[decode]
    task = {"kind": "detection", "decode": decode, "labels": LABELS, "threshold": 0.5, **extra}
    (found,) = interpret(task, outputs())["detections"]
    assert (found["index"], found["label"]) == (index, LABELS[index])
    assert found["score"] == pytest.approx(0.9, abs=0.01)
    want = (24, 14, 56, 36) if decode == "dbnet" else BOX
    np.testing.assert_allclose(found["box"], want, atol=1e-3)


@pytest.mark.parametrize("decode", DECODED)
def test_a_high_threshold_finds_nothing(decode: str) -> None:
    extra, outputs, _ = DECODED[decode]
    task = {"kind": "detection", "decode": decode, "threshold": 0.99, **extra}
    assert interpret(task, outputs())["detections"] == []


def test_a_box_goes_back_to_the_pixels_of_the_image() -> None:
    spec = InputSpec("x", (1, 3, 64, 96))
    placement = Preparation(resize="fit").resolve(spec).place(128, 192)  # an image twice as large
    task = {"kind": "detection", "decode": "yolo", "classes": 3}
    (found,) = interpret(task, yolo(), placement)["detections"]
    np.testing.assert_allclose(found["box"], [2 * v for v in BOX], atol=1.0)


def test_a_box_never_leaves_the_image() -> None:
    spec = InputSpec("x", (1, 3, 64, 96))
    placement = Preparation(resize="fit").resolve(spec).place(64, 96)
    outputs = yolo()
    outputs["y"][0, :4, 2] = 90, 60, 100, 100
    (found,) = interpret({"kind": "detection", "decode": "yolo", "classes": 3}, outputs, placement)["detections"]
    x1, y1, x2, y2 = found["box"]
    assert 0 <= x1 <= x2 <= 96
    assert 0 <= y1 <= y2 <= 64


def test_overlapping_boxes_of_a_class_are_one_object() -> None:
    outputs = yolo()
    outputs["y"][0, :, 3] = outputs["y"][0, :, 2] * 0.99
    assert len(interpret({"kind": "detection", "decode": "yolo", "classes": 3}, outputs)["detections"]) == 1


def test_the_best_five_classes_come_first() -> None:
    scores = np.arange(8, dtype=np.float32)[None]
    result = interpret({"kind": "classification", "labels": [f"c{i}" for i in range(6)]}, {"y": scores})
    assert [row["index"] for row in result["classes"]] == [7, 6, 5, 4, 3]
    assert [row["label"] for row in result["classes"]] == ["7", "6", "c5", "c4", "c3"]


def test_softmax_makes_chances_of_logits() -> None:
    result = interpret({"kind": "classification", "softmax": True}, {"y": np.array([[1000.0, 1000.0]])})
    assert [row["score"] for row in result["classes"]] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({}, "task"),
        ({"kind": "detect"}, "detect"),
        ({"kind": "detection"}, "decoder"),
        ({"kind": "detection", "decode": "yolo8"}, "yolo8"),
        ({"kind": "detection", "decode": "yolo", "threshold": "high"}, "threshold"),
        ({"kind": "classification", "labels": "abc"}, "labels"),
        ({"kind": "classification", "colour": "red"}, "colour"),
        ({"kind": "detection", "decode": "yolox", "size": [0, 1]}, "size"),
    ],
)
def test_a_task_that_is_none_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        check_task(task)
    assert caught.value.code == "bad-task"


@pytest.mark.parametrize(
    ("task", "outputs"),
    [
        ({"decode": "yolo"}, {"y": np.zeros((1, 10), np.float32)}),
        ({"decode": "yolox", "size": [64, 64]}, {"y": np.zeros((1, 3, 8), np.float32)}),
        ({"decode": "yolox"}, {"y": np.zeros((1, 3, 8), np.float32)}),
        ({"decode": "centerface", "outputs": ["a", "b", "c"]}, {"y": np.zeros((1, 3, 8, 8), np.float32)}),
        ({"decode": "centerface"}, {"y": np.zeros((1, 3, 8, 8), np.float32)}),
        ({"decode": "dbnet"}, {"y": np.zeros((3,), np.float32)}),
        ({"decode": "yolo-anchored"}, {"y": np.zeros((1, 7, 2), np.float32)}),
    ],
)
def test_outputs_of_another_model_are_refused(task: dict[str, Any], outputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(UsageError, match="the outputs are not those of"):
        interpret({"kind": "detection", **task}, outputs)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_drawing_shows_the_boxes(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / "p.png"
    cv2.imwrite(str(picture), np.full((600, 800, 3), 255, np.uint8))
    row = {"index": 0, "label": "cat", "score": 0.5, "box": [100.0, 200.0, 300.0, 400.0]}
    data = draw(picture, {"kind": "detection", "detections": [row]}, suffix)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert image.shape == (600, 800, 3)
    assert (image[300, 100] < 250).any()
    assert (image[300, 200] > 250).all()


def test_a_small_picture_is_drawn_larger(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    cv2.imwrite(str(picture), np.zeros((40, 60, 3), np.uint8))
    data = draw(picture, {"kind": "classification", "classes": [{"index": 0, "label": "cat", "score": 0.5}]})
    assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR).shape == (320, 480, 3)


@pytest.mark.parametrize("shape", [(1, 3, 64, 96), (1, 64, 96, 3)])
def test_the_model_says_what_the_task_left_open(shape: tuple[int, ...]) -> None:
    image, outputs = TensorSpec("x", shape, "float32"), [TensorSpec(n, (1, 4), "float32") for n in "ab"]
    assert completed({"kind": "detection", "decode": "yolox"}, [image], outputs)["size"] == [64, 96]
    assert completed({"kind": "detection", "decode": "centerface"}, [image], outputs)["outputs"] == ["a", "b"]
    given = {"kind": "detection", "decode": "yolox", "size": [32, 32]}
    assert completed(given, [image], outputs) == given


def pose(anchored: bool = False) -> dict[str, np.ndarray]:
    """A box with two keypoints, the second one less sure."""
    row = np.array([*CENTRE, *([0.95] if anchored else []), 0, 0.95, 0, 22, 12, 0.9, 70, -4, 0.3], np.float32)
    return {
        "y": np.stack([np.zeros_like(row), row])[None] if anchored else np.stack([np.zeros_like(row), row], 1)[None]
    }


def segmentation() -> dict[str, np.ndarray]:
    """A box whose mask is the left half of the input; prototypes come first."""
    prototypes = np.ones((1, 2, 16, 24), np.float32)
    prototypes[0, 1, :, 10:] = -3
    row = np.array([*CENTRE, 0, 0.9, 0, 0.5, 1], np.float32)
    return {"masks": prototypes, "y": np.stack([np.zeros_like(row), row], 1)[None]}


POSE = {"kind": "pose", "decode": "yolo", "classes": 3, "keypoints": 2, "labels": ["a", "b", "c"]}
SEGMENTATION = {"kind": "segmentation", "decode": "yolo", "classes": 3, "size": [64, 96], "labels": ["a", "b", "c"]}


@pytest.mark.parametrize("anchored", [False, True])
def test_a_pose_has_its_keypoints_in_the_picture_also_those_outside_of_it(anchored: bool) -> None:
    placement = Preparation(size=(64, 96), resize="letterbox").place(32, 48)  # a picture half as large
    task = {**POSE, "decode": "yolo-anchored"} if anchored else POSE
    (row,) = interpret(task, pose(anchored), placement)["detections"]
    assert (row["label"], row["box"]) == ("b", [10, 5, 30, 20])
    assert np.allclose(row["keypoints"], [[11, 6, 0.9], [35, -2, 0.3]])


def test_a_mask_is_of_the_pixels_of_the_picture_inside_the_box() -> None:
    placement = Preparation(size=(64, 96), resize="letterbox").place(32, 48)
    result = interpret(SEGMENTATION, segmentation(), placement)
    (row,) = result["detections"]
    assert (result["kind"], row["mask"]["size"]) == ("segmentation", [32, 48])
    mask = from_run_lengths(row["mask"]["counts"], (32, 48))
    assert mask[5:20, 10:20].all()
    assert mask.sum() == 15 * 10


def test_without_a_picture_masks_are_of_the_models_input() -> None:
    (row,) = interpret(SEGMENTATION, segmentation())["detections"]
    assert row["mask"]["size"] == [64, 96]
    assert completed({"kind": "segmentation"}, [TensorSpec("x", (1, 3, 64, 96), "float32")], [])["size"] == [64, 96]


@pytest.mark.parametrize(
    ("task", "outputs", "said"),
    [
        ({**POSE, "keypoints": 3}, pose(), "not those of a yolo model"),
        (SEGMENTATION, pose(), "not those of a yolo model"),
        ({**SEGMENTATION, "classes": 4}, segmentation(), "not those of a yolo model"),
        ({**POSE, "decode": "dbnet"}, pose(), "decoder 'dbnet' gives no pose"),
        ({**SEGMENTATION, "decode": "centerface"}, segmentation(), "gives no segmentation"),
        ({"kind": "pose", "decode": "yolo"}, pose(), "a pose wants `keypoints`"),
    ],
)
def test_a_pose_or_a_segmentation_that_the_outputs_cannot_be_is_refused(
    task: dict[str, Any], outputs: dict[str, np.ndarray], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        interpret(task, outputs)


@pytest.mark.parametrize(("task", "outputs"), [(POSE, pose()), (SEGMENTATION, segmentation())])
def test_keypoints_and_masks_are_drawn_beyond_the_box(
    tmp_path: Path, task: dict[str, Any], outputs: dict[str, np.ndarray]
) -> None:
    picture = tmp_path / "grey.png"
    cv2.imwrite(str(picture), np.full((64, 96, 3), 90, np.uint8))
    result = interpret(task, outputs)
    (row,) = result["detections"]
    box_alone = {**result, "detections": [{k: v for k, v in row.items() if k not in ("keypoints", "mask")}]}
    full, plain = (cv2.imdecode(np.frombuffer(draw(picture, r), np.uint8), 1) for r in (result, box_alone))
    changed = np.abs(full.astype(int) - plain).max(2) > 0
    y, x = (int(v * full.shape[0] / 64) for v in (30, 25))  # in the mask, and on no line of the box
    assert changed[y, x] if "mask" in row else changed.sum() > 50
