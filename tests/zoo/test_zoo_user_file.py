"""Entries whose model the user brings: what is asked for, what is refused and how it is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.zoo.config_file import read_config
from tests.conftest import Tiny
from tests.tiny import CLASSIFIER, CLASSIFIER_WEIGHTS, axzoo, save

GET = "train it yourself, export it with opset 17"


@pytest.fixture
def yours(work: Path, tiny_models: Tiny) -> Path:
    """A config of a classifier 1x3x16x16 -> 1x10 without its model, with pictures to calibrate with."""
    return config(work, tiny_models)


def config(folder: Path, tiny_models: Tiny, **changes: Any) -> Path:
    source = {
        "kind": "user",
        "get": GET,
        "inputs": [{"name": "x", "shape": [1, 3, 16, 16]}],
        "outputs": [{"shape": [1, 10]}],
        **changes,
    }
    values: Mapping[str, Any] = {
        "name": "yours",
        "title": "a tiny classifier",
        "licence": "CC-BY-NC-4.0",
        "source": source,
        "task": {"kind": "classification"},
        "calibration": [{"kind": "file", "path": str(tiny_models / "data.npz")}],
    }
    path = folder / "yours.yaml"
    path.write_text(yaml.safe_dump(dict(values)))
    return path


def classifier(folder: Path, **changes: str) -> Path:
    """The model that the config asks for, with parts of its text changed."""
    text = CLASSIFIER
    for old, new in changes.items():
        text = text.replace(old, new)
    return save(folder / "given.onnx", text, CLASSIFIER_WEIGHTS)


def test_a_file_that_fits_is_built_and_knows_its_task(yours: Path, work: Path) -> None:
    ran = axzoo("build", yours, "--source", classifier(work), "-o", "m.axm")
    assert ran.code == 0, ran.err
    assert axm.read(work / "m.axm").task["kind"] == "classification"
    assert "'kind': 'user'" in (work / "m.py").read_text()


def test_an_input_that_the_file_leaves_open_gets_the_size_of_the_config(yours: Path, work: Path) -> None:
    given = save(work / "open.onnx", CLASSIFIER.replace("1,3,16,16", "N,3,H,W", 1), CLASSIFIER_WEIGHTS)
    assert axzoo("build", yours, "--source", given, "-o", "m.axm").code == 0
    assert axm.read(work / "m.axm").inputs[0].shape == (1, 3, 16, 16)


def test_without_a_file_the_build_says_what_to_bring(yours: Path, work: Path) -> None:
    ran = axzoo("build", yours, "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (2, "source-wanted")
    assert error["hint"] == f"--source FILE; {GET}"
    assert not list(work.glob("*.axm"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"16,16": "32,32"}, "input 0 is 'x' 1x3x32x32, want 'x' 1x3x16x16"),
        ({"(float[1,3,16,16] x)": "(float[1,3,16,16] image)", "(x, w1": "(image, w1"},
         "input 0 is 'image' 1x3x16x16, want 'x' 1x3x16x16"),
        ({"[1,10] scores)": "[1,10] scores, float[1,8] f)"},
         "2 outputs: 'scores' 1x10, 'f' 1x8; want 1: 1x10"),
        ({"(float[1,10] scores)": "(float[1,8] f)"}, "output 0 is 'f' 1x8, want 1x10"),
    ],
)  # fmt: skip
def test_a_file_of_another_model_is_refused_with_what_was_seen_and_wanted(
    yours: Path, work: Path, changes: dict[str, str], said: str
) -> None:
    ran = axzoo("build", yours, "--source", classifier(work, **changes), "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "wrong-model")
    assert said in ran.document["error"]["details"]


def test_a_file_that_is_no_model_is_refused(yours: Path, work: Path) -> None:
    (work / "given.onnx").write_bytes(b"no model")
    assert axzoo("info", yours, "--source", work / "given.onnx").code == 2
    assert axzoo("info", yours, "--source", work / "gone.onnx").code == 2


def test_a_digest_that_is_not_of_the_list_is_refused(work: Path, tiny_models: Tiny) -> None:
    given = classifier(work)
    ran = axzoo("info", config(work, tiny_models, sha256=["a" * 64]), "--source", given, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "wrong-digest")


def test_a_file_for_an_entry_that_brings_its_own_is_refused(work: Path) -> None:
    ran = axzoo("build", "digits-v8det", "--source", classifier(work), "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "source-not-wanted")


def test_info_says_where_the_file_is_to_be_had_and_whether_it_fits(yours: Path, work: Path) -> None:
    shown = axzoo("info", yours).out
    assert f"source      yours, as --source FILE: {GET}" in shown
    assert "input       'x' 1x3x16x16; " in shown
    assert "its outputs 1x10" in shown
    assert axzoo("info", yours, "--source", classifier(work)).out.endswith("given.onnx is this model\n")


def test_check_judges_the_file_only_where_it_is_given(yours: Path, work: Path) -> None:
    assert axzoo("check", yours).code == 0
    given = classifier(work, **{"16,16": "32,32"})
    (found,) = axzoo("check", yours, "--source", given, "--json").document["models"]
    assert any("want 'x' 1x3x16x16" in fault["what"] for fault in found["faults"])
    assert axzoo("check", yours, yours, "--source", given).code == 2


@pytest.mark.parametrize("wrong", [{"get": ""}, {"inputs": []}, {"outputs": [{"shape": []}]}, {"sha256": ["abc"]}])
def test_a_source_that_says_too_little_is_refused(work: Path, tiny_models: Tiny, wrong: dict[str, Any]) -> None:
    path = config(work, tiny_models, **wrong)
    with pytest.raises(UsageError) as caught:
        read_config(path)
    assert "source" in caught.value.details[0]
