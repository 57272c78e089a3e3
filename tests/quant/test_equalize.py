"""Equalization: the float function stays, channels of a tensor come to a like size, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from axtool.errors import UsageError
from axtool.graph.sites import sites_of
from axtool.quant.equalize import LARGEST, Group, check_factors, equalized, factors_of, groups_of, is_uneven, rescaled
from axtool.quant.gram import Gram, scaled_gram
from axtool.quant.ranges import Ranges, ranges_text, read_ranges
from axtool.quant.spread import ChannelExtremes, channel_extremes
from axtool.types import Site
from tests.tiny import axtool

HEAD = '<ir_version: 9, opset_import: ["": 18]> g '
UNEVEN = np.array([8.0, 1.0, 0.25, 0.05])

CHAINS = {
    "nothing between": "y = Conv(a, v, d)",
    "relu": "r = Relu(a) y = Conv(r, v, d)",
    "leaky relu and a pool": "r = LeakyRelu<alpha=0.2>(a) p = MaxPool<kernel_shape=[2,2]>(r) y = Conv(p, v, d)",
    "a residual sum": "b = Conv(x, u, e) s = Add(a, b) y = Conv(s, v, d)",
    "two readers": "r = Relu(a) p = Conv(r, v, d) q = Conv(r, t) y = Add(p, q)",
    "a gate for each channel": "p = GlobalAveragePool(a) g = Conv(p, gw) s = Tanh(g) m = Mul(a, s) y = Conv(m, v)",
    "depthwise": "y = Conv<group=4, pads=[1,1,1,1]>(a, dw)",
    "grouped": "y = Conv<group=2>(a, grouped)",
    "pooled, then a conv": "p = GlobalAveragePool(a) y = Conv(p, one)",
}
SHAPES = {
    "w": (4, 3, 3, 3), "c": (4,), "u": (4, 3, 3, 3), "e": (4,), "v": (5, 4, 2, 2), "d": (5,), "t": (5, 4, 2, 2),
    "gw": (4, 4, 1, 1), "dw": (4, 1, 3, 3), "grouped": (6, 2, 1, 1), "one": (7, 4, 1, 1),
}  # fmt: skip
OTHERS = {
    "a clip": "r = Clip(a, zero, six) y = Conv(r, v, d)",
    "hard swish": "r = HardSwish(a) y = Conv(r, v, d)",
    "a concat that reads it too": "y = Conv(a, v, d) z = Concat<axis=1>(a, a)",
    "an output of the stage": "y = Conv(a, v, d) z = Relu(a)",
    "a product with a tensor of its shape": "b = Conv(x, u, e) m = Mul(a, b) y = Conv(m, v, d)",
    "a reader without constant weights": "m = Mul(a, a) y = Conv(a, v, d) z = Conv(m, v, d)",
}


def model(body: str, *, outputs: str = "y") -> onnx.ModelProto:
    """x, then a convolution of 4 channels of uneven size, a, then the body."""
    outs = ", ".join(f"float[n,k,h,w] {name}" for name in outputs.split())
    made = onnx.parser.parse_model(f"{HEAD}(float[1,3,9,8] x) => ({outs}) {{ a = Conv(x, w, c) {body} }}")
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    arrays["w"] *= UNEVEN.reshape(4, 1, 1, 1).astype(np.float32)
    arrays |= {"zero": np.float32(0), "six": np.float32(6)}
    used = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items() if name in used
    )
    return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def found(proto: onnx.ModelProto) -> tuple[tuple[Site, ...], tuple[Group, ...]]:
    sites = sites_of(ir.from_proto(proto))
    return sites, groups_of(sites, ["x"], [value.name for value in proto.graph.output])


def run(proto: onnx.ModelProto, sites: tuple[Site, ...] = ()) -> NDArray[np.float32]:
    """The first output, with the constants of these sites."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    given = {name: array for site in sites for name, array in site.constants.items() if np.ndim(array)}
    for tensor in copy.graph.initializer:
        if tensor.name in given:
            tensor.CopyFrom(onnx.numpy_helper.from_array(given[tensor.name].astype(np.float32), tensor.name))
    session = ort.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(5).normal(0, 1, (1, 3, 9, 8)).astype(np.float32)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("case", CHAINS)
