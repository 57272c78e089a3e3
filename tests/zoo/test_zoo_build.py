"""`axzoo build`: a config becomes an .axm that knows its task, and --verify holds it against its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.artefact import axm
from tests.conftest import Tiny
from tests.tiny import axtool, axzoo

CONFIG = """name: mine
title: a tiny classifier
licence: Apache-2.0
source: {{kind: file, path: {folder}/cls.onnx}}
task: {{kind: classification, labels: [a, b, c]}}
calibration: [{{kind: file, path: {folder}/data.npz}}]
validation: [{{kind: file, path: {folder}/data.npz}}]
expected:
  - {{metric: sqnr_db, minimum: {minimum}}}
targets: [qc-u-1d5-8mb]
"""


def config(tiny_models: Tiny, folder: Path, minimum: float = 20) -> Path:
    path = folder / "mine.yaml"
    path.write_text(CONFIG.format(folder=tiny_models.folder, minimum=minimum))
    return path


def test_a_build_is_for_the_configs_first_target_and_knows_its_task(tiny_models: Tiny, work: Path) -> None:
    ran = axzoo("build", config(tiny_models, work))
    assert (ran.code, ran.out.startswith("mine.axm: ")) == (0, True), ran.err
    artefact = axm.read(work / "mine.axm")
    assert artefact.target["name"] == "qc-u-1d5-8mb"
    assert artefact.task["labels"] == ["a", "b", "c"]
    result = axtool("run", "mine.axm", tiny_models / "x.npy", "--json").document["result"]
    assert result["kind"] == "classification"


def test_a_build_that_reaches_its_figures_is_done(tiny_models: Tiny, work: Path) -> None:
    ran = axzoo("build", config(tiny_models, work), "--verify", "--json")
    assert ran.code == 0, ran.out
    (row,) = ran.document["expected"]
    assert row["met"]
    assert row["measured"] >= 20


def test_a_build_that_misses_a_figure_is_exit_1_and_says_which(tiny_models: Tiny, work: Path) -> None:
    ran = axzoo("build", config(tiny_models, work, 200), "--verify")
    assert (ran.code, "MISSED" in ran.out) == (1, True)
    ran = axzoo("build", config(tiny_models, work, 200), "--verify", "--json", "--force")
    assert (ran.code, ran.document["status"]) == (1, "failed")


def test_an_existing_output_is_kept_without_force(tiny_models: Tiny, work: Path) -> None:
    (work / "mine.axm").write_bytes(b"old")
    assert axzoo("build", config(tiny_models, work)).code == 2
    assert (work / "mine.axm").read_bytes() == b"old"


@pytest.mark.parametrize("target", ["qc-u-1d7-16mb"])
def test_another_target_may_be_chosen(tiny_models: Tiny, work: Path, target: str) -> None:
    assert axzoo("build", config(tiny_models, work), "--target", target, "-q").code == 0
    assert axm.read(work / "mine.axm").target["name"] == target
