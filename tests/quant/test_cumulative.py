"""Cumulative bias correction: what layers read has the float model's mean again, one layer after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from axtool.graph.float_run import FloatModel
from axtool.graph.sites import sites_of
from axtool.graph.split import Stage
from axtool.ops.packing import add_to_bias, pack_params
from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.quant.bias import follow_drift
from axtool.quant.cumulative import LEAST_SAMPLES, MOST_SAMPLES, drifts_of, samples_of
from axtool.quant.formats import int8_format, quantize_stage
from axtool.quant.means import averaged_axes, channel_mean
from axtool.quant.trial import Bench
from axtool.quant.weights import quantize_weights
from axtool.runtime.device import DeviceSession
from axtool.target_file import load_target
from axtool.types import Quantization, Site
from tests.tiny import axtool

HEAD = '<ir_version: 9, opset_import: ["": 18]> g '
BODIES = {
    "two convolutions": "a = Conv(x, w) r = Relu(a) y = Conv(r, v)",
    "a function between": "a = Conv(x, w) r = HardSwish(a) y = Conv(r, v)",
    "depthwise and padded": "a = Conv(x, w) b = Conv<group=32, pads=[1,1,1,1]>(a, dw) y = Conv(b, v)",
    "grouped": "a = Conv(x, w) b = Conv<group=2>(a, half) y = Conv(b, v)",
    "a residual sum": "a = Conv(x, w) b = Conv(a, u) s = Add(a, b) y = Conv(s, v)",
    "a split that the layer makes": (
        "a = Conv(x, w) p, q = Split<axis=1>(a, parts) left = Conv(p, few) right = Conv(q, few) y = Add(left, right)"
    ),
    "an addition in the bias": "a = Conv(x, w) b = Add(a, c) r = Relu(b) y = Conv(r, v)",
    "transposed": "a = ConvTranspose<strides=[2,2]>(x, t) y = Conv(a, v)",
    "a mean and a gemm": "a = Conv(x, w) p = GlobalAveragePool(a) f = Flatten(p) y = Gemm(f, m)",
}
SHAPES = {
    "w": (32, 3, 3, 3), "v": (5, 32, 1, 1), "dw": (32, 1, 3, 3), "half": (32, 16, 1, 1), "u": (32, 32, 1, 1),
    "c": (1, 32, 1, 1), "few": (4, 16, 1, 1), "t": (3, 32, 2, 2), "m": (32, 7),
}  # fmt: skip
TARGET = load_target("qc-u-1d7-16mb")
Rows = dict[str, tuple[float, ...]]


class Net:
    """A device stage of one of the bodies, four samples, and what the float model makes of them."""

    def __init__(self, body: str) -> None:
        proto = onnx.parser.parse_model(f"{HEAD}(float[1,3,9,8] x) => (float[n,k,h,o] y) {{ {body} }}")
        rng = np.random.default_rng(4)
        used = {name for node in proto.graph.node for name in node.input}
        arrays = {name: rng.normal(0.1, 1, shape).astype(np.float32) ** 3 for name, shape in SHAPES.items()}
        stored = {**arrays, "parts": np.array([16, 16], np.int64)}
        proto.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in stored.items() if name in used
        )
        if "Gemm" in body:
            del proto.graph.output[0].type.tensor_type.shape.dim[2:]
        model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True))
        self.stage = Stage("device", model, ("x",), ("y",))
        self.sites = sites_of(model)
        self.samples = [{"x": rng.normal(0.3, 1, (1, 3, 9, 8)).astype(np.float32)} for _ in range(4)]
        names = [name for site in self.sites for name in site.outputs]
        source = FloatModel((self.stage,), expose=[name for name in names if name != "y"])
        self.floats = [{**feeds, **source.run(feeds)} for feeds in self.samples]
        axes = averaged_axes(self.sites)
        self.means: Rows = {
            name: tuple(np.mean([channel_mean(row[name], axis) for row in self.floats], axis=0).tolist())
            for name, axis in axes.items()
        }
        self.ranges = {
            name: (
                min(float(row[name].min()) for row in self.floats),
                max(float(row[name].max()) for row in self.floats),
            )
            for name in ("x", *names)
        }

    def numbers(self, drift: Rows | None = None) -> Quantization:
        return quantize_stage(self.sites, self.ranges, TARGET, ("x",), ("y",), means=self.means, drift=drift)

    def drift(self) -> Rows:
        return drifts_of(Bench((self.stage,), TARGET), lambda stage: self.numbers(), self.samples, self.means)

    def device_means(self, drift: Rows | None = None) -> dict[str, NDArray[np.float64]]:
        """The mean of each channel of what layers read, on the device that the numbers make, and of the output."""
        program = lower(self.sites, self.numbers(drift), TARGET, ("x",), ("y",))
        session = DeviceSession(plan(program, TARGET))
        names = [name for name in (*self.means, "y") if name in program.tensors and name != "x"]
        rows: dict[str, list[NDArray[np.float64]]] = {}
        for feeds in self.samples:
            fed = {"x": session.quantize("x", feeds["x"])}
            seen = {**fed, **session.run_quantized(fed, watch=names)}
            for name in (*names, "x"):
                fmt = program.tensors[name].format
                real = (seen[name].astype(np.float64) - fmt.zero_point[0]) * fmt.scale[0]
                rows.setdefault(name, []).append(real.reshape(-1, real.shape[-1]).mean(axis=0))
        return {name: np.mean(row, axis=0) for name, row in rows.items()}


@pytest.fixture(scope="module", params=BODIES)
def net(request: pytest.FixtureRequest) -> Net:
    return Net(BODIES[request.param])


def test_the_drift_is_what_the_finished_program_shows(net: Net) -> None:
    drift = net.drift()
    seen = net.device_means(drift)
    assert set(drift) >= {name for name in net.means if name in seen}
    for name in drift.keys() & seen.keys():
        np.testing.assert_allclose(drift[name], np.array(net.means[name]) - seen[name], atol=1e-6)


def test_the_mean_of_the_output_comes_closer_to_the_float_models(net: Net) -> None:
    axis = 1
    wanted = np.mean([channel_mean(row["y"], axis) for row in net.floats], axis=0)
    before, after = (np.abs(net.device_means(drift)["y"] - wanted).mean() for drift in (None, net.drift()))
    assert after < before


def constant(channels: int) -> Site:
    shapes = {"x": (1, channels, 4, 4), "y": (1, 8, 4, 4)}
    attrs = {"kernel": (1, 1), "strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0), "group": 1}
    weights = np.random.default_rng(0).normal(0, 1, (8, channels, 1, 1)).astype(np.float32)
    return Site("Conv", "c", 0, ("x", "w"), ("y",), attrs, shapes, {}, {"w": weights})


def test_the_bias_takes_what_the_weights_make_of_the_drift() -> None:
    site = constant(6)
    source = int8_format(-1, 3)
    weights = quantize_weights(site, source, int8_format(-9, 9))[0]
    drift = np.array([0.5, -0.25, 0.0, 1.0, 0.125, -1.5])
    moved = follow_drift(site, weights, source, tuple(drift))
    real = weights.values.reshape(8, 6) * weights.scale.astype(np.float64)[:, None]
    np.testing.assert_allclose(moved.bias - weights.bias, real @ drift, rtol=1e-3, atol=1e-3)


def test_a_drift_of_another_number_of_channels_changes_nothing() -> None:
    site = constant(6)
    weights = quantize_weights(site, int8_format(-1, 3), int8_format(-9, 9))[0]
    assert follow_drift(site, weights, int8_format(-1, 3), (1.0,) * 5) is weights


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("cout", [2, 16, 34])
def test_what_is_added_to_packed_biases_is_as_if_it_had_been_packed(cout: int, group: int) -> None:
    rng = np.random.default_rng(0)
    bias, more, wsum = (rng.integers(-1000, 1000, cout) for _ in range(3))
    packed = pack_params(bias, 1 << 30, 31, wsum, group)
    assert np.array_equal(add_to_bias(packed, more, group), pack_params(bias + more, 1 << 30, 31, wsum, group))


def test_as_many_samples_are_run_as_fit() -> None:
    small = Net(BODIES["two convolutions"]).stage
    assert len(samples_of((small,), range(100))) == MOST_SAMPLES
    assert samples_of((small,), [3, 5, 9]) == [3, 5, 9]
    text = f"{HEAD}(float[1,3,4000,4000] x) => (float[1,3,4000,4000] y) {{ y = Relu(x) }}"
    large = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    assert len(samples_of((Stage("device", large, ("x",), ("y",)),), range(100))) == LEAST_SAMPLES


RECIPE = """schema: axtool.quant/1
recipes: [{method: minmax, bias: cumulative}]
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cumulative")
    (folder / "q.yaml").write_text(RECIPE)
    onnx.save(ir.to_proto(Net(BODIES["a residual sum"]).stage.model), folder / "m.onnx")
    for name, jobs in (("a", "1"), ("b", "2")):
        words = ("--calib", "random:16", "--recipe", folder / "q.yaml", "-j", jobs, "-o", folder / f"{name}.axm")
        assert axtool("compile", folder / "m.onnx", *words, "--save-ranges", folder / f"{name}.json").code == 0
    return folder


def test_any_number_of_processes_makes_the_same_file(compiled: Path) -> None:
    assert (compiled / "a.axm").read_bytes() == (compiled / "b.axm").read_bytes()


def test_saved_ranges_bring_the_drift_along(compiled: Path) -> None:
    from axtool.runtime.model import load

    words = ("--ranges", compiled / "a.json", "-o", compiled / "again.axm")
    assert axtool("compile", compiled / "m.onnx", *words).code == 0
    first, second = (load(compiled / name).artefact.device_stages[0].plan.program for name in ("a.axm", "again.axm"))
    assert {n: a.tobytes() for n, a in first.constants.items()} == {n: a.tobytes() for n, a in second.constants.items()}


def test_a_stage_without_a_single_op_has_no_drift(tmp_path: Path) -> None:
    text = f"{HEAD}(float[1,3,9,8] x) => (float[1,3,9,8] y) {{ y = Identity(x) }}"
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    (tmp_path / "q.yaml").write_text(RECIPE)
    words = ("--calib", "random:8", "--recipe", tmp_path / "q.yaml", "-o", tmp_path / "m.axm")
    ran = axtool("compile", tmp_path / "m.onnx", *words)
    assert ran.code == 0, ran.err