def test_the_float_function_stays(case: str) -> None:
    proto = model(CHAINS[case])
    sites, groups = found(proto)
    (group,) = groups
    changed = equalized(sites, dict.fromkeys(group.tensors, (0.5, 3.0, 16.0, 7.0)))
    before, after = run(proto), run(proto, changed)
    assert np.abs(after - before).max() <= 1e-5 * np.abs(before).max()


@pytest.mark.parametrize("case", CHAINS)
def test_the_weights_that_make_a_channel_take_its_factor(case: str) -> None:
    sites, (group,) = found(model(CHAINS[case]))
    changed = equalized(sites, dict.fromkeys(group.tensors, (0.5, 3.0, 16.0, 7.0)))
    ratio = changed[0].constants["w"] / sites[0].constants["w"]
    np.testing.assert_allclose(ratio[:, 0, 0, 0], [0.5, 3.0, 16.0, 7.0])


def test_a_gemm_behind_a_gemm_is_rescaled_in_both_layouts_of_weights() -> None:
    text = f"{HEAD}(float[2,3] x) => (float[2,2] y) {{ a = Gemm(x, w, c) r = Relu(a) y = Gemm<transB=1>(r, v) }}"
    proto = onnx.parser.parse_model(text)
    rng = np.random.default_rng(1)
    arrays = {"w": rng.normal(0, 1, (3, 4)), "c": rng.normal(0, 1, 4), "v": rng.normal(0, 1, (2, 4))}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    sites, (group,) = found(onnx.shape_inference.infer_shapes(proto))
    factors = np.array([2.0, 4.0, 0.5, 8.0])
    a, _, b = equalized(sites, dict.fromkeys(group.tensors, tuple(factors)))
    np.testing.assert_allclose(a.constants["w"], arrays["w"] * factors, rtol=1e-6)
    np.testing.assert_allclose(a.constants["c"], arrays["c"] * factors, rtol=1e-6)
    np.testing.assert_allclose(b.constants["v"], arrays["v"] / factors, rtol=1e-6)


@pytest.mark.parametrize("case", OTHERS)
def test_what_others_read_or_bound_keeps_its_channels(case: str) -> None:
    outputs = "y z" if " z = " in OTHERS[case] else "y"
    _, groups = found(model(OTHERS[case], outputs=outputs + (" a" if case.startswith("an output") else "")))
    assert not [group for group in groups if "a" in group.tensors]


def test_the_gate_itself_keeps_its_numbers() -> None:
    body = "p = GlobalAveragePool(a) g = Conv(p, gw) s = Relu(g) m = Mul(s, a) y = Conv(m, v, d)"
    _, (group,) = found(model(body))
    assert set(group.tensors) == {"a", "p", "m"}


@pytest.mark.parametrize("fixed", ["a", "r", "v", "w"])
def test_a_tensor_or_weights_with_a_given_format_keep_their_channels(fixed: str) -> None:
    sites = sites_of(ir.from_proto(model("r = Relu(a) y = Conv(r, v, d)")))
    assert groups_of(sites, ["x"], ["y"], [fixed]) == ()


