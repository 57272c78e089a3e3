"""What the road needs from the user, and what it says when that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from axtool.runtime.model import load
from tests import tiny
from tests.conftest import Tiny
from tests.tiny import axtool

QUANTIZED = """(float[1,4] x) => (float[1,4] y) {
  s = Constant <value_float=0.03> ()
  z = Constant <value = int8 {3}> ()
  a = QuantizeLinear(x, s, z)
  b = DequantizeLinear(a, s, z)
  c = Relu(b)
  d = QuantizeLinear(c, s, z)
  y = DequantizeLinear(d, s, z)
}"""


def edited(source: Path, path: Path, change: dict[str, str]) -> Path:
    """The ranges file with tensors renamed; to "" is to remove."""
    document = json.loads(source.read_text())
    tensors = {change.get(name, name): value for name, value in document["tensors"].items()}
    path.write_text(json.dumps({**document, "tensors": {k: v for k, v in tensors.items() if k}}))
    return path


def test_a_model_that_brings_all_its_formats_needs_no_calibration(work: Path) -> None:
    model = tiny.save(work / "q.onnx", QUANTIZED, {})
    ran = axtool("compile", model, "-q")
    assert (ran.code, ran.err) == (0, "")


def test_a_range_of_no_tensor_of_the_model_is_named_with_the_nearest(tiny_models: Tiny, work: Path) -> None:
    ranges = edited(tiny_models / "ranges.json", work / "r.json", {"x": "xx"})
    ran = axtool("compile", tiny_models / "cls.onnx", "--ranges", ranges)
    assert ran.code == 2
    assert f"{ranges}: ranges do not fit the model" in ran.err
    assert "'x' is missing" in ran.err
    assert "'xx' is no tensor of the model: did you mean x?" in ran.err


def test_a_range_that_is_missing_is_named(tiny_models: Tiny, work: Path) -> None:
    ranges = edited(tiny_models / "ranges.json", work / "r.json", {"scores": ""})
    ran = axtool("compile", tiny_models / "cls.onnx", "--ranges", ranges)
    assert (ran.code, "'scores' is missing" in ran.err) == (2, True)


@pytest.mark.parametrize("words", [("compile", "--calib", "random:2"), ("compile", "--ranges", "r.json"), ("profile",)])
def test_weights_that_are_no_numbers_are_told_with_their_file(work: Path, words: tuple[str, ...]) -> None:
    weights = {"w": np.array([[[[np.nan]]], [[[1.0]]]])}
    tiny.save(work / "m.onnx", "(float[1,1,2,2] x) => (float[1,2,2,2] y) { y = Conv(x, w) }", weights)
    tensors = {"x": [-1, 1], "y": [-1, 1]}
    (work / "r.json").write_text(json.dumps({"schema": "axtool.ranges/1", "tensors": tensors}))
    ran = axtool(words[0], "m.onnx", *words[1:], "--json")
    error = ran.document["error"]
    assert (ran.code, error["code"], error["where"]) == (5, "non-finite-weights", "m.onnx")
    assert "m.onnx: weights are not finite: 'w' of Conv" in error["message"]


@pytest.mark.parametrize("reach_in", [1e-45, 1.0, 3e38])
@pytest.mark.parametrize("reach_out", [1e-45, 1.0, 3e38])
def test_a_channel_of_zeros_gives_its_bias_between_the_most_extreme_ranges(
    work: Path, reach_in: float, reach_out: float
) -> None:
    filters = np.array([[1.0, 0.5], [0.0, 0.0]])[:, :, None, None]
    weights = {"w": filters, "b": np.array([0.0, 0.5])}
    model = tiny.save(work / "m.onnx", "(float[1,2,2,2] x) => (float[1,2,2,2] y) { y = Conv(x, w, b) }", weights)
    tensors = {"x": [-reach_in, reach_in], "y": [-reach_out, reach_out]}
    (work / "r.json").write_text(json.dumps({"schema": "axtool.ranges/1", "tensors": tensors}))
    ran = axtool("compile", model, "--ranges", "r.json", "--disable-pass", "run-onnxsim", "-q")
    assert (ran.code, ran.err) == (0, "")
    compiled = load(work / "m.axm", engine="reference")
    y = compiled.run({"x": np.zeros((1, 2, 2, 2), np.float32)}).outputs["y"]
    fmt = compiled.devices[0].program.tensors["y"].format
    step = fmt.scale[0]
    assert abs(y[0, 1, 0, 0] - min(0.5, (127 - fmt.zero_point[0]) * step)) <= step
    assert not y[0, 0].any()


def test_of_many_frozen_defaults_four_are_named_and_the_rest_counted(work: Path) -> None:
    adds = "".join(f" v{i + 1} = Add(v{i}, p{i})" for i in range(6))
    model = tiny.model(f"(float[1,4] v0) => (float[1,4] v6) {{{adds} }}", {f"p{i}": (1, 4) for i in range(6)})
    for initializer in model.graph.initializer:
        shape = numpy_helper.to_array(initializer).shape
        model.graph.input.append(onnx.helper.make_tensor_value_info(initializer.name, 1, shape))
    onnx.save(model, str(work / "m.onnx"))
    ran = axtool("compile", "m.onnx", "--calib", "random:2")
    assert "cannot be fed any more: p0, p1, p2, p3 and 2 more" in ran.err


def test_an_input_that_nothing_reads_is_fed_without_harm_to_every_command(work: Path) -> None:
    graph = "(float[1,3,4,4] x, float[1,2] u) => (float[1,4,4,4] y) { y = Conv(x, w) }"
    model = tiny.save(work / "m.onnx", graph, {"w": (4, 3, 1, 1)})
    np.savez(work / "d.npz", x=np.ones((1, 3, 4, 4), np.float32), u=np.zeros((1, 2), np.float32))
    assert axtool("run", model, "--engine", "float", "--input", "d.npz").code == 0
    assert axtool("compile", model, "--calib", "d.npz").code == 0
    assert axtool("run", "m.axm", "--input", "d.npz").code == 0
    for stage in ("float", "quant", "all"):
        assert axtool("verify", "m.axm", "--against", model, "--data", "d.npz", "--stage", stage).code == 0
    assert axtool("verify", "m.axm", "--against", model, "--data", "d.npz", "--layers").code == 0
