"""Ranges that are looked for in turns: a later one sees the model in which the earlier ones are quantized."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from axtool.graph.float_run import FloatModel
from axtool.graph.split import Stage
from axtool.inputs.samples import Samples, open_samples
from axtool.inputs.spec import InputSpec
from axtool.ops.arithmetic import quantize_host
from axtool.quant.formats import quantize_stage
from axtool.quant.observers import Histogram
from axtool.quant.partly import partly_quantized
from axtool.quant.scales import Read, Scales
from axtool.quant.turns import Turn, observe_turn, turn_of
from axtool.target_file import load_target
from axtool.types import QFormat, Quantization
from tests import tiny

NET = """(float[1,4,5,5] x) => (float[1,2,5,5] y) {
  a = Conv(x, w1, b1)
  r = Relu(a)
  y = Conv(r, w2)
}"""
TARGET = load_target("qc-u-1d7-16mb")
# Clipped hard, so that whoever sees the quantized tensor sees another range.
RANGES = {"x": (-2.0, 2.0), "r": (0.0, 0.25), "y": (-3.0, 3.0)}
Arrays = Mapping[str, NDArray[np.float32]]


@pytest.fixture
def stage() -> Stage:
    weights = {"w1": (4, 4, 1, 1), "b1": (4,), "w2": (2, 4, 1, 1)}
    proto = onnx.shape_inference.infer_shapes(tiny.model(NET, weights))
    return Stage("device", ir.from_proto(proto), ("x",), ("y",))


@pytest.fixture
def samples(tmp_path: pytest.TempPathFactory) -> Samples:
    values = np.random.default_rng(1).normal(0, 1, (6, 4, 5, 5)).astype(np.float32)
    np.save(f"{tmp_path}/x.npy", values)
    return open_samples([f"{tmp_path}/x.npy"], [InputSpec("x", (1, 4, 5, 5), "float32")], None, None, None)


def numbers(stage: Stage) -> Quantization:
    return quantize_stage(stage.sites, RANGES, TARGET, stage.inputs, stage.outputs)


def real(values: NDArray[np.float32], fmt: QFormat) -> NDArray[np.float32]:
    """The values as an int8 tensor of that format gives them back."""
    return ((quantize_host(values, fmt).astype(np.float64) - fmt.zero_point[0]) * fmt.scale[0]).astype(np.float32)


def run(stage: Stage, model: ir.Model, feeds: Arrays) -> Arrays:
    return FloatModel((Stage("device", model, stage.inputs, stage.outputs),)).run(feeds)


def test_of_nothing_chosen_the_float_model_is_left(stage: Stage, samples: Samples) -> None:
    feeds = next(iter(samples))
    model = partly_quantized(stage, numbers(stage), set())
    np.testing.assert_array_equal(run(stage, model, feeds)["y"], run(stage, stage.float_model, feeds)["y"])


def test_a_chosen_tensor_is_rounded_and_so_are_the_weights_that_make_it(stage: Stage, samples: Samples) -> None:
    made, feeds = numbers(stage), next(iter(samples))
    got = run(stage, partly_quantized(stage, made, {"x", "a", "r"}), feeds)["y"]
    first, x = made.weights["a"], real(feeds["x"], made.formats["x"])[0]
    w1 = first.values.astype(np.float64)[:, :, 0, 0] * first.scale[:, None]
    hidden = np.einsum("oc,chw->ohw", w1, x) + first.bias[:, None, None]
    r = real(np.maximum(hidden, 0).astype(np.float32), made.formats["r"])
    w2 = stage.sites[2].constants["w2"][:, :, 0, 0]
    np.testing.assert_allclose(got[0], np.einsum("oc,chw->ohw", w2, r), atol=1e-5)


def test_the_model_of_a_turn_leaves_the_stage_as_it_is(stage: Stage) -> None:
    before = ir.to_proto(stage.model).SerializeToString()
    partly_quantized(stage, numbers(stage), {"x", "a", "r", "y"})
    assert ir.to_proto(stage.model).SerializeToString() == before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_later_turn_sees_what_an_earlier_one_clipped(stage: Stage, samples: Samples, jobs: int) -> None:
    plain = observe_turn([stage], [numbers(stage)], Turn(("y",), set()), samples, jobs=jobs)["y"]
    later = observe_turn([stage], [numbers(stage)], Turn(("y",), {"x", "a", "r"}), samples, jobs=jobs)["y"]
    reach = np.abs(stage.sites[2].constants["w2"]).sum(axis=(1, 2, 3)).max() * RANGES["r"][1]
    assert -plain.low > reach > -later.low
    assert isinstance(later, Histogram)
    assert later.count == plain.count == 6 * 2 * 5 * 5


def test_a_turn_observes_its_own_tensors_and_those_that_are_read_then() -> None:
    scales = Scales(turns={"b": 2, "c": 3}, reads={"d": Read(turn=2)})
    assert scales.later == (2, 3)
    assert turn_of(scales, 2, ["a", "b", "c", "d"]) == Turn(("b", "d"), {"a", "d"})
    assert turn_of(scales, 3, ["a", "b", "c", "d"]) == Turn(("c",), {"a", "b", "d"})