def extremes(group: Group, sizes: NDArray[np.float64]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return dict.fromkeys(group.tensors, (-sizes / 2, sizes))


def test_before_a_depthwise_site_all_channels_become_as_large_as_the_largest() -> None:
    _, (group,) = found(model(CHAINS["depthwise"]))
    factors = factors_of((group,), extremes(group, UNEVEN))
    np.testing.assert_allclose(np.array(factors["a"]) * UNEVEN, [8.0, 8.0, 8.0, 64 * 0.05], rtol=1e-3)


def test_before_others_small_channels_grow_only_in_part() -> None:
    _, (group,) = found(model(CHAINS["relu"]))
    factors = np.array(factors_of((group,), extremes(group, UNEVEN))["a"])
    grown = factors * UNEVEN
    assert grown.max() == pytest.approx(UNEVEN.max(), rel=1e-3)
    assert UNEVEN.max() / UNEVEN.min() > grown.max() / grown.min() > 2


def test_a_channel_that_is_always_zero_gets_a_factor_within_bounds() -> None:
    _, (group,) = found(model(CHAINS["depthwise"]))
    factors = factors_of((group,), extremes(group, np.array([1.0, 0.0, 1.0, 1.0])))["a"]
    assert max(factors) <= LARGEST * min(factors)


def test_a_tensor_that_is_always_zero_or_was_not_seen_has_no_factors() -> None:
    _, (group,) = found(model(CHAINS["relu"]))
    assert factors_of((group,), extremes(group, np.zeros(4))) == {}
    assert factors_of((group,), {}) == {}


def test_even_channels_are_not_worth_a_trial() -> None:
    _, (group,) = found(model(CHAINS["depthwise"]))
    assert not is_uneven(factors_of((group,), extremes(group, np.array([1.0, 0.9, 0.8, 0.7]))))
    assert is_uneven(factors_of((group,), extremes(group, UNEVEN)))


def test_ranges_and_means_are_those_of_the_rescaled_tensor() -> None:
    _, (group,) = found(model(CHAINS["depthwise"]))
    before = Ranges({"x": (-1, 1), "a": (-4, 8)}, means={"a": (1.0, 1.0, 1.0, 1.0), "x": (0.5,)})
    after = rescaled(before, (group,), extremes(group, UNEVEN))
    assert after["x"] == (-1, 1)
    assert after["a"] == pytest.approx((-4 * 1.1, 8 * 1.1), rel=1e-3)
    assert after.means == {"a": after.factors["a"], "x": (0.5,)}


def test_factors_survive_the_file_of_ranges(tmp_path: Path) -> None:
    before = Ranges({"a": (0.0, 1.0)}, factors={"a": (1.0, 2.5, 0.125, 64.0)})
    (tmp_path / "r.json").write_text(ranges_text(before))
    assert read_ranges(tmp_path / "r.json").factors == before.factors


@pytest.mark.parametrize("row", [[1.0, 0.0], [1.0, -2.0], [1.0, "2"], 3.0])
def test_factors_of_a_file_are_positive_numbers(tmp_path: Path, row: object) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"schema": "axtool.ranges/1", "tensors": {}, "factors": {"a": row}}))
    with pytest.raises(UsageError, match="positive"):
        read_ranges(tmp_path / "r.json")


@pytest.mark.parametrize(
    "factors",
    [
        {"a": (2.0,) * 4},  # r, which shares them, has none
        {"a": (2.0,) * 3, "r": (2.0,) * 3},
        {"a": (2.0,) * 4, "r": (2.0,) * 4, "y": (2.0,) * 5},
    ],
)
def test_factors_that_would_change_the_function_are_refused(factors: dict[str, tuple[float, ...]]) -> None:
    _, groups = found(model(CHAINS["relu"]))
    check_factors(groups, {"a": (2.0,) * 4, "r": (2.0,) * 4})
    with pytest.raises(UsageError):
        check_factors(groups, factors)


