"""`axzoo eval`: three ways to run a model, each held against what the config expects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axtool.report.schemas import check_document
from axtool.verify import accuracy
from axtool.verify.accuracy import Accuracy
from tests.conftest import Tiny
from tests.tiny import Ran, axzoo
from tests.zoo.test_zoo_build import CONFIG

KERNEL = "postamble: {kernel: 'eval_kernels:SameTail'}\n"
OWN = """from axtool.runtime import op


class SameTail(op.Operator):
    def __init__(self, infos, width, height, *, name=""):
        super().__init__(name=name)

    def __call__(self, scores):
        return scores
"""


@pytest.fixture
def mine(tiny_models: Tiny, work: Path) -> Path:
    (work / "eval_kernels.py").write_text(OWN)
    path = work / "mine.yaml"
    path.write_text(CONFIG.format(folder=tiny_models.folder, minimum=20) + KERNEL)
    return path


def evaluate(path: Path, tiny_models: Tiny, *words: object) -> Ran:
    return axzoo("eval", path, "--axm", tiny_models / "cls.axm", *words)


def test_without_labels_int8_is_held_against_float_with_and_without_the_kernel(mine: Path, tiny_models: Tiny) -> None:
    ran = evaluate(mine, tiny_models, "--json")
    assert ran.code == 0, ran.err
    document = ran.document
    check_document(document)
    assert document["against"] == "float"
    assert [row["tail"] for row in document["rows"]] == ["onnxruntime", "eval_kernels:SameTail"]
    assert all(row["pictures"] == 16 for row in document["rows"])
    first, second = (row["figures"] for row in document["rows"])
    assert first == second, "this kernel gives what the device gives, as the model does"


def test_with_labels_the_float_model_is_measured_too(digits_axm: Path) -> None:
    document = axzoo("eval", "digits-v8det", "--axm", digits_axm, "--limit", "3", "--json").document
    check_document(document)
    assert document["against"] == "labels"
    assert [(row["numbers"], row["tail"]) for row in document["rows"]] == [
        ("float", "onnxruntime"), ("int8", "onnxruntime"), ("int8", "UltralyticsYoloPostamble"),
    ]  # fmt: skip
    assert all(0 < row["figures"]["map50"] <= 1 for row in document["rows"])
    assert document["rows"][1]["figures"] == pytest.approx(document["rows"][2]["figures"], abs=1e-6)


def test_a_figure_that_is_missed_is_exit_1_and_named(mine: Path, tiny_models: Tiny) -> None:
    mine.write_text(mine.read_text().replace("minimum: 20", "minimum: 200"))
    ran = evaluate(mine, tiny_models)
    assert ran.code == 1
    assert "expected sqnr_db at least 200: MISSED by onnxruntime, MISSED by eval_kernels:SameTail" in ran.out
    ran = evaluate(mine, tiny_models, "--json")
    assert (ran.code, ran.document["status"]) == (1, "failed")
    assert not ran.document["rows"][0]["expected"][0]["met"]


def test_a_figure_that_these_pictures_do_not_give_counts_as_missed(mine: Path, tiny_models: Tiny) -> None:
    mine.write_text(mine.read_text().replace("metric: sqnr_db", "metric: found_share"))
    ran = evaluate(mine, tiny_models, "--json")
    assert ran.code == 1
    assert ran.document["rows"][0]["expected"][0] == {
        "metric": "found_share", "minimum": 20, "measured": None, "met": False,
    }  # fmt: skip


def test_under_a_limit_nothing_is_judged(mine: Path, tiny_models: Tiny) -> None:
    mine.write_text(mine.read_text().replace("minimum: 20", "minimum: 200"))
    ran = evaluate(mine, tiny_models, "--limit", "4")
    assert ran.code == 0
    assert "4 pictures" in ran.out
    assert "not judged" in ran.out


def test_no_kernel_leaves_its_row_out(mine: Path, tiny_models: Tiny) -> None:
    document = evaluate(mine, tiny_models, "--no-kernel", "--json").document
    assert [row["tail"] for row in document["rows"]] == ["onnxruntime"]


def test_what_is_exact_is_no_number_in_json(mine: Path, tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(*_: Any, **__: Any) -> Accuracy:
        return Accuracy(16, False, {"sqnr_db": float("inf")})

    monkeypatch.setattr(accuracy, "measure", exact)
    ran = evaluate(mine, tiny_models, "--json")
    assert ran.code == 0
    assert ran.document["rows"][0]["figures"] == {"sqnr_db": None}
    assert ran.document["rows"][0]["expected"][0]["met"]
    assert "exact" in evaluate(mine, tiny_models).out


def test_an_entry_without_pictures_to_judge_by_is_refused(mine: Path, tiny_models: Tiny) -> None:
    lines = [line for line in mine.read_text().splitlines() if not line.startswith(("validation", "expected", "  - "))]
    mine.write_text("\n".join(lines))
    ran = evaluate(mine, tiny_models, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "no-validation")
