"""Names of classes: how many, in which order, and that their files say where they are from."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import axtool.runtime
from axtool.config import package_dir
from axtool.runtime import CocoClasses, DotaClasses, ImagenetClasses, op
from axtool.runtime.classes import class_names

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("classes", "count", "known"),
    [
        (CocoClasses, 80, {0: "person", 16: "dog", 79: "toothbrush"}),
        (DotaClasses, 15, {0: "plane", 14: "swimming_pool"}),
        (ImagenetClasses, 1000, {0: "tench", 207: "golden_retriever", 281: "tabby", 955: "jackfruit",
                                 999: "toilet_tissue"}),
    ],
)  # fmt: skip
def test_each_output_has_a_name_of_its_own(classes: type, count: int, known: dict[int, str]) -> None:
    assert len(classes) == count
    assert [member.value for member in classes] == list(range(count))
    assert {index: classes(index).name for index in known} == known


def test_words_that_are_two_classes_of_imagenet_are_told_apart() -> None:
    pairs = {"crane_bird": 134, "crane": 517, "maillot": 638, "maillot_tank_suit": 639,
             "cardigan_welsh_corgi": 264, "cardigan": 474}  # fmt: skip
    assert {name: ImagenetClasses[name].value for name in pairs} == pairs


def test_keypoints_of_a_person_name_those_of_a_pose() -> None:
    assert axtool.runtime.COCO_KEYPOINT_NAMES is op.COCO_KEYPOINT_NAMES
    row = np.concatenate([[0, 0, 1, 1, 0.9, 0], np.arange(51) / 51])
    (pose,) = op.ax_pose(keypoint_names=op.COCO_KEYPOINT_NAMES)(row[None])
    assert [pose.keypoints[index].name for index in (0, 5, 16)] == ["nose", "left_shoulder", "right_ankle"]


def test_imagenet_is_in_the_order_of_its_identifiers() -> None:
    text = (package_dir("configs") / "classes" / "imagenet.txt").read_text(encoding="utf-8")
    identifiers = [line.split()[0] for line in text.splitlines() if not line.startswith("#")]
    assert identifiers == sorted(set(identifiers))
    assert len(identifiers) == 1000


@pytest.mark.parametrize("name", ["coco", "coco-keypoints", "dota", "imagenet"])
def test_a_file_of_names_says_where_they_are_from_and_every_name_is_one_word(name: str) -> None:
    head = (package_dir("configs") / "classes" / f"{name}.txt").read_text(encoding="utf-8").splitlines()[0]
    assert head.startswith("# The ")
    assert all(label.isidentifier() for label in class_names(name))


@pytest.mark.parametrize("name", ["CocoClasses", "DotaClasses", "ImagenetClasses"])
def test_classes_are_the_same_by_either_road_and_can_be_pickled(name: str) -> None:
    classes = getattr(axtool.runtime, name)
    assert getattr(op, name) is classes
    assert pickle.loads(pickle.dumps(classes(3))) is classes(3)


def test_names_are_read_only_when_they_are_asked_for() -> None:
    code = (
        "from axtool.runtime import classes, op; print(classes._enumeration.cache_info().currsize); "
        "op.CocoClasses.dog; print(classes._enumeration.cache_info().currsize)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.split() == ["0", "1"]