@pytest.mark.parametrize("group", [1, 2])
def test_the_matrix_of_rescaled_inputs_is_that_of_their_products(group: int) -> None:
    proto = model(CHAINS["grouped"] if group == 2 else CHAINS["nothing between"])
    site = sites_of(ir.from_proto(proto))[1]
    rng = np.random.default_rng(0)
    taps = 1 if group == 2 else 4
    rows = rng.normal(0, 1, (group, 20, 4 // group * taps))
    factors = np.array([1.0, 2.0, 3.0, 4.0])
    scaled = rows * np.repeat(factors, taps).reshape(group, 1, -1)
    gram, wanted = (np.matmul(x.transpose(0, 2, 1), x) for x in (rows, scaled))
    np.testing.assert_allclose(scaled_gram(site, Gram(gram), tuple(factors)).matrices, wanted)


def test_extremes_of_channels_are_the_same_however_the_samples_are_shared() -> None:
    arrays = [np.random.default_rng(i).normal(0, 1, (1, 3, 4, 4)) for i in range(5)]
    whole, parts = ChannelExtremes({"x"}), [ChannelExtremes({"x"}), ChannelExtremes({"x"})]
    for index, array in enumerate(arrays):
        whole.add("x", array)
        parts[index % 2].add("x", array)
    parts[1].merge(parts[0])
    assert all(np.array_equal(a, b) for a, b in zip(whole.seen["x"], parts[1].seen["x"], strict=True))


def test_extremes_leave_out_what_is_not_finite() -> None:
    array = np.array([[[1.0, np.inf], [np.nan, -3.0]]], np.float32)
    low, high = channel_extremes(array)
    assert (low.tolist(), high.tolist()) == ([0.0, -3.0], [1.0, 0.0])


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose first tensor has channels of very different size, and a folder to work in."""
    folder = tmp_path_factory.mktemp("uneven")
    proto = model("b = Conv<group=4, pads=[1,1,1,1]>(a, dw) h = HardSwish(b) y = Conv(h, v, d)")
    onnx.save(proto, folder / "m.onnx")
    words = ("--calib", "random:16", "--save-ranges", folder / "r.json", "-o", folder / "m.axm", "--json")
    (folder / "told.json").write_text(json.dumps(axtool("compile", folder / "m.onnx", *words).document))
    return folder


def test_compiling_finds_that_uneven_channels_are_worth_it(uneven: Path) -> None:
    told = json.loads((uneven / "told.json").read_text())["calibration"]
    assert "channels equalized" in told["method"]


def test_what_each_refinement_gained_is_told(uneven: Path) -> None:
    trials = json.loads((uneven / "told.json").read_text())["calibration"]["trials"]
    (tried,) = [trial for trial in trials if trial.get("refines") == "equalize"]
    before = max(trial["sqnr_db"] for trial in trials if not trial.get("refines"))
    assert tried["gain_db"] == pytest.approx(tried["sqnr_db"] - before, abs=0.15)
    assert "equalize +" in axtool("info", uneven / "m.axm").out


def test_saved_ranges_bring_the_factors_along(uneven: Path) -> None:
    assert axtool("compile", uneven / "m.onnx", "--ranges", uneven / "r.json", "-o", uneven / "again.axm").code == 0
    from axtool.runtime.model import load

    first, second = (load(uneven / name).artefact.device_stages[0].plan.program for name in ("m.axm", "again.axm"))
    assert {n: a.tobytes() for n, a in first.constants.items()} == {n: a.tobytes() for n, a in second.constants.items()}


def test_layers_are_compared_in_rescaled_numbers(uneven: Path) -> None:
    words = ("--against", uneven / "m.onnx", "--data", "random:4", "--layers", "--json")
    layers = axtool("verify", uneven / "m.axm", *words).document["layers"]
    assert min(layer["single_sqnr_db"] for layer in layers) > 30


def test_any_number_of_processes_makes_the_same_file(uneven: Path) -> None:
    words = ("--calib", "random:16", "-j", "2", "-o", uneven / "j2.axm")
    assert axtool("compile", uneven / "m.onnx", *words).code == 0
    assert (uneven / "j2.axm").read_bytes() == (uneven / "m.axm").read_bytes()


def test_a_kept_calibration_makes_the_same_file(uneven: Path) -> None:
    for name in ("fresh", "kept"):
        words = ("--calib", "random:16", "--calib-cache", uneven / "c.axcal", "-o", uneven / f"{name}.axm")
        assert axtool("compile", uneven / "m.onnx", *words).code == 0
        assert (uneven / f"{name}.axm").read_bytes() == (uneven / "m.axm").read_bytes()


def test_an_emitted_model_has_the_rescaled_tensors(uneven: Path) -> None:
    words = ("--ranges", uneven / "r.json", "--emit", f"qdq={uneven / 'm.qdq.onnx'}", "-o", uneven / "q.axm")
    assert axtool("compile", uneven / "m.onnx", *words).code == 0
    x = np.random.default_rng(8).normal(0, 0.5, (1, 3, 9, 8)).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(uneven / "m.qdq.onnx", options, providers=["CPUExecutionProvider"])
    from axtool.runtime.model import CompiledModel, load

    model = CompiledModel(load(uneven / "q.axm").artefact)
    step = model.devices[0].program.tensors["y"].format.scale[0]
    file, device = session.run(None, {"x": x})[0], model.run({"x": x}).outputs["y"]
    assert np.abs(file - device).max() <= 3 * step
