"""`axzoo show-config`: every value that holds, which of them are defaults, and YAML that means the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from axtool.report.prepared import effective
from axtool.report.schemas import check_document
from axtool.runtime import Postamble
from axtool.zoo.catalogue import Entry, entries, find
from axtool.zoo.resolved import resolved, resolved_yaml
from tests.tiny import axzoo


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.config.name)
def test_what_is_shown_is_a_config_that_means_the_same(entry: Entry, tmp_path: Path) -> None:
    text = resolved_yaml(entry, resolved(entry))
    path = tmp_path / f"{entry.config.name}.yaml"
    path.write_text(text)
    again = find(str(path))
    assert effective(again.config.input) == effective(entry.config.input)
    assert resolved(again).values == resolved(entry).values
    assert yaml.safe_load(text) == resolved(entry).values


def test_the_file_of_the_config_and_of_the_kernel_come_first() -> None:
    first, second, *_ = axzoo("show-config", "digits-v8det").out.splitlines()
    assert first == f"# {find('digits-v8det').path}"
    assert second.endswith("ultralytics_yolo.py")


def test_a_default_is_marked_and_what_is_written_is_not() -> None:
    lines = axzoo("show-config", "digits-v8det").out.splitlines()
    assert "  dfl_bins: 16  # default" in lines
    assert "  num_classes: 10" in lines
    assert "  interpolation: linear  # default" in lines
    assert "  resize: letterbox" in lines


def test_the_document_says_the_same() -> None:
    document = axzoo("show-config", "digits-v8det", "--json").document
    check_document(document)
    assert document["config"]["postamble"]["dfl_bins"] == 16
    assert {"postamble.dfl_bins", "input.interpolation", "notes"} <= set(document["defaults"])
    assert not {"postamble.num_classes", "name"} & set(document["defaults"])
    assert document["kernel_file"].endswith("ultralytics_yolo.py")


def test_the_shown_parameters_make_the_same_kernel() -> None:
    shown = resolved(find("digits-v8det")).values["postamble"]
    assert Postamble(**shown).kernel_class() is find("digits-v8det").config.kernel.kernel_class()


def test_operators_stay_operators(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = "op.seq(op.letterbox(160, 96), op.to_tensor())"
    path.write_text(
        "name: mine\ntitle: a model\nlicence: Apache-2.0\nsource: {kind: file, path: m.onnx}\n"
        f"calibration: [{{kind: file, path: mine.yaml}}]\npreprocess: {text}\n"
    )
    values = axzoo("show-config", path, "--json").document["config"]
    assert values["preprocess"] == text
    assert "input" not in values


def test_an_unknown_model_gets_the_nearest_name() -> None:
    ran = axzoo("show-config", "digits-v8", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "unknown-model")
