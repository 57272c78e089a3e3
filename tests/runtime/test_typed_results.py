"""Results of saved pipelines in the words of `run`: pixels, labels, keypoints, masks; streams of such a pipeline."""

from __future__ import annotations

import json
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import (
    BBox,
    Classification,
    DetectedObject,
    Image,
    Keypoint,
    OrientedObject,
    PoseObject,
    SegmentedObject,
    SemanticMap,
    op,
)
from axtool.runtime.geometry import frame_context
from axtool.runtime.masks import from_run_lengths
from axtool.runtime.streams.typed import Typed, plain_result
from tests.conftest import Tiny
from tests.tiny import axtool
from tests.videos import frames_in, video

SIZE = (200, 100)
BOX = BBox(0.25, 0.5, 0.75, 1.0)


class Animal(IntEnum):
    cat = 3


def rows(value: Any) -> list[dict[str, Any]]:
    result, labels = plain_result(value, SIZE)
    assert result is not None
    assert labels is None
    found: list[dict[str, Any]] = result["detections"]
    return found


def test_a_detection_has_its_box_in_pixels_and_its_label() -> None:
    (named, plain) = rows([DetectedObject(0, Animal.cat, BOX, 0.5), DetectedObject(1, 7, BOX, 0.25)])
    assert named == {"index": 3, "label": "cat", "score": 0.5, "box": [50.0, 50.0, 150.0, 100.0]}
    assert (plain["index"], plain["label"]) == (7, "7")


def test_a_pose_has_its_points_in_pixels() -> None:
    (row,) = rows([PoseObject(0, (Keypoint(0.5, 0.5, 0.75),), BOX, 0.5)])
    assert row["keypoints"] == [[100.0, 50.0, 0.75]]


def test_a_mask_is_that_of_the_whole_picture() -> None:
    mask = np.zeros((2, 2), np.bool_)
    mask[0, 1] = True
    (row,) = rows([SegmentedObject(0, 1, mask, BOX, 0.5)])
    whole = from_run_lengths(row["mask"]["counts"], (100, 200))
    assert whole[:50, 100:].all()
    assert whole.sum() == 50 * 100


def test_a_turned_box_has_its_corners_and_the_upright_box_around_them() -> None:
    (row,) = rows([OrientedObject(0, 1, 0.5, 0.5, 0.5, 0.5, np.pi / 2, 0.5)])
    assert sorted(row["corners"]) == [[75.0, 0.0], [75.0, 100.0], [125.0, 0.0], [125.0, 100.0]]
    assert row["box"] == [75.0, 0.0, 125.0, 100.0]


def test_a_class_or_several_are_a_classification() -> None:
    for value in (Classification(Animal.cat, 0.5), [Classification(Animal.cat, 0.5)]):
        result, _ = plain_result(value, SIZE)
        assert result == {"kind": "classification", "classes": [{"index": 3, "label": "cat", "score": 0.5}]}


def test_a_map_of_classes_is_enlarged_to_the_picture() -> None:
    result, labels = plain_result(SemanticMap(np.array([[0, 1]])), SIZE)
    assert result is not None
    assert labels is not None
    assert labels.shape == (100, 200)
    assert [(row["index"], row["share"]) for row in result["classes"]] == [(0, 0.5), (1, 0.5)]


@pytest.mark.parametrize("value", [None, 3, np.zeros(4), "text", [1, 2], {"a": 1}])
def test_what_is_no_known_result_is_none(value: object) -> None:
    assert plain_result(value, SIZE) == (None, None)


def test_nothing_found_is_a_result_without_objects() -> None:
    assert rows([]) == []


def test_where_something_should_be_drawn_and_cannot_the_user_is_told() -> None:
    image = Image.from_array(np.zeros((100, 200, 3), np.uint8), "RGB")
    with frame_context(image):
        assert Typed(False)(3).result is None
        with pytest.raises(UsageError, match="nothing that can be drawn"):
            Typed(True)(3)
        turned = Typed(True)([OrientedObject(0, 1, 0.5, 0.5, 0.3, 0.3, 0.6, 0.5)]).drawn
    assert turned is not None
    assert (turned > 0).any()


@pytest.fixture
def saved(tiny_models: Tiny, work: Path) -> Path:
    pipeline = op.seq(
        op.letterbox(16, 16), op.to_tensor(), op.load(tiny_models / "cls.axm"), op.top_k(2), op.unpack(),
        op.ax_classification(),
    )  # fmt: skip
    pipeline.save_axe(work / "mine.axe")
    return work / "mine.axe"


def test_a_saved_pipeline_runs_over_a_stream(saved: Path, work: Path) -> None:
    film = video(work / "film.mp4", 4)
    ran = axtool("run", saved, film, "--save", "out.mp4", "-o", "out.jsonl", "-q")
    assert ran.code == 0, ran.err
    pipeline = op.load(saved)
    lines = [json.loads(line)["result"] for line in (work / "out.jsonl").read_text().splitlines()]
    for line, pixels in zip(lines, frames_in(film), strict=True):
        wanted = pipeline(Image.from_array(pixels, "RGB"))
        assert [row["index"] for row in line["classes"]] == [int(one.class_id) for one in wanted]
    assert len(frames_in(work / "out.mp4")) == 4


def test_a_saved_pipeline_is_not_prepared_from_outside(saved: Path, work: Path) -> None:
    ran = axtool("run", saved, video(work / "film.mp4", 1), "--scale", "1", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-option"), ran.err
