"""`axtool verify`: the verdict, its limits, its stages, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.quant.layer_figures import BAD_DB
from tests import tiny
from tests.artefact.axm_files import Arrays, Manifest, changed
from tests.conftest import Tiny
from tests.tiny import Ran, axtool


def verify(tiny_models: Tiny, *words: object, model: object = "", against: str = "cls.onnx") -> Ran:
    data = ("--data", tiny_models / "data.npz") if "--data" not in words else ()
    return axtool("verify", model or tiny_models / "cls.axm", "--against", tiny_models / against, *data, *words)


def test_a_good_model_passes(tiny_models: Tiny) -> None:
    ran = verify(tiny_models)
    assert ran.code == 0, ran.out
    assert "passed: 16 samples, stage all" in ran.out
    for said in ("SQNR", "cosine", "max error", "worst channel", "top-1"):
        assert said in ran.out


def test_it_says_what_was_checked_and_what_to_try(tiny_models: Tiny) -> None:
    passed = verify(tiny_models)
    assert "checked: top-1 agreement >= 0.9, SQNR >= 10 dB per output, no dead channels" in passed.out
    assert "next: " not in passed.out
    failed = verify(tiny_models, "--min-sqnr", "90")
    assert "next: --layers names the layer" in failed.out
    assert "compile with --task" in failed.out
    document = verify(tiny_models, "--min-sqnr", "90", "--json").document
    assert "SQNR >= 90 dB per output" in document["checks"]
    assert document["next_steps"]


def test_too_few_samples_are_noted(tiny_models: Tiny, work: Path) -> None:
    few = verify(tiny_models, "--limit", "1").out
    assert "note: 1 sample; 8 or more" in few
    assert "passed: 1 sample, stage all" in few


@pytest.mark.parametrize("stage", ["float", "quant", "reference", "native"])
def test_every_stage_passes_on_a_good_model(tiny_models: Tiny, stage: str) -> None:
    ran = verify(tiny_models, "--stage", stage, "--limit", "3", "--json")
    assert (ran.code, ran.document["samples"], ran.document["stage"]) == (0, 3, stage), ran.out


def test_without_the_native_engine_there_is_nothing_to_compare_it_with(
    tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("axtool.sim.engine._native", lambda: None)
    ran = verify(tiny_models, "--stage", "native", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (4, "no-native-engine"), ran.out
    assert verify(tiny_models, "--stage", "reference", "--limit", "1").code == 0


def test_the_engines_agree_exactly(tiny_models: Tiny) -> None:
    row = verify(tiny_models, "--stage", "native", "--json").document["outputs"][0]
    assert (row["exact"], row["sqnr_db"], row["max_abs_error"]) == (True, None, 0.0)


def test_the_import_changes_next_to_nothing(tiny_models: Tiny) -> None:
    row = verify(tiny_models, "--stage", "float", "--json").document["outputs"][0]
    assert row["exact"] or row["sqnr_db"] > 100


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (("--min-sqnr", "90"), "want at least 90 dB"),
        (("--min-channel-sqnr", "90"), "channel"),
        (("--min-cosine", "1"), "cosine"),
        (("--max-error", "1e-9"), "max error"),
        (("--min-top1", "1.1"), "top-1 agreement"),
        (("--min-found", "0.5"), "--min-found"),
    ],
)
def test_a_broken_limit_is_exit_1_with_the_reason(tiny_models: Tiny, limit: tuple[str, str], said: str) -> None:
    ran = verify(tiny_models, *limit, "--json")
    document = ran.document
    assert (ran.code, document["status"], document["verdict"]) == (1, "failed", "failed")
    assert len(document["failures"]) == 1
    assert said in document["failures"][0]
    text = verify(tiny_models, *limit)
    assert said in text.out
    assert "failed: 16 samples" in text.out


def test_a_limit_on_classes_fails_where_no_output_has_them(tiny_models: Tiny) -> None:
    ran = verify(
        tiny_models, "--min-top1", "0.5", "--data", "random:2", model=tiny_models / "two.axm", against="two.onnx"
    )
    assert (ran.code, "no output is a list of classes" in ran.out) == (1, True)


def damaged(tiny_models: Tiny, folder: Path) -> Path:
    """The classifier with the weights of its first layer turned around: right bits for the wrong model."""

    def turn(manifest: Manifest, arrays: Arrays) -> None:
        weights = next(name for name in sorted(arrays) if arrays[name].dtype == np.int8)
        arrays[weights] = np.ascontiguousarray(arrays[weights][::-1])

    return changed(tiny_models / "cls.axm", folder / "bad.axm", turn)


def test_damaged_weights_fail_quant_and_not_native(tiny_models: Tiny, work: Path) -> None:
    model = damaged(tiny_models, work)
    assert verify(tiny_models, "--stage", "quant", model=model).code == 1
    assert verify(tiny_models, "--stage", "native", model=model).code == 0
    assert verify(tiny_models, "--stage", "float", model=model).code == 0


def test_layers_name_the_first_bad_one(tiny_models: Tiny, work: Path) -> None:
    ran = verify(tiny_models, "--layers", "--json", model=damaged(tiny_models, work))
    rows = ran.document["layers"]
    assert ran.document["first_bad_layer"] == next(row["index"] for row in rows if row["bad"])
    text = verify(tiny_models, "--layers", model=damaged(tiny_models, work))
    assert "the first bad layer is" in text.out
    assert f"less than {BAD_DB:g} dB" in text.out
    assert "saturated: float values outside the range" in text.out


def test_layers_have_an_accumulated_and_an_own_error(tiny_models: Tiny) -> None:
    document = verify(tiny_models, "--layers", "--json").document
    assert [row["op"] for row in document["layers"]] == ["conv", "avg_pool", "conv"]
    assert document["first_bad_layer"] is None
    last = document["layers"][-1]
    assert last["accumulated_sqnr_db"] == pytest.approx(document["outputs"][0]["sqnr_db"], abs=0.01)
    for row in document["layers"]:
        assert row["single_sqnr_db"] > 25
        assert row["saturated_share"] < 0.02


def test_a_model_with_fixed_dims_is_compared_at_the_sizes_it_was_compiled_for(tiny_models: Tiny) -> None:
    for words in ((), ("--layers",)):
        ran = verify(tiny_models, "--data", "random:2", *words, model=tiny_models / "two.axm", against="two.onnx")
        assert ran.code == 0, ran.out + ran.err


def test_outputs_that_the_user_cut_at_are_compared(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("compile", tiny_models / "cls.onnx", "--calib", "random:2", "--outputs", "r", "-o", "cut.axm", "-q")
    assert ran.code == 0, ran.err
    document = verify(tiny_models, "--json", model="cut.axm").document
    assert [row["output"] for row in document["outputs"]] == ["r"]


def test_a_model_with_random_ops_is_not_comparable_and_no_failure(work: Path) -> None:
    graph = """(float[1,3,8,8] x) => (float[1,3,8,8] y) {
      a = Relu(x)
      n = RandomNormalLike(a)
      y = Add(a, n)
    }"""
    onnx.save(tiny.model(graph, {}), "random.onnx")
    ran = axtool("compile", "random.onnx", "--calib", "random:2", "-o", "random.axm", "-q")
    assert ran.code == 0, ran.err
    words = ("verify", "random.axm", "--against", "random.onnx", "--data", "random:2")
    ran = axtool(*words, "--layers", "--json")
    assert (ran.code, ran.document["verdict"], ran.document["layers"]) == (0, "not comparable", None)
    assert "RandomNormalLike" in axtool(*words).out


def test_the_worst_part_of_a_concat_is_named(work: Path) -> None:
    graph = """(float[1,8,4,4] x) => (float[1,8,4,4] y) {
      boxes = Conv(x, wb)
      raw = Conv(x, ws)
      scores = Sigmoid(raw)
      y = Concat <axis=1> (boxes, scores)
    }"""
    onnx.save(tiny.model(graph, {"wb": (5, 8, 1, 1), "ws": (3, 8, 1, 1)}), "box.onnx")
    assert axtool("compile", "box.onnx", "--calib", "random:4", "-o", "box.axm", "-q").code == 0
    words = ("verify", "box.axm", "--against", "box.onnx", "--data", "random:4")
    worst = axtool(*words, "--json").document["outputs"][0]["worst_slice"]
    places = {"boxes": (0, 5), "scores": (5, 8)}
    assert (worst["axis"], places[worst["input"]]) == (1, (worst["start"], worst["stop"]))
    assert f"{worst['input']} [{worst['start']}:{worst['stop']}]" in axtool(*words).out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--stage", "natve"), "bad-option"),
        (("--data", "nowhere"), "file-not-found"),
        (("--limit", "0"), "usage"),
    ],
)
def test_bad_options_of_verify_are_refused(tiny_models: Tiny, words: tuple[str, ...], code: str) -> None:
    ran = verify(tiny_models, *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code)


def test_the_wrong_source_is_refused(tiny_models: Tiny) -> None:
    ran = verify(tiny_models, "--json", against="two.onnx")
    assert (ran.code, ran.document["status"]) == (2, "error"), ran.err


@pytest.mark.parametrize("against", ["cls.axm", "picture.png", "none.onnx"])
def test_a_source_that_is_no_model_is_refused(tiny_models: Tiny, against: str) -> None:
    assert verify(tiny_models, against=against).code == 2


def test_an_onnx_is_no_compiled_model(tiny_models: Tiny) -> None:
    ran = verify(tiny_models, model=tiny_models / "cls.onnx")
    assert (ran.code, "not compiled" in ran.err) == (2, True)
