"""Accuracy of zoo entries: against annotations where there are any, else against the float model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from axtool.compiler import compile_file
from axtool.errors import UsageError
from axtool.options import options_of
from axtool.verify.accuracy import measure
from axtool.zoo.catalogue import Entry, find
from axtool.zoo.recipe import recipe_of
from tests.conftest import Tiny

PUBLISHED = {
    "digits-v8det": {"map50": 0.753},
    "digits-v8pose": {"map50": 0.753, "keypoint_pck": 0.558},
    "digits-v8seg": {"map50": 0.753, "mask_iou": 0.731},
    "digits-v5anchor": {"map50": 0.582},
}
FEW = 12


class Silent:
    """A progress that nobody watches."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def count(self, done: int, total: int) -> None:
        """Say nothing."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_float_model_on_a_few_pictures_has_the_figures_of_its_task(name: str) -> None:
    counted: list[tuple[int, int]] = []
    accuracy = measure(find(name), None, limit=FEW, count=lambda done, total: counted.append((done, total)))
    assert (accuracy.pictures, accuracy.labelled) == (FEW, True)
    assert set(accuracy.figures) == {"map50", "map75", *PUBLISHED[name]}
    assert all(0.2 < figure <= 1 for figure in accuracy.figures.values())
    assert counted == [(at + 1, FEW) for at in range(FEW)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_float_model_has_its_published_accuracy(name: str) -> None:
    figures = measure(find(name), None).figures
    assert {metric: round(figures[metric], 3) for metric in PUBLISHED[name]} == PUBLISHED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_int8_is_as_accurate_as_its_config_says_with_the_tail_and_with_the_kernel(name: str, tmp_path: Path) -> None:
    entry, path = find(name), tmp_path / "digits.axm"
    compile_file((recipe := recipe_of(entry)).model, path, options_of(recipe), Silent())
    for kernel in (False, True):
        figures = measure(entry, path, kernel=kernel).figures
        for item in entry.config.expected:
            wanted = item.int8_kernel if kernel else item.int8
            if item.metric in figures:
                assert figures[item.metric] == pytest.approx(wanted, abs=5e-4), (item.metric, kernel)
                assert figures[item.metric] >= item.minimum


CONFIG = """name: mine
title: a tiny classifier
licence: Apache-2.0
source: {{kind: file, path: {folder}/cls.onnx}}
task: {{kind: classification, labels: [a, b, c]}}
calibration: [{{kind: file, path: {folder}/data.npz}}]
validation: [{{kind: file, path: {folder}/data.npz}}]
"""


@pytest.fixture
def mine(tiny_models: Tiny, tmp_path: Path) -> Entry:
    path = tmp_path / "mine.yaml"
    path.write_text(CONFIG.format(folder=tiny_models.folder))
    return find(str(path))


def test_without_annotations_a_build_is_held_against_its_float_model(mine: Entry, tiny_models: Tiny) -> None:
    accuracy = measure(mine, tiny_models / "cls.axm", limit=5)
    assert (accuracy.pictures, accuracy.labelled) == (5, False)
    assert accuracy.figures["top1_agreement"] == 1
    assert accuracy.figures["sqnr_db"] > 20


def test_without_annotations_a_float_model_has_no_accuracy(mine: Entry) -> None:
    with pytest.raises(UsageError, match="without annotated pictures"):
        measure(mine, None)


def test_a_config_without_a_postamble_has_no_kernel_to_measure_with(mine: Entry, tiny_models: Tiny) -> None:
    with pytest.raises(UsageError, match="names no postamble"):
        measure(mine, tiny_models / "cls.axm", kernel=True)


def test_annotations_of_a_label_that_the_task_does_not_have_are_refused() -> None:
    entry = find("digits-v8det")
    task = {**entry.config.task, "labels": ["one"]}
    with pytest.raises(UsageError, match="category '0' is no label"):
        measure(replace(entry, config=entry.config.model_copy(update={"task": task})), None)
