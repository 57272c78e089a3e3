"""A compiled model that runs: feeds, stages, every tensor on demand, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.runtime.frame import run_axm
from axtool.runtime.model import check_feeds, load
from axtool.types import TensorSpec
from tests.conftest import Tiny


@pytest.fixture
def feeds() -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(3).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_both_engines_give_the_same_bits(tiny_models: Tiny, feeds: dict[str, np.ndarray], threads: int) -> None:
    one = load(tiny_models / "two.axm", engine="reference").run(feeds).outputs
    other = load(tiny_models / "two.axm", engine="native", threads=threads).run(feeds).outputs
    assert list(one) == list(other) == ["chances", "map"]
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])


def test_a_second_run_does_not_remember_the_first(tiny_models: Tiny, feeds: dict[str, np.ndarray]) -> None:
    model = load(tiny_models / "two.axm")
    first = model.run(feeds).outputs["chances"]
    model.run({"image": -feeds["image"]})
    np.testing.assert_array_equal(model.run(feeds).outputs["chances"], first)


def test_every_stage_is_timed(tiny_models: Tiny, feeds: dict[str, np.ndarray]) -> None:
    result = load(tiny_models / "two.axm").run(feeds)
    assert [kind for kind, _ in result.stage_s] == ["device", "host"]
    assert result.device_s > 0
    assert result.host_s > 0


def test_watching_every_tensor_changes_no_output(tiny_models: Tiny, feeds: dict[str, np.ndarray]) -> None:
    model = load(tiny_models / "two.axm")
    outputs, seen = model.run_watched(feeds)
    for name, array in model.run(feeds).outputs.items():
        np.testing.assert_array_equal(outputs[name], array)
    made = [name for device in model.devices for layer in device.program.layers for name in layer.outputs]
    assert set(made) <= set(seen)


SPECS = (TensorSpec("x", (1, 2), "float32"), TensorSpec("n", (1,), "int64"))


def test_feeds_are_cast_where_nothing_is_lost() -> None:
    checked = check_feeds(SPECS, {"x": np.ones((1, 2)), "n": np.ones(1, np.int32)})
    assert (checked["x"].dtype, checked["n"].dtype) == (np.float32, np.int64)


@pytest.mark.parametrize(
    ("feeds", "code"),
    [
        ({"x": np.ones((1, 2))}, "missing-input"),
        ({"x": np.ones((1, 2)), "n": np.ones(1, np.int64), "z": np.ones(1)}, "unknown-input"),
        ({"x": np.ones((2, 2)), "n": np.ones(1, np.int64)}, "wrong-shape"),
        ({"x": np.ones((1, 2)), "n": np.ones(1, np.float32)}, "wrong-dtype"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feeds: dict[str, np.ndarray], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_feeds(SPECS, feeds)
    assert caught.value.code == code


def test_a_stored_preparation_that_is_none_is_refused(tiny_models: Tiny, tmp_path: Path) -> None:
    artefact = replace(axm.read(tiny_models / "cls.axm"), preparation={"resize": "explode"})
    axm.write(tmp_path / "a.axm", artefact)
    with pytest.raises(UsageError, match="explode"):
        run_axm(tmp_path / "a.axm", [str(tiny_models / "picture.png")])


def test_the_stored_preparation_is_used(tiny_models: Tiny, tmp_path: Path) -> None:
    artefact = axm.read(tiny_models / "cls.axm")
    axm.write(tmp_path / "a.axm", replace(artefact, preparation={"scale": 1.0, "mean": [128.0], "std": [64.0]}))
    axm.write(tmp_path / "b.axm", replace(artefact, preparation={"scale": 1.0, "mean": [0.0], "std": [1e6]}))
    picture = str(tiny_models / "picture.png")
    one, other = (run_axm(tmp_path / name, [picture]).outputs["scores"] for name in ("a.axm", "b.axm"))
    assert not np.array_equal(one, other)


def test_a_host_stage_that_fails_on_an_input_is_no_bug(tmp_path: Path, work: Path) -> None:
    import onnx

    from tests import tiny
    from tests.tiny import axtool

    graph = """(float[1,4,4,4] x, int64[1] at) => (float[1,4,4,4] y) {
      a = Relu(x)
      y = Gather <axis=1> (a, at)
    }""".replace("float[1,4,4,4] y", "float[1,1,4,4] y")
    onnx.save(tiny.model(graph, {}), "gather.onnx")
    np.savez("calib.npz", x=np.random.default_rng(0).normal(size=(2, 1, 4, 4, 4)).astype(np.float32), at=[[0], [1]])
    assert axtool("compile", "gather.onnx", "--calib", "calib.npz", "-o", "g.axm", "-q").code == 0
    model = load(Path("g.axm"))
    feeds = {"x": np.zeros((1, 4, 4, 4), np.float32), "at": np.array([99])}
    with pytest.raises(UsageError, match="host stage"):
        model.run(feeds)
