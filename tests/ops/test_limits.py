# ruff: noqa: E501 (a graph is one line)
"""Which nodes the device takes, and what it says of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.graph.sites import sites_of
from axtool.ops.costs import macs, params
from axtool.ops.limits import Reason, device_ops, manual, why_not
from axtool.ops.limits_movement import nearest_indices
from axtool.ops.limits_pool import windows_see_data
from axtool.target import Array, External, MemorySpec, Target
from axtool.types import Site

TARGET = Target(
    name="t",
    clock_hz=1e9,
    cores=1,
    array=Array(4, 4, 4, 16),
    memory=MemorySpec(1 << 20, 4096, 64.0),
    external=External(1e9, 1e9, 64, 100),
    channel_multiple=16,
    vector_unit=True,
    limits={"max_kernel": 15, "max_stride": 8, "max_dilation": 16},
)


def site(graph: str, opset: int = 18, **weights: tuple[int, ...]) -> Site:
    """The last node of an ONNX text graph; keyword arguments are shapes of float initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> g {graph}')
    for name, shape in weights.items():
        array = np.linspace(0.5, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return sites_of(ir.from_proto(onnx.shape_inference.infer_shapes(model, strict_mode=True)))[-1]


def seen(graph: str, opset: int = 18, **weights: tuple[int, ...]) -> str:
    return " | ".join(reason.seen or reason.rule for reason in why_not(site(graph, opset, **weights), TARGET))


ACCEPTED = {
    "a padded, strided, dilated, grouped convolution": (
        "(float[1,4,9,9] x) => (float[1,6,o,p] y) { y = Conv<strides=[2,1], dilations=[1,2], pads=[1,0,2,1], group=2>(x, w) }",
        {"w": (6, 2, 3, 3)},
    ),
    "a 1-D convolution": ("(float[1,4,9] x) => (float[1,6,7] y) { y = Conv(x, w, b) }", {"w": (6, 4, 3), "b": (6,)}),
    "a transposed convolution with output padding": (
        "(float[1,4,5,5] x) => (float[1,2,o,p] y) { y = ConvTranspose<strides=[2,2], output_padding=[1,1], pads=[1,1,1,1]>(x, w) }",
        {"w": (4, 2, 3, 3)},
    ),
    "a Gemm with a scalar C": ("(float[1,8] x) => (float[1,3] y) { y = Gemm<transB=1>(x, w, c) }", {"w": (3, 8), "c": (1,)}),
    "a MatMul of tokens": ("(float[1,7,8] x) => (float[1,7,3] y) { y = MatMul(x, w) }", {"w": (8, 3)}),
    "an addition of two activations that broadcasts": (
        "(float[1,4,3,3] x, float[1,4,1,1] z) => (float[1,4,3,3] y) { y = Add(x, z) }",
        {},
    ),
    "a division by a constant": ("(float[1,4,3,3] x) => (float[1,4,3,3] y) { y = Div(x, w) }", {"w": (4, 1, 1)}),
    "a ceil-mode average that does not count pads": (
        "(float[1,4,7,7] x) => (float[1,4,o,p] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(x) }",
        {},
    ),
    "a pool as large as the image": (
        "(float[1,1,40,40] x) => (float[1,1,1,1] y) { y = MaxPool<kernel_shape=[40,40]>(x) }", {},
    ),
    "a mean over space": (
        "(float[1,4,7,7] x) => (float[1,4] y) <int64[2] a = {-1, -2}> { y = ReduceMean<keepdims=0>(x, a) }",
        {},
    ),
    "a mean over space, channels last": (
        "(float[1,7,7,4] x) => (float[1,4] y) <int64[2] a = {1, 2}> { y = ReduceMean<keepdims=0>(x, a) }",
        {},
    ),
    "asymmetric floor nearest": (
        '(float[1,4,7,7] x) => (float[1,4,14,21] y) <float[4] s = {1.0,1.0,2.0,3.0}> '
        '{ y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }',
        {},
    ),
    "half-pixel linear": (
        '(float[1,4,7,7] x) => (float[1,4,14,14] y) <float[4] s = {1.0,1.0,2.0,2.0}> { y = Resize<mode="linear">(x, , s) }',
        {},
    ),
    "a crop by negative pads": (
        "(float[1,4,7,7] x) => (float[1,4,5,8] y) <int64[8] p = {0,0,-1,1,0,0,-1,0}> { y = Pad(x, p) }",
        {},
    ),
    "a reversed slice": (
        "(float[1,4,7,7] x) => (float[1,4,7,7] y) <int64[1] s = {-1}, int64[1] e = {-100}, int64[1] a = {3}> "
        "{ y = Slice(x, s, e, a, s) }",
        {},
    ),
    "a slope for each channel": ("(float[1,4,7,7] x) => (float[1,4,7,7] y) { y = PRelu(x, w) }", {"w": (4, 1, 1)}),
    "a sigmoid": ("(float[1,4,7,7] x) => (float[1,4,7,7] y) { y = Sigmoid(x) }", {}),
    "a sum of one": ("(float[1,4,7,7] x) => (float[1,4,7,7] y) { y = Sum(x) }", {}),
    "a concat with an empty input": (
        "(float[1,4,3,3] x, float[1,0,3,3] z) => (float[1,4,3,3] y) { y = Concat<axis=1>(x, z) }",
        {},
    ),
}  # fmt: skip

REFUSED = {
    "a hardmax": ("(float[1,4] x) => (float[1,4] y) { y = Hardmax(x) }", {}, "no device kernel for Hardmax"),
    "weights of the run time": (
        "(float[1,4,7,7] x, float[2,4,1,1] w) => (float[1,2,7,7] y) { y = Conv(x, w) }", {}, "'w' is known only at run time",
    ),
    "a large kernel": (
        "(float[1,1,40,40] x) => (float[1,1,10,10] y) { y = Conv(x, w) }", {"w": (1, 1, 31, 31)}, "the kernel is (31, 31)",
    ),
    "a large pool": (
        "(float[1,1,40,40] x) => (float[1,1,10,10] y) { y = MaxPool<kernel_shape=[31,31]>(x) }", {}, "the window is (31, 31)",
    ),
    "a batch": ("(float[2,4] x) => (float[2,4] y) { y = Relu(x) }", {}, "'x' has the shape (2, 4)"),
    "a batch behind a Gemm of a batch": (
        "(float[2,4] x) => (float[2,3] y) { t = Abs(x) y = Gemm(t, w) }", {"w": (4, 3)}, "'t' has the shape (2, 4)",
    ),
    "five dimensions": ("(float[1,1,1,1,4] x) => (float[1,1,1,1,4] y) { y = Relu(x) }", {}, "'x' has 5 dimensions"),
    "integers": ("(int64[1,4] x) => (int64[1,4] y) { y = Add(x, x) }", {}, "'x' is int64"),
    "a dynamic shape": ("(float[1,4,h,7] x) => (float[1,4,h,7] y) { y = Relu(x) }", {}, "the shape of 'x' is unknown"),
    "an empty tensor": ("(float[1,0,7,7] x) => (float[1,0,7,7] y) { y = Relu(x) }", {}, "'x' has the shape (1, 0, 7, 7)"),
    "an axis that is too long": ("(float[4194304] x) => (float[4194304] y) { y = Relu(x) }", {}, "'x' has the shape (4194304,)"),
    "a C for each row": ("(float[1,8] x) => (float[1,3] y) { y = Gemm(x, w, c) }", {"w": (8, 3), "c": (3, 1)}, "C has the shape"),
    "a division by data": (
        "(float[1,4] x, float[1,4] z) => (float[1,4] y) { y = Div(x, z) }", {}, "the divisor 'z' is known only at run time",
    ),
    "a mean over channels": (
        "(float[1,4,7,7] x) => (float[1,1,7,7] y) <int64[1] a = {1}> { y = ReduceMean(x, a) }", {}, "over the axes (1,)",
    ),
    "a nearest resize that does not repeat": (
        '(float[1,4,7,7] x) => (float[1,4,21,21] y) <float[4] s = {1.0,1.0,3.0,3.0}> '
        '{ y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric">(x, , s) }',
        {}, "asymmetric with round_prefer_floor at a factor of 3",
    ),
    "a linear resize with aligned corners": (
        '(float[1,4,7,7] x) => (float[1,4,14,14] y) <float[4] s = {1.0,1.0,2.0,2.0}> '
        '{ y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , s) }',
        {}, "they are align_corners",
    ),
    "a fractional resize": (
        '(float[1,4,8,8] x) => (float[1,4,12,12] y) <float[4] s = {1.0,1.0,1.5,1.5}> { y = Resize<mode="linear">(x, , s) }',
        {}, "it makes (1, 4, 12, 12) of (1, 4, 8, 8)",
    ),
    "indices of maxima": (
        "(float[1,4,8,8] x) => (float[1,4,4,4] y, int64[1,4,4,4] i) { y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }",
        {}, "'i' is int64",
    ),
    "a slope for each pixel": ("(float[1,4,7,7] x) => (float[1,4,7,7] y) { y = PRelu(x, w) }", {"w": (1, 7, 7)}, "the slope has"),
    "weights on the left": ("(float[1,8,7] x) => (float[1,3,7] y) { y = MatMul(w, x) }", {"w": (3, 8)}, "first input, 'w'"),
    "a wrapping pad": (
        '(float[1,4,7,7] x) => (float[1,4,7,8] y) <int64[8] p = {0,0,0,1,0,0,0,0}> { y = Pad<mode="wrap">(x, p) }',
        {}, "the mode is wrap", 19,
    ),
    "bounds of the run time": (
        "(float[1,4] x, float m) => (float[1,4] y) { y = Clip(x, m) }", {}, "'min' is not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_device_takes(name: str) -> None:
    graph, weights = ACCEPTED[name]
    assert seen(graph, **weights) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_the_device_refuses_and_says_what_it_saw(name: str) -> None:
    graph, weights, message, *opset = REFUSED[name]
    assert message in seen(graph, *opset, **weights)


def test_an_op_of_another_domain_has_no_kernel() -> None:
    (reason,) = why_not(Site("Relu", "n", 0, ("x",), ("y",), domain="com.acme"), TARGET)
    assert "com.acme::Relu" in reason.rule


def test_a_rule_shows_the_numbers_of_the_target() -> None:
    rules = {row.op: row.rules for row in manual(TARGET)}
    assert "Kernels are at most 15 on each axis." in rules["Conv"]


def test_a_rule_without_a_number_on_this_target_still_reads() -> None:
    bare = Target("t", 1e9, 1, TARGET.array, TARGET.memory, TARGET.external, 16, vector_unit=True)
    rules = {row.op: row.rules for row in manual(bare)}
    assert "Kernels are at most any number on each axis." in rules["Conv"]


def test_every_limit_has_advice() -> None:
    assert [
        (row.op, rule)
        for row in manual(TARGET)
        for rule, advice in zip(row.rules, row.advice, strict=True)
        if not advice
    ] == []


def test_every_op_of_the_issue_has_a_kernel() -> None:
    wanted = """Conv ConvTranspose Gemm MatMul Add Sub Mul Div Concat Split Slice Pad MaxPool AveragePool GlobalAveragePool
    GlobalMaxPool ReduceMean Resize Upsample Reshape Transpose Flatten Squeeze Unsqueeze DepthToSpace SpaceToDepth Relu Clip
    LeakyRelu PRelu Sigmoid Silu HardSwish HardSigmoid Tanh Gelu Elu Softplus Mish Exp Identity Dropout Sum Max Mean"""
    assert set(wanted.split()) - set(device_ops()) == set()


def test_a_reason_reads_as_sentences() -> None:
    assert str(Reason("Strides are at most 2.", "strides are (3, 3)", "Slice.")) == (
        "Strides are at most 2. Here strides are (3, 3). Slice."
    )


def test_half_pixel_nearest_repeats_pixels_at_any_factor() -> None:
    assert nearest_indices(3, 3, "half_pixel", "round_prefer_floor").tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("rule", [("asymmetric", "odd"), ("odd", "floor")])
def test_an_unknown_nearest_rule_repeats_nothing(rule: tuple[str, str]) -> None:
    assert nearest_indices(3, 3, *rule).size == 0


def test_a_nearest_axis_that_float32_cannot_count_stays_on_the_host() -> None:
    attrs = {"mode": "nearest", "coordinate": "asymmetric", "nearest": "floor", "scales": (1.0, 1.0, 1.0, 2.0**22)}
    shapes = {"x": (1, 1, 1, 8), "y": (1, 1, 1, 2**25)}
    huge = Site("Resize", "r", 0, ("x",), ("y",), attrs, shapes, {"x": "float32", "y": "float32"}, {}, "")
    assert any("2^22" in reason.rule for reason in why_not(huge, TARGET))


def test_macs_of_a_grouped_convolution_count_its_own_channels() -> None:
    graph = "(float[1,4,9,9] x) => (float[1,6,7,7] y) { y = Conv<group=2>(x, w) }"
    assert macs(site(graph, w=(6, 2, 3, 3))) == 7 * 7 * 6 * 2 * 9


def test_macs_of_a_transposed_convolution_count_input_pixels() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,2,o,p] y) { y = ConvTranspose<strides=[2,2]>(x, w) }"
    assert macs(site(graph, w=(4, 2, 3, 3))) == 25 * 4 * 2 * 9


def test_macs_of_tokens_multiply_by_their_number() -> None:
    assert macs(site("(float[1,7,8] x) => (float[1,7,3] y) { y = MatMul(x, w) }", w=(8, 3))) == 7 * 8 * 3


def test_macs_of_everything_else_are_none() -> None:
    assert macs(site("(float[1,4] x) => (float[1,4] y) { y = Relu(x) }")) == 0


def test_params_count_float_constants() -> None:
    assert params(site("(float[1,8] x) => (float[1,3] y) { y = Gemm(x, w, c) }", w=(8, 3), c=(3,))) == 27


@given(
    st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 12), st.integers(1, 9)
)
def test_a_pool_window_of_padding_alone_is_found_wherever_it_is(have, k, s, d, pad, made):
    shapes = {"x": (1, 1, have, 1), "y": (1, 1, made, 1)}
    attrs = {"kernel": (k, 1), "strides": (s, 1), "dilations": (d, 1), "pads": (pad, 0, 0, 0)}
    site = Site("MaxPool", "pool", 0, ("x",), ("y",), attrs, shapes, {}, {})
    all_meet = all(any(0 <= o * s - pad + tap * d < have for tap in range(k)) for o in range(made))
    assert (windows_see_data(site, TARGET) is None) == all_meet


