"""`axzoo check`: every fault of a config and of the files that it names, in one go, and nothing fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.zoo import sources
from tests.tiny import axzoo

WANTS = """name: mine
title: a model
licence: Apache-2.0
source: {kind: file, path: gone.onnx}
calibration: [{kind: file, path: nowhere}]
postamble: {kernel: 'no_such_module_here:Tail'}
"""


def test_configs_of_the_package_are_whole_and_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(package: str, version: str) -> Path:
        raise AssertionError(f"fetched {package}=={version}")

    monkeypatch.setattr(sources, "wheel", fetch)
    ran = axzoo("check", "--json")
    assert ran.code == 0
    assert all(not model["faults"] for model in ran.document["models"])


def test_a_missing_model_missing_pictures_and_a_missing_kernel_are_listed_together(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(WANTS)
    ran = axzoo("check", str(path), "digits-v8det", "--json")
    assert ran.code == 1
    mine, digits = ran.document["models"]
    assert [fault.split(":")[0] for fault in mine["faults"]] == ["source", "calibration.0", "postamble"]
    assert digits["faults"] == []


def test_every_fault_of_an_unreadable_config_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nnonsense: 1\n")
    faults = axzoo("check", str(path), "--json").document["models"][0]["faults"]
    assert {fault.split(":")[0] for fault in faults} >= {"title", "licence", "source", "calibration", "nonsense"}


def test_a_file_that_is_no_yaml_does_not_hide_the_faults_of_the_next(tmp_path: Path) -> None:
    broken, other = tmp_path / "broken.yaml", tmp_path / "mine.yaml"
    broken.write_text("name: [")
    other.write_text(WANTS)
    ran = axzoo("check", str(broken), str(other), "--json")
    assert ran.code == 1
    assert [len(model["faults"]) for model in ran.document["models"]] == [1, 3]


def test_a_model_with_another_digest_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "gone.onnx").write_bytes(b"another model")
    path = tmp_path / "mine.yaml"
    path.write_text(WANTS.replace("path: gone.onnx", f"path: gone.onnx, sha256: {'a' * 64}"))
    (fault,) = (f for f in axzoo("check", str(path), "--json").document["models"][0]["faults"] if f[:6] == "source")
    assert "gone.onnx" in fault


def test_a_name_that_the_zoo_does_not_have_is_an_error_of_use() -> None:
    assert axzoo("check", "no-such-model").code == 2
