"""`axzoo build`: a config becomes an .axm that knows its task, and --verify holds it against its figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import axtool as axtool_package
from axtool.artefact import axm
from axtool.runtime import ColorFormat, Image
from axtool.zoo.catalogue import Entry, entries, find
from axtool.zoo.recipe_text import recipe_text
from tests.conftest import Tiny
from tests.tiny import axtool, axzoo

ROOT = Path(axtool_package.__file__).parents[1]
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


def test_a_build_writes_a_recipe_that_runs_its_model(tiny_models: Tiny, work: Path) -> None:
    ran = axzoo("build", config(tiny_models, work))
    assert "recipe      python mine.py --run PICTURE" in ran.out
    shown = subprocess.run(
        [sys.executable, "mine.py", "--run", str(tiny_models / "picture.png"), "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)["found"]
    wanted = axtool("run", "mine.axm", tiny_models / "picture.png", "--json").document["result"]["classes"]
    assert [row["label"] for row in found] == [row["label"] for row in wanted[: len(found)]]
    assert len(found) == 3, "as many as there are labels, at most five"


def test_a_recipe_of_the_bundled_detector_declares_its_kernel_and_uses_it_twice(work: Path) -> None:
    text = recipe_text(find("digits-v8det").config, "digits.axm", "digits.py")
    assert "POSTAMBLE = Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=10)" in text
    assert text.count("using_postamble=POSTAMBLE") == 2
    assert "op.letterbox(160, 160)" in text


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.config.name)
def test_every_recipe_is_a_module_that_builds_its_steps(entry: Entry) -> None:
    module: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipe_text(entry.config, "m.axm", "m.py"), "m.py", "exec"), module)
    assert module["POSTAMBLE"] == entry.config.kernel
    assert (
        module["preprocess"](
            np.zeros((50, 80, 3), np.uint8)
            if "prepare" in repr(module["preprocess"]).lower()
            else Image(np.zeros((50, 80, 3), np.uint8), ColorFormat.RGB)
        ).dtype
        == np.float32
    )
    assert module["postprocess"](0.3).operators


def test_a_recipe_that_stands_there_is_kept_without_force(tiny_models: Tiny, work: Path) -> None:
    (work / "mine.py").write_text("mine")
    assert axzoo("build", config(tiny_models, work)).code == 2
    assert (work / "mine.py").read_text() == "mine"
    assert not (work / "mine.axm").exists()


def test_words_of_a_config_never_become_code_of_its_recipe() -> None:
    config = find("digits-v8det").config.model_copy(
        update={"title": '"""\nraise SystemExit("ran")\n"""', "licence": 'a "b" \\'}
    )
    module: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipe_text(config, "m.axm", "m.py"), "m.py", "exec"), module)
    assert 'raise SystemExit("ran")' in module["__doc__"]


def test_labels_with_commas_stay_whole_in_a_recipe() -> None:
    labels = [f"tench, Tinca tinca, number {index}" for index in range(40)]
    config = find("digits-v8det").config
    config = config.model_copy(update={"task": {**config.task, "labels": labels}})
    module: dict[str, Any] = {"__name__": "recipe"}
    exec(compile(recipe_text(config, "m.axm", "m.py"), "m.py", "exec"), module)
    assert module["LABELS"] == labels


def python(*words: object) -> subprocess.CompletedProcess[str]:
    """A recipe in a process of its own."""
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_recipe_of_a_config_without_a_task_shows_its_outputs(tiny_models: Tiny, work: Path) -> None:
    path = config(tiny_models, work)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("task")))
    assert axzoo("build", path, "-q").code == 0
    shown = python("mine.py", "--run", tiny_models / "picture.png")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[1].startswith("1x10 ")
    (work / "pictures").mkdir()
    (work / "pictures" / "one.png").write_bytes((tiny_models / "picture.png").read_bytes())
    judged = python("mine.py", "--eval", "pictures", "--float", tiny_models / "cls.onnx")
    assert (judged.returncode, "the config has no task" in judged.stderr) == (2, True), judged.stderr


def test_a_recipe_times_host_and_simulated_device_and_says_the_chips_time(tiny_models: Tiny, work: Path) -> None:
    assert axzoo("build", config(tiny_models, work), "-q").code == 0
    shown = python("mine.py", "--benchmark", tiny_models / "picture.png", "--repeat", "3")
    assert shown.returncode == 0, shown.stderr
    assert "simulated device" in shown.stdout
    assert shown.stdout.splitlines()[-1].endswith("ms, modelled")


def test_a_mistake_of_the_caller_of_a_recipe_is_two_lines(tiny_models: Tiny, work: Path) -> None:
    assert axzoo("build", config(tiny_models, work), "-q").code == 0
    shown = python("mine.py", "--run", "gone.png")
    assert shown.returncode == 2
    assert [line.split(":")[0] for line in shown.stderr.splitlines()] == ["error", "hint"]


def test_a_python_config_keeps_its_name_and_the_recipe_has_another(tiny_models: Tiny, work: Path) -> None:
    path = work / "mine.py"
    path.write_text(f"config = {yaml.safe_load(config(tiny_models, work).read_text())!r}\n")
    before = path.read_text()
    ran = axzoo("build", path)
    assert ran.code == 0, ran.err
    assert "python mine_recipe.py --run PICTURE" in ran.out
    assert path.read_text() == before
    assert python("mine_recipe.py", "--run", tiny_models / "picture.png").returncode == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("task: {kind: detection, decode: yolo, labels: [a, b, c]}", "task: the outputs are not those of a yolo model"),
        ("postamble: {fused_kernel: ClassificationPostamble}", "num_classes"),
        ("postamble: {fused_kernel: UltralyticsYoloPostamble, num_classes: 3}", "UltralyticsYoloPostamble"),
        ("input: {size: [32, 32]}", "input: "),
    ],
)
def test_what_is_not_for_the_model_is_refused_before_it_is_calibrated(
    tiny_models: Tiny, work: Path, line: str, said: str
) -> None:
    path, key = config(tiny_models, work), line.partition(":")[0]
    kept = [text for text in path.read_text().splitlines() if not text.startswith(key)]
    path.write_text("\n".join([*kept, line]))
    for words in (("build", path), ("run", path, tiny_models / "picture.png")):
        ran = axzoo(*words, "--json")
        assert (ran.code, ran.document["error"]["code"]) == (2, "bad-config")
        assert said in "\n".join(ran.document["error"]["details"])
        assert "calibrating" not in ran.err
    assert said in axzoo("check", path).out