def test_a_pool_over_a_long_axis_is_judged_at_once():
    shapes = {"x": (1, 1, 1, 2**40), "y": (1, 1, 1, 2**39)}
    attrs = {"kernel": (1, 2), "strides": (1, 2), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
    assert windows_see_data(Site("MaxPool", "pool", 0, ("x",), ("y",), attrs, shapes, {}, {}), TARGET) is None


POOL_3X3 = "(float[1,4,9,9] x) => (float[1,4,o,p] y) { y = MaxPool<kernel_shape=[3,3], strides=[3,3]>(x) }"


@pytest.mark.parametrize("limit", [{"max_pool_kernel": 2}, {"max_pool_stride": 2}])
def test_a_target_may_limit_pools_more_than_convolutions(limit):
    chip = replace(TARGET, limits={**TARGET.limits, **limit})
    (number,) = limit.values()
    (reason,) = why_not(site(POOL_3X3), chip)
    assert f"at most {number}" in reason.rule
    convolution = site("(float[1,4,9,9] x) => (float[1,6,3,3] y) { y = Conv<strides=[3,3]>(x, w) }", w=(6, 4, 3, 3))
    assert why_not(convolution, chip) == ()


@pytest.mark.parametrize("limit", [{"max_kernel": 2}, {"max_stride": 2}])
def test_pools_without_limits_of_their_own_have_those_of_convolutions(limit):
    (reason,) = why_not(site(POOL_3X3), replace(TARGET, limits=limit))
    assert reason.rule.endswith(("at most 2 on each axis, or as large as the axis.", "at most 2."))
