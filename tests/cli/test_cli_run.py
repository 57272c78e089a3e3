"""`axtool run`: the forms of input, the outputs, and the times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest

from axtool.artefact import axm
from axtool.inputs.arrays import read_arrays
from axtool.sim import engine
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool


@pytest.fixture(scope="module")
def expected(tiny_models: Tiny, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    out = tmp_path_factory.mktemp("run") / "out.npz"
    assert axtool("run", tiny_models / "cls.axm", f"x={tiny_models / 'x.npy'}", "-o", out).code == 0
    return np.load(out)["scores"]


def outputs(*words: object) -> dict[str, np.ndarray]:
    ran = axtool("run", *words, "-o", "out.npz", "--force")
    assert ran.code == 0, ran.err
    return read_arrays("out.npz", "output")


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_the_engines_give_the_same_bits(tiny_models: Tiny, work: Path, expected: np.ndarray, engine: str) -> None:
    found = outputs(tiny_models / "cls.axm", tiny_models / "x.npy", "--engine", engine)
    np.testing.assert_array_equal(found["scores"], expected)


def test_the_float_engine_is_near(tiny_models: Tiny, work: Path, expected: np.ndarray) -> None:
    found = outputs(tiny_models / "cls.onnx", tiny_models / "x.npy", "--engine", "float")
    np.testing.assert_allclose(found["scores"], expected, atol=0.05)
    assert not np.array_equal(found["scores"], expected)


def forms(folder: Path, array: np.ndarray) -> dict[str, list[str]]:
    np.savez(folder / "plain.npz", x=array)
    np.savez(folder / "names.npz", input_names=np.array(["x"]), input_0=array)
    np.save(folder / "x.npy", array)
    np.save(folder / "a=b.npy", array)
    return {
        "an .npy": ["x.npy"],
        "name=file": ["x=x.npy"],
        "name=file with an equals sign": ["x=a=b.npy"],
        "an option": ["--input", "x=x.npy"],
        "plain member names": ["--input", "plain.npz"],
        "input_names": ["names.npz"],
    }


FORMS = ("an .npy", "name=file", "name=file with an equals sign", "an option", "plain member names", "input_names")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_is_read(tiny_models: Tiny, work: Path, expected: np.ndarray, form: str) -> None:
    words = forms(work, np.load(tiny_models / "x.npy"))[form]
    np.testing.assert_array_equal(outputs(tiny_models / "cls.axm", *words)["scores"], expected)


def test_a_picture_is_prepared(tiny_models: Tiny, work: Path) -> None:
    picture = tiny_models / "picture.png"
    plain = outputs(tiny_models / "cls.axm", picture)["scores"]
    dark = outputs(tiny_models / "cls.axm", picture, "--scale", "1/1000")["scores"]
    assert not np.array_equal(plain, dark)


def test_the_text_has_figures_and_tells_measured_from_modelled(tiny_models: Tiny) -> None:
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy")
    assert "scores" in ran.out
    assert "1x10" in ran.out
    assert "measured here (native engine)" in ran.out
    assert "modelled on the chip" in ran.out
    assert ran.err == ""


def test_the_document_has_each_output_and_each_time(tiny_models: Tiny) -> None:
    document = axtool("run", tiny_models / "two.axm", tiny_models / "picture.png", "--json").document
    assert [row["name"] for row in document["outputs"]] == ["chances", "map"]
    assert document["outputs"][0]["max"] <= 1
    assert set(document["time"]) == {
        "repeats", "prepare_ms_measured", "device_ms_measured", "host_ms_measured", "frame_ms_measured",
        "device_ms_modelled",
    }  # fmt: skip


def test_names_that_are_no_file_names_are_saved_and_read_again(work: Path) -> None:
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Relu", ["in/put:0"], ["out/put:0"])], "g",
            [onnx.helper.make_tensor_value_info("in/put:0", 1, [1, 3, 8, 8])],
            [onnx.helper.make_tensor_value_info("out/put:0", 1, [1, 3, 8, 8])],
        ), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    onnx.save(model, "odd.onnx")
    array = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    np.save("feed.npy", array)
    found = outputs("odd.onnx", "--engine", "float", "--input", "in/put:0=feed.npy")
    np.testing.assert_array_equal(found["out/put:0"], np.maximum(array, 0))
    with np.load("out.npz", allow_pickle=False) as file:
        assert sorted(file.files) == ["output_0", "output_names"]


def test_an_initializer_that_is_an_input_may_be_fed_or_left_out(work: Path) -> None:
    model = tiny.model("(float[1,4] x, float[4] b) => (float[1,4] y) { y = Add(x, b) }", {"b": (4,)})
    onnx.save(model, "over.onnx")
    x, b = np.ones((1, 4), np.float32), np.arange(4, dtype=np.float32)
    np.save("x.npy", x)
    np.save("b.npy", b)
    np.savez("both.npz", x=x, b=b)
    default = onnx.numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_allclose(outputs("over.onnx", "-e", "float", "x=x.npy")["y"], x + default, rtol=1e-6)
    np.testing.assert_allclose(outputs("over.onnx", "-e", "float", "x=x.npy", "b=b.npy")["y"], x + b, rtol=1e-6)
    np.testing.assert_allclose(outputs("over.onnx", "-e", "float", "both.npz")["y"], x + b, rtol=1e-6)


def test_a_compiled_model_says_that_the_default_is_frozen(work: Path) -> None:
    onnx.save(tiny.model("(float[1,4] x, float[4] b) => (float[1,4] y) { y = Add(x, b) }", {"b": (4,)}), "over.onnx")
    ran = axtool("compile", "over.onnx", "--calib", "random:2")
    assert (ran.code, "warning: default values became constants" in ran.err) == (0, True), ran.err


def test_without_the_native_engine_the_reference_runs_and_says_so_once(
    tiny_models: Tiny, work: Path, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("axtool.sim.engine._native", lambda: None)
    engine._say_once.cache_clear()
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy", "-o", "out.npz")
    assert (ran.code, ran.err.count("native engine is not built")) == (0, 1), ran.err
    np.testing.assert_array_equal(read_arrays("out.npz", "output")["scores"], expected)
    assert "(reference engine)" in ran.out
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--json")
    assert ran.document["engine"] == "reference"


def test_a_model_without_host_stages_has_no_host_time(tiny_models: Tiny) -> None:
    assert "host" not in axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy").out
    assert (
        "host_ms_measured"
        not in axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--json").document["time"]
    )
    assert "host" in axtool("run", tiny_models / "two.axm", tiny_models / "picture.png").out


@pytest.mark.parametrize("engine", ["native", "float"])
def test_a_frame_is_repeated_and_the_median_told(tiny_models: Tiny, engine: str) -> None:
    name = "cls.onnx" if engine == "float" else "cls.axm"
    ran = axtool("run", tiny_models / name, tiny_models / "x.npy", "-e", engine, "--repeat", "3")
    assert f"measured here ({engine} engine, median of 3 frames)" in ran.out


def test_classes_of_no_known_task_are_shown_by_their_index(tiny_models: Tiny, expected: np.ndarray) -> None:
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy")
    assert f"largest of scores: [{expected.argmax()}] " in ran.out
    document = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--json").document
    assert [row["index"] for row in document["outputs"][0]["top"]] == list(np.argsort(-expected[0], kind="stable")[:5])


def test_a_written_file_is_said(tiny_models: Tiny, work: Path) -> None:
    words = ("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--force", "-o", "out.npz")
    assert axtool(*words).err == "wrote out.npz\n"
    assert axtool(*words, "-q").err == ""


def test_a_save_draws_the_picture(tiny_models: Tiny, work: Path) -> None:
    artefact = axm.read(tiny_models / "cls.axm")
    axm.write(work / "task.axm", replace(artefact, task={"kind": "classification", "labels": ["cat", "dog"]}))
    for name in ("out.png", "out.jpg"):
        ran = axtool("run", "task.axm", tiny_models / "picture.png", "--save", name, "--json")
        assert ran.code == 0, ran.err
        assert cv2.imread(name) is not None
        assert len(ran.document["result"]["classes"]) == 5
    text = axtool("run", "task.axm", tiny_models / "picture.png").out
    assert "class" in text


REFUSED = {
    "no input": ((), "missing-input", "float32 [1, 3, 16, 16]"),
    "an unknown input": (("y=x.npy",), "wrong-input-name", "x"),
    "a file that is not there": (("x=no.npy",), "file-not-found", "no.npy"),
    "another shape": (("x=small.npy",), "wrong-size", "16x16"),
    "another type": (("x=text.npy",), "wrong-dtype", "float32"),
    "two samples": (("x=two.npy",), "wrong-count", "2 samples"),
    "an unknown engine": (("x.npy", "--engine", "natve"), "bad-option", "did you mean native?"),
    "an unknown instruction set": (("x.npy", "--isa", "avx1"), "bad-option", "avx1"),
    "an output of no kind": (("x.npy", "-o", "out.txt"), "bad-option", ".npz"),
    "a picture of no kind": (("x.npy", "--save", "out.gif"), "bad-option", ".png"),
    "nothing to draw on": (("x.npy", "--save", "out.png"), "nothing-to-draw", "image"),
    "an existing output": (("x.npy", "-o", "two.npy"), "output-exists", "--force"),
    "an output over its input": (("x.npy", "-o", "x.npy", "-f"), "output-is-input", "x.npy"),
    "too many threads": (("x.npy", "--threads", "100000"), "usage", "--threads"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(tiny_models: Tiny, work: Path, name: str) -> None:
    words, code, said = REFUSED[name]
    np.save("x.npy", np.load(tiny_models / "x.npy"))
    np.save("small.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.save("two.npy", np.zeros((2, 3, 16, 16), np.float32))
    np.save("text.npy", np.full((1, 3, 16, 16), "a"))
    before = {p.name: p.read_bytes() for p in work.iterdir()}
    ran = axtool("run", tiny_models / "cls.axm", *words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, code), ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert {p.name: p.read_bytes() for p in work.iterdir()} == before


def test_an_onnx_wants_the_float_engine(tiny_models: Tiny) -> None:
    ran = axtool("run", tiny_models / "cls.onnx", tiny_models / "x.npy")
    assert (ran.code, "--engine float" in ran.err) == (2, True)


def test_an_axm_has_no_float_engine(tiny_models: Tiny) -> None:
    ran = axtool("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--engine", "float")
    assert (ran.code, "already compiled" in ran.err) == (2, True)


def test_sizes_that_the_file_leaves_open_are_those_of_what_is_fed(tiny_models: Tiny, work: Path) -> None:
    for size in (8, 12):
        array = np.random.default_rng(0).normal(size=(1, 3, size, size)).astype(np.float32)
        np.save("feed.npy", array)
        np.savez("feed.npz", image=array)
        for word in ("feed.npy", "image=feed.npy", "feed.npz"):
            found = outputs(tiny_models / "two.onnx", "-e", "float", word)
            assert found["map"].shape == (1, 4, size, size)
    ran = axtool("run", tiny_models / "two.onnx", "-e", "float", tiny_models / "picture.png", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "free-dims")


def test_an_instruction_set_wants_the_native_engine(tiny_models: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("axtool.sim.engine._native", lambda: None)
    words = ("run", tiny_models / "cls.axm", tiny_models / "x.npy", "--json")
    ran = axtool(*words, "--isa", "portable")
    assert (ran.code, ran.document["error"]["code"]) == (4, "no-native-engine")
    assert axtool(*words).document["engine"] == "reference"
