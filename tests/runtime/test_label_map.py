"""Labels of pixels: of label maps and of scores in either layout, their margins, the result of a semantic task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.inputs.prepare import Preparation
from axtool.inputs.spec import InputSpec
from axtool.runtime.draw import draw
from axtool.runtime.label_map import label_map, margins, over_picture, scores_of
from axtool.runtime.task import completed, interpret, labels_on_picture
from axtool.types import TensorSpec

SCORES = np.random.default_rng(3).normal(0, 1, (1, 5, 6, 8)).astype(np.float32)


def test_scores_give_their_largest_class() -> None:
    np.testing.assert_array_equal(label_map(SCORES), SCORES[0].argmax(0))


def test_classes_may_be_the_last_axis() -> None:
    np.testing.assert_array_equal(label_map(SCORES.transpose(0, 2, 3, 1)), SCORES[0].argmax(0))


def test_more_classes_than_columns_stay_where_the_task_says_they_are() -> None:
    scores = np.zeros((1, 9, 10, 8), np.float32)
    assert scores_of(scores, classes=9).shape == (9, 10, 8)
    assert scores_of(scores).shape == (8, 9, 10)


@pytest.mark.parametrize("shape", [(6, 8), (1, 6, 8), (1, 1, 6, 8), (1, 6, 8, 1)])
def test_labels_stay_as_they_are(shape: tuple[int, ...]) -> None:
    labels = np.arange(48)
    np.testing.assert_array_equal(label_map(labels.reshape(shape)), labels.reshape(6, 8))


@pytest.mark.parametrize("shape", [(48,), (2, 6, 8), (1, 2, 6, 8)])
def test_labels_of_several_pictures_or_none_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="labels of shape"):
        label_map(np.zeros(shape, np.int64))


def test_one_score_a_pixel_is_a_chance() -> None:
    chances = np.array([[0.1, 0.5], [0.6, 0.9]], np.float32).reshape(1, 2, 2, 1)
    np.testing.assert_array_equal(label_map(chances), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(label_map(chances, threshold=0.7), [[0, 0], [0, 1]])
    np.testing.assert_allclose(margins(chances), [[0.4, 0.0], [0.1, 0.4]], atol=1e-7)


def test_a_margin_is_how_far_the_best_is_above_the_second() -> None:
    ordered = np.sort(SCORES[0], 0)
    np.testing.assert_allclose(margins(SCORES), ordered[-1].astype(float) - ordered[-2], rtol=1e-12)


def test_a_semantic_task_tells_the_share_of_each_class() -> None:
    labels = np.array([[[0, 0, 2], [2, 2, 2]]])
    result = interpret({"kind": "semantic", "labels": ["road", "sky"]}, {"labels": labels})
    assert (result["kind"], result["size"]) == ("semantic", [2, 3])
    assert [(row["label"], row["index"]) for row in result["classes"]] == [("2", 2), ("road", 0)]
    assert [row["share"] for row in result["classes"]] == pytest.approx([2 / 3, 1 / 3])


def test_a_semantic_task_says_what_it_cannot_read() -> None:
    outputs: dict[str, Any] = {"logits": np.zeros((1, 10), np.float32)}
    with pytest.raises(UsageError, match="not those of a semantic model"):
        interpret({"kind": "semantic"}, outputs)


def test_a_semantic_task_needs_nothing_of_the_model() -> None:
    assert completed({"kind": "semantic"}, [TensorSpec("x", (1, 3, 8, 8), "float32")], []) == {"kind": "semantic"}


def _placement(resize: Any, height: int, width: int) -> Any:
    spec = InputSpec("x", (1, 3, 8, 8), "float32")
    return Preparation(resize=resize).resolve(spec).place(height, width)


def test_labels_of_a_stretched_picture_are_stretched_back() -> None:
    labels = np.array([[0, 1], [2, 3]])
    wanted = np.kron(labels, np.ones((3, 10), np.int64))
    np.testing.assert_array_equal(over_picture(labels, _placement("fit", 6, 20)), wanted)


def test_labels_beside_a_letterboxed_picture_are_left_out() -> None:
    labels = np.full((8, 8), 7)
    labels[2:6] = np.arange(8)  # 4 rows of 8 in the middle hold the picture
    np.testing.assert_array_equal(over_picture(labels, _placement("letterbox", 4, 8)), np.tile(np.arange(8), (4, 1)))


def test_what_a_crop_cut_off_has_no_label() -> None:
    made = over_picture(np.zeros((8, 8), np.int64), _placement("crop", 8, 16))
    assert made.shape == (8, 16)
    assert (made[:, [0, -1]] == -1).all()
    assert (made[4, 6:10] == 0).all()


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_drawing_colours_the_pixels_by_their_labels(tmp_path: Path, suffix: str) -> None:
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "grey.png"
    cv2.imwrite(str(path), np.full((480, 640, 3), 90, np.uint8))
    task, outputs = {"kind": "semantic", "labels": ["sky", "sea"]}, {"y": np.repeat([[0], [1]], 8, 1)[None]}
    result, labels = interpret(task, outputs), labels_on_picture(task, outputs, _placement("fit", 480, 640))
    image = cv2.imdecode(np.frombuffer(draw(path, result, suffix, labels), np.uint8), 1).astype(int)
    sky, sea = image[200, 600], image[300, 600]
    assert np.abs(sky - sea).max() > 20
    assert min(np.abs(sky - 90).max(), np.abs(sea - 90).max()) > 20
    np.testing.assert_allclose(image[470, 10], sea, atol=4)
