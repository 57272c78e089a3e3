# ruff: noqa: E501 (a graph is one line)
"""Softmax and LayerNormalization on the device: which layers they become, and how near onnxruntime they stay."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.ops.limits import why_not
from axtool.plan.build import plan
from axtool.sim.images import run_plan
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.lower_case import Case, from_stored, quantized, run_whole, target, whole_values

NEAR = 0.6  # steps of the output between int8 and float, the rounding of the input's steps aside
NORM_DB, SOFTMAX_DB = 36.0, 30.0


def ops(program: Program) -> list[str]:
    return [layer.op for layer in program.layers]


@pytest.mark.parametrize(
    ("graph", "weights"),
    [
        (
            "(float[1,9,24] x) => (float[1,9,24] y) { y = LayerNormalization <axis = -1> (x, g, b) }",
            {"g": (24,), "b": (24,)},
        ),
        (
            "(float[1,9,24] x) => (float[1,9,24] y) { y = LayerNormalization <axis = 2, epsilon = 0.01> (x, g) }",
            {"g": (24,)},
        ),
        ("(float[1,3,5,40] x) => (float[1,3,5,40] y) { y = LayerNormalization (x, g, b) }", {"g": (40,), "b": (40,)}),
        ("(float[1,64] x) => (float[1,64] y) { y = LayerNormalization (x, g, b) }", {"g": (64,), "b": (64,)}),
    ],
)
def test_a_layer_norm_over_the_last_axis_is_one_layer(graph: str, weights: dict) -> None:
    case = Case(graph, spread=2.0, **weights)
    program = case.lowered()
    assert ops(program) == ["layer_norm"]
    assert case.errors(program)["y"][1] > NORM_DB


def test_a_layer_norm_of_the_channels_of_an_image_moves_nothing() -> None:
    graph = """(float[1,4,5,6] x) => (float[1,8,5,6] y) {
        t = Conv(x, w) p = Transpose <perm = [0,2,3,1]> (t) n = LayerNormalization (p, g, b)
        r = Transpose <perm = [0,3,1,2]> (n) y = Conv(r, v) }"""
    case = Case(graph, w=(8, 4, 1, 1), g=(8,), b=(8,), v=(8, 8, 1, 1))
    assert ops(case.lowered()) == ["conv", "layer_norm", "conv"]


def test_a_relu_behind_a_layer_norm_is_its_lower_bound() -> None:
    graph = "(float[1,9,24] x) => (float[1,9,24] y) { n = LayerNormalization (x, g, b) y = Relu(n) }"
    program = Case(graph, g=(24,), b=(24,)).lowered()
    assert ops(program) == ["layer_norm"]
    assert program.layers[0].attrs["lo"] == program.tensors["y"].format.zero_point[0]


@pytest.mark.parametrize(
    "graph",
    [
        "(float[1,9,24] x) => (float[1,9,24] y) { y = Softmax (x) }",
        "(float[1,9,24] x) => (float[1,9,24] y) { y = Softmax <axis = 1> (x) }",
        "(float[1,12,4,5] x) => (float[1,12,4,5] y) { y = Softmax <axis = 1> (x) }",
        "(float[1,3,7,33] x) => (float[1,3,7,33] y) { y = Softmax <axis = 3> (x) }",
        "(float[1,64] x) => (float[1,64] y) { y = Softmax (x) }",
    ],
)
def test_a_softmax_along_channels_is_one_layer(graph: str) -> None:
    case = Case(graph, spread=3.0)
    program = case.lowered()
    assert ops(program) == ["softmax"]
    assert case.errors(program)["y"][1] > SOFTMAX_DB


def test_an_old_softmax_over_several_axes_stays_on_the_host() -> None:
    graph = "(float[1,3,4,5] x) => (float[1,3,4,5] y) { y = Softmax <axis = 1> (x) }"
    (site,) = Case(graph, opset=11).sites
    assert [reason.seen for reason in why_not(site, target())] == ["the axis is 1 of (1, 3, 4, 5)"]


def test_an_old_softmax_over_one_long_axis_is_that_of_the_axis() -> None:
    case = Case("(float[1,30,1,1] x) => (float[1,30,1,1] y) { y = Softmax <axis = 1> (x) }", opset=11, spread=3.0)
    assert case.errors(case.lowered())["y"][1] > SOFTMAX_DB


@pytest.mark.parametrize(
    ("graph", "weights", "seen"),
    [
        ("(float[1,9,24] x, float[24] g) => (float[1,9,24] y) { y = LayerNormalization (x, g) }", {}, "known only at run time"),
        ("(float[1,9,24] x) => (float[1,9,24] y) { y = LayerNormalization <axis = 1> (x, g) }", {"g": (9, 24)}, "the axis is 1"),
        ("(float[1,9,24] x) => (float[1,9,24] y, float[1,9,1] m) { y, m = LayerNormalization (x, g) }", {"g": (24,)}, "'m' is asked for"),
        ("(float[1,3,4,24] x) => (float[1,3,4,24] y) { y = Softmax <axis = 2> (x) }", {}, "the axis is 2"),
    ],
)  # fmt: skip
def test_what_the_device_cannot_normalize_is_said(graph: str, weights: dict, seen: str) -> None:
    (site,) = Case(graph, **weights).sites
    assert any(seen in reason.seen for reason in why_not(site, target()))


def test_chips_without_32_bits_keep_row_ops_on_the_host() -> None:
    (site,) = Case("(float[1,9,24] x) => (float[1,9,24] y) { y = Softmax (x) }").sites
    assert any("32 bits" in reason.rule for reason in why_not(site, load_target("dpu-b4096")))


@pytest.mark.parametrize(
    "graph",
    [
        "(float[1,19,6,7] x) => (int64[1,6,7] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }",
        "(float[1,19,6,7] x) => (int64[1,1,6,7] y) { y = ArgMax <axis = 1> (x) }",
        "(float[1,6,7,19] x) => (int64[1,6,7] y) { y = ArgMax <axis = -1, keepdims = 0> (x) }",
        "(float[1,9,33] x) => (int64[1,9] y) { y = ArgMax <axis = 2, keepdims = 0, select_last_index = 1> (x) }",
        "(float[1,33,9] x) => (int64[1,9] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }",
        "(float[1,33] x) => (int64[1] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }",
    ],
)
def test_labels_are_those_of_the_quantized_scores(graph: str) -> None:
    case = Case(graph)
    program = case.lowered()
    (x,) = (values[None] for values in quantized(program, case.feeds).values())
    (site,) = case.sites
    scores = from_stored(x, program.tensors["x"])
    axis = site.attrs["axis"]
    flipped = np.flip(scores, axis) if site.attrs["select_last_index"] else scores
    want = flipped.argmax(axis)
    want = scores.shape[axis] - 1 - want if site.attrs["select_last_index"] else want
    for chip in ("qc-u-1d7-16mb", "qc-u-1d5-8mb"):
        made = run_plan(plan(program, load_target(chip)), {"x": x}, "native")["y"]
        labels = from_stored(made, program.tensors["y"])
        assert labels.shape == case.floats["y"].shape
        np.testing.assert_array_equal(labels, want.reshape(labels.shape))


def test_an_arg_max_of_whole_rows_of_16_bits_compares_all_of_them() -> None:
    case = Case("(float[1,19,6,7] x) => (int64[1,6,7] y) { y = ArgMax <axis = 1, keepdims = 0> (x) }")
    program = case.lowered(wide=["x"])
    assert program.layers[0].attrs["x_bytes"] == 2
    made = run_whole(program, case.feeds)["y"]
    assert np.mean(made == case.floats["y"]) == 1.0


SUM_DB = 35.0


@pytest.mark.parametrize(
    ("op", "graph"),
    [
        (
            "avg_pool",
            "(float[1,4,5,6] x) => (float[1,4] y) <int64[2] a = {2, 3}> { y = ReduceSum <keepdims = 0> (x, a) }",
        ),
        ("avg_pool", "(float[1,5,6,4] x) => (float[1,1,1,4] y) <int64[2] a = {1, 2}> { y = ReduceSum (x, a) }"),
        ("avg_pool", "(float[1,5,4] x) => (float[1,4] y) <int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }"),
        ("avg_pool", "(float[1,5,4] x) => (float[1,5,1] y) <int64[1] a = {-1}> { y = ReduceSum (x, a) }"),
        ("avg_pool", "(float[1,4,5,6] x) => (float[1,4,1,6] y) <int64[1] a = {2}> { y = ReduceSum (x, a) }"),
        ("avg_pool", "(float[1,4,5,6] x) => (float[1,4,5,1] y) <int64[1] a = {3}> { y = ReduceSum (x, a) }"),
        ("avg_pool", "(float[1,4,5,6] x) => (float[1,1,5,6] y) <int64[1] a = {1}> { y = ReduceSum (x, a) }"),
        (
            "max_pool",
            "(float[1,4,5,6] x) => (float[1,4] y) <int64[2] a = {2, 3}> { y = ReduceMax <keepdims = 0> (x, a) }",
        ),
        ("max_pool", "(float[1,4,5,6] x) => (float[1,1,5,6] y) <int64[1] a = {1}> { y = ReduceMax (x, a) }"),
        ("max_pool", "(float[1,9,7] x) => (float[1,9,1] y) <int64[1] a = {2}> { y = ReduceMax (x, a) }"),
    ],
)
def test_a_sum_or_maximum_along_axes_is_one_window(op: str, graph: str) -> None:
    case = Case(graph)
    program = case.lowered()
    assert [name for name in ops(program) if name != "transpose"] == [op]
    assert case.errors(program)["y"][1] > SUM_DB


@pytest.mark.parametrize(
    ("graph", "seen"),
    [
        (
            "(float[1,4,5,6] x) => (float[1,4,5] y) <int64[1] a = {3}> { y = ReduceSum <keepdims = 0> (x, a) }",
            "the axes are (3,)",
        ),
        ("(float[1,4,5,6] x) => (float[1,1,1,6] y) <int64[2] a = {1, 2}> { y = ReduceSum (x, a) }", ""),
        (
            "(float[1,4,5,6] x) => (float[1,1,5,1] y) <int64[2] a = {1, 3}> { y = ReduceMax (x, a) }",
            "the axes are (1, 3)",
        ),
    ],
)
def test_axes_that_no_window_covers_are_said(graph: str, seen: str) -> None:
    (site,) = Case(graph).sites
    reasons = [reason.seen for reason in why_not(site, target())]
    assert any(seen in reason for reason in reasons) if seen else not reasons


@pytest.mark.parametrize("name", ["qc-u-1d7-16mb", "qc-u-1d5-8mb"])
@pytest.mark.parametrize("channels", [7, 33, 800])
def test_a_planned_row_op_has_the_bits_of_the_whole_layer(name: str, channels: int) -> None:
    graph = f"""(float[1,70,{channels}] x) => (float[1,70,{channels}] y, float[1,70,{channels}] z) {{
        n = LayerNormalization (x, g, b) y = Relu(n) z = Softmax (n) }}"""
    case, chip = Case(graph, g=(channels,), b=(channels,)), load_target(name)
    _same_bits(case, chip)


def _same_bits(case: Case, chip: Target) -> None:
    program = case.lowered()
    want = whole_values(program, case.feeds)
    stored = quantized(program, case.feeds)
    made = run_plan(plan(program, chip), {name: values[None] for name, values in stored.items()}, "native")
    for out in program.outputs:
        np.testing.assert_array_equal(made[out][0], want[out])
