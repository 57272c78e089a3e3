# ruff: noqa: E501 (a graph is one line)
"""What a lowering makes: which layers, which names, which layouts."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.plan.lower_mac_layer import Filters, fit_accumulator
from axtool.sim.images import run_plan
from axtool.target_file import load_target
from axtool.types import Program, QFormat
from tests.ops.unpacking import unpack_params
from tests.plan.lower_case import Case, quantized, run_whole, target, whole_values


def ops(program: Program) -> list[str]:
    return [layer.op for layer in program.layers]


def test_a_relu_behind_a_conv_is_its_lower_bound() -> None:
    program = Case("(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) y = Relu(t) }", w=(6, 4, 1, 1)).lowered()
    (layer,) = program.layers
    assert (layer.op, layer.outputs, layer.attrs["act"]) == ("conv", ("y",), 0)
    assert layer.attrs["lo"] == program.tensors["y"].format.zero_point[0]


def test_a_fused_layer_names_both_of_its_nodes() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,6,5,5] y) { [c] t = Conv(x, w) [r] y = Relu(t) }"
    (layer,) = Case(graph, w=(6, 4, 1, 1)).lowered().layers
    assert layer.origin == ("c", "r")
    assert layer.name == "c"


def test_a_clip_behind_an_addition_is_its_bounds() -> None:
    graph = "(float[1,4,5,5] x, float[1,4,5,5] z) => (float[1,4,5,5] y) <float lo = {-0.5}, float hi = {0.5}> { t = Add(x, z) y = Clip(t, lo, hi) }"
    program = Case(graph).lowered()
    fmt = program.tensors["y"].format
    bounds = [round(v / fmt.scale[0]) + fmt.zero_point[0] for v in (-0.5, 0.5)]
    assert ops(program) == ["add"]
    assert [program.layers[0].attrs[name] for name in ("lo", "hi")] == bounds


def test_a_value_that_others_read_is_not_fused_away() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) r = Relu(t) y = Add(t, r) }"
    assert ops(Case(graph, w=(6, 4, 1, 1)).lowered()) == ["conv", "lut", "add"]


def test_a_stage_output_is_not_fused_away() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,6,5,5] t, float[1,6,5,5] y) { t = Conv(x, w) y = Relu(t) }"
    assert ops(Case(graph, w=(6, 4, 1, 1)).lowered()) == ["conv", "lut"]


def test_a_function_behind_a_conv_is_interpolated_on_a_vector_unit() -> None:
    case = Case("(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) y = Sigmoid(t) }", w=(6, 4, 1, 1))
    program = case.lowered(vector_unit=True)
    assert ops(program) == ["conv"]
    assert program.layers[0].attrs["act"] == 1
    assert program.constants[program.layers[0].inputs[3]].shape == (1025,)


def test_a_function_behind_a_conv_is_a_table_without_a_vector_unit() -> None:
    case = Case("(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) y = Sigmoid(t) }", w=(6, 4, 1, 1))
    assert ops(case.lowered(vector_unit=False)) == ["conv", "lut"]


AFFINE = "(float[1,4,5,5] x) => (float[1,6,5,5] y) <float s = {0.4}, float o = {-0.3}> { t = Conv(x, w) h = Sigmoid(t) m = Mul(s, h) y = Sub(m, o) }"


def test_one_scale_and_one_offset_behind_an_activation_are_in_its_table() -> None:
    (layer,) = Case(AFFINE, w=(6, 4, 1, 1)).lowered().layers
    assert (layer.op, layer.outputs, len(layer.origin)) == ("conv", ("y",), 4)


def test_one_scale_behind_a_table_of_its_own_is_in_it() -> None:
    assert ops(Case(AFFINE, w=(6, 4, 1, 1)).lowered(vector_unit=False)) == ["conv", "lut"]


def test_a_table_with_a_scale_and_an_offset_is_as_good_as_one_without() -> None:
    case = Case(AFFINE, w=(6, 4, 1, 1))
    assert case.errors(case.lowered())["y"][0] < 3.5


@pytest.mark.parametrize(
    "tail",
    [
        "m = Mul(h, s) y = Add(m, h)",  # the activation is read twice
        "m = Mul(h, c) y = Add(m, h)",
    ],
)
def test_an_activation_that_others_read_keeps_its_own_table(tail: str) -> None:
    graph = f"(float[1,4,5,5] x) => (float[1,6,5,5] y) <float s = {{0.4}}> {{ t = Conv(x, w) h = Sigmoid(t) {tail} }}"
    case = Case(graph, w=(6, 4, 1, 1), c=(6, 1, 1))
    assert case.lowered().layers[0].outputs == ("h",)


def test_a_scale_for_each_channel_behind_an_activation_is_a_layer_of_its_own() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) h = Sigmoid(t) y = Mul(h, c) }"
    assert ops(Case(graph, w=(6, 4, 1, 1), c=(6, 1, 1)).lowered()) == ["conv", "depthwise"]


def test_the_argument_of_an_interpolated_table_spans_the_calibrated_range() -> None:
    case = Case("(float[1,4,5,5] x) => (float[1,6,5,5] y) { t = Conv(x, w) y = Sigmoid(t) }", w=(6, 4, 1, 1))
    numbers = replace(case.quantization(), ranges={"t": (-2.0, 32.767)})
    program = lower(case.sites, numbers, target(), case.inputs, case.outputs)
    params = unpack_params(program.constants[program.layers[0].inputs[2]], 6)
    scales = numbers.formats["x"].scale[0] * numbers.weights["t"].scale.astype(np.float64) / 0.001
    np.testing.assert_allclose(params[1] / 2.0 ** params[2], scales, rtol=1e-7)


def test_a_flatten_before_a_gemm_moves_nothing() -> None:
    graph = "(float[1,4,6,10] x) => (float[1,7] y) { p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) t = Flatten(p) y = Gemm(t, w) }"
    program = Case(graph, w=(60, 7)).lowered()
    assert ops(program) == ["max_pool", "conv"]
    assert program.layers[1].inputs[0] == "p"
    assert program.layers[1].attrs["kernel"] == (3, 5)


def test_a_flatten_larger_than_the_largest_kernel_reshapes_without_a_transpose() -> None:
    case = Case("(float[1,4,3,5] x) => (float[1,7] y) { t = Flatten(x) y = Gemm(t, w) }", w=(60, 7))
    program = lower(case.sites, case.quantization(), target(limits={"max_kernel": 3}), case.inputs, case.outputs)
    assert ops(program) == ["reshape", "conv"]
    ((_, sqnr),) = case.errors(program).values()
    assert sqnr > 28


def test_a_flatten_that_someone_else_reads_is_made() -> None:
    graph = "(float[1,4,3,5] x) => (float[1,7] y, float[1,60] t) { t = Flatten(x) y = Gemm(t, w) }"
    assert "t" in {layer.outputs[0] for layer in Case(graph, w=(60, 7)).lowered().layers}


def test_a_network_with_channels_last_at_its_ends_moves_nothing() -> None:
    graph = "(float[1,5,6,4] x) => (float[1,5,6,7] y) { t = Transpose<perm=[0,3,1,2]>(x) a = Relu(t) c = Conv(a, w) y = Transpose<perm=[0,2,3,1]>(c) }"
    program = Case(graph, w=(7, 4, 1, 1)).lowered()
    assert ops(program) == ["lut", "conv"]
    assert program.tensors["x"].layout == program.tensors["y"].layout == "channel_last"
    assert program.tensors["y"].onnx_shape == (1, 5, 6, 7)


def test_an_image_read_as_tokens_costs_one_reshape() -> None:
    graph = "(float[1,4,3,5] x) => (float[1,15,7] y) <int64[3] s = {1,6,-1}> { c = Conv(x, v) r = Reshape(c, s) t = Transpose<perm=[0,2,1]>(r) y = MatMul(t, w) }"
    assert ops(Case(graph, v=(6, 4, 1, 1), w=(6, 7)).lowered()) == ["conv", "reshape", "conv"]


def test_a_squeeze_of_a_pooled_image_costs_nothing() -> None:
    graph = "(float[1,4,3,5] x) => (float[1,7] y) <int64[2] a = {2,3}> { p = GlobalAveragePool(x) q = Squeeze(p, a) y = MatMul(q, w) }"
    assert ops(Case(graph, w=(4, 7)).lowered()) == ["avg_pool", "conv"]


def test_identities_leave_no_layer() -> None:
    graph = "(float[1,4,3,5] x) => (float[1,4,3,5] y) { a = Identity(x) b = Relu(a) c = Dropout(b) d = Sum(c) y = Sigmoid(d) }"
    assert ops(Case(graph).lowered()) == ["lut"]


def test_an_input_that_nobody_needs_stays_an_input() -> None:
    graph = "(float[1,4,3,5] x, float[1,4,3,5] z) => (float[1,4,3,5] y) { u = Identity(z) y = Relu(x) }"
    assert Case(graph).lowered().inputs == ("x", "z")


def test_an_output_that_is_also_another_output_is_copied() -> None:
    graph = "(float[1,4,3,5] x) => (float[1,4,3,5] y, float[1,4,3,5] z) { y = Relu(x) z = Identity(y) }"
    program = Case(graph).lowered()
    assert ops(program) == ["lut", "reshape"]
    assert program.outputs == ("y", "z")


def test_a_move_between_two_formats_ends_in_a_requantize() -> None:
    case = Case("(float[1,4,6,6] x) => (float[1,4,3,3] y) { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }")
    numbers = case.quantization()
    wide = replace(numbers, formats={**numbers.formats, "y": QFormat("int8", (0.1,), (3,))})
    program = lower(case.sites, wide, target(), case.inputs, case.outputs)
    assert ops(program) == ["max_pool", "requantize"]


def test_a_concat_copies_what_has_its_format_and_rescales_the_rest() -> None:
    case = Case("(float[1,4,6,6] x, float[1,4,6,6] z) => (float[1,8,6,6] y) { y = Concat<axis=1>(x, z) }")
    numbers = case.quantization()
    same = replace(numbers, formats={**numbers.formats, "y": numbers.formats["x"]})
    parts = lower(case.sites, same, target(), case.inputs, case.outputs).layers[0].attrs["parts"]
    assert parts[2] == 0
    assert parts[6] > 0


def test_a_split_behind_a_conv_is_a_conv_for_each_part() -> None:
    graph = "(float[1,4,6,6] x) => (float[1,32,6,6] y) <int64[2] s = {16,32}> { c = Conv(x, w) a = Sigmoid(c) p, q = Split<axis=1>(a, s) r = Relu(p) t = Concat<axis=1>(r, r) y = Add(q, t) }"
    case = Case(graph, w=(48, 4, 1, 1))
    program = case.lowered()
    assert ops(program) == ["conv", "conv", "lut", "concat", "add"]
    assert [layer.outputs for layer in program.layers[:2]] == [("p",), ("q",)]
    ((_, sqnr),) = case.errors(program).values()
    assert sqnr > 28


def test_a_split_into_parts_that_are_no_whole_blocks_stays() -> None:
    graph = "(float[1,4,6,6] x) => (float[1,8,6,6] p, float[1,24,6,6] q) <int64[2] s = {8,24}> { c = Conv(x, w) p, q = Split<axis=1>(c, s) }"
    assert ops(Case(graph, w=(32, 4, 1, 1)).lowered()) == ["conv", "slice", "slice"]


def test_outputs_of_a_split_that_nobody_reads_are_not_made() -> None:
    graph = "(float[1,6,3,5] x) => (float[1,2,3,5] y) <int64[3] s = {2,2,2}> { y, z, u = Split<axis=1>(x, s) }"
    assert ops(Case(graph).lowered()) == ["slice"]


def test_a_grouped_conv_with_one_input_channel_each_is_depthwise() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,8,3,3] y) { y = Conv<group=4>(x, w) }"
    assert ops(Case(graph, w=(8, 1, 3, 3)).lowered()) == ["depthwise"]


def test_a_constant_for_each_channel_is_a_depthwise_layer() -> None:
    assert ops(Case("(float[1,4,5,5] x) => (float[1,4,5,5] y) { y = Mul(x, w) }", w=(4, 1, 1)).lowered()) == [
        "depthwise"
    ]


def test_a_constant_image_is_an_int8_tensor_of_its_own() -> None:
    program = Case("(float[1,4,5,6] x) => (float[1,4,5,6] y) { y = Mul(x, w) }", w=(1, 1, 5, 6)).lowered()
    (layer,) = program.layers
    assert layer.op == "mul"
    assert program.tensors[layer.inputs[1]].shape == program.constants[layer.inputs[1]].shape == (1, 5, 6, 1)


def test_a_bias_added_to_tokens_costs_no_layer() -> None:
    graph = "(float[1,6,4] x) => (float[1,6,7] y) { [m] t = MatMul(x, w) [a] u = Add(b, t) [s] y = Sigmoid(u) }"
    case = Case(graph, w=(4, 7), b=(7,))
    (layer,) = (program := case.lowered()).layers
    assert layer.origin == ("m", "a", "s")
    ((steps, _),) = case.errors(program).values()
    assert steps < 2


def test_average_pool_has_one_constant_for_each_count() -> None:
    graph = "(float[1,2,6,6] x) => (float[1,2,3,3] y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,0,0]>(x) }"
    program = Case(graph).lowered()
    assert program.constants[program.layers[0].inputs[1]][:, 0].tolist() == [4, 6, 9]


def test_a_bias_beyond_int32_makes_the_weights_coarser(caplog: pytest.LogCaptureFixture) -> None:
    fmt = QFormat("int8", (0.01,), (-128,))
    filters = Filters(np.full((2, 3, 1, 1), 100, np.int8), np.array([1e-9, 1e-3]), np.array([0.1, 0.1]))
    with caplog.at_level(logging.WARNING, "axtool"):
        fitted, bias = fit_accumulator(filters, fmt, "Conv 'c' (node 3)")
    assert np.abs(bias).max() < 2**31
    assert fitted.scale[0] > 1e-9
    assert fitted.scale[1] == 1e-3
    assert "Conv 'c' (node 3)" in caplog.text


def test_a_sum_beyond_int32_makes_the_weights_coarser() -> None:
    fmt = QFormat("int8", (0.01,), (-128,))
    filters = Filters(np.full((1, 70_000, 1, 1), 127, np.int8), np.array([0.5]), np.zeros(1))
    fitted, _ = fit_accumulator(filters, fmt, "n")
    assert fitted.values.astype(np.int64).sum() * 255 <= 2**31 - 1
    np.testing.assert_allclose(fitted.values * fitted.scale[0], 63.5, atol=fitted.scale[0])


def test_numbers_that_fit_stay_as_they_are() -> None:
    fmt = QFormat("int8", (0.01,), (0,))
    filters = Filters(np.full((1, 4, 1, 1), 127, np.int8), np.array([0.5]), np.ones(1))
    fitted, bias = fit_accumulator(filters, fmt, "n")
    np.testing.assert_array_equal(fitted.values, filters.values)
    assert bias.tolist() == [200]


def test_a_format_that_is_missing_is_named() -> None:
    case = Case("(float[1,4] x) => (float[1,4] y) { y = Sigmoid(x) }")
    numbers = replace(case.quantization(), formats={"x": QFormat("int8", (0.1,))})
    with pytest.raises(ValueError, match="tensor 'y' has no format"):
        lower(case.sites, numbers, target(), case.inputs, case.outputs)


def test_a_planned_program_gives_the_same_bits_as_its_layers_one_by_one() -> None:
    graph = """(float[1,3,16,16] x) => (float[1,10] y, float[1,8,8,8] f) {
      a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w0) b = HardSwish(a) c = Conv<pads=[1,1,1,1], group=8>(b, w1)
      e = Mul(c, k) f = Add(b, e) g = MaxPool<kernel_shape=[2,2], strides=[2,2]>(f) h = Flatten(g) y = Gemm<transB=1>(h, w3) }"""
    case = Case(graph, w0=(8, 3, 3, 3), w1=(8, 1, 3, 3), k=(1, 8, 8, 8), w3=(10, 128))
    program = case.lowered()
    assert Counter(ops(program)) == {"conv": 2, "depthwise": 1, "mul": 1, "add": 1, "max_pool": 1}
    inputs = {name: values[None] for name, values in quantized(program, case.feeds).items()}
    made = run_plan(plan(program, load_target("qc-u-1d5-8mb")), inputs)
    whole = whole_values(program, case.feeds)
    for name in program.outputs:
        np.testing.assert_array_equal(made[name][0], whole[name])
    assert set(run_whole(program, case.feeds)) == {"y", "f"}


def test_a_scaled_and_shifted_activation_behind_a_conv_is_one_layer() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,6,5,5] y) { c = Conv(x, w) h = HardSwish(c) m = Mul(s, h) y = Add(m, t) }"
    case = Case(graph, w=(6, 4, 1, 1), s=1.7, t=-0.4)
    assert ops(case.lowered()) == ["conv"]
    assert case.errors(case.lowered())["y"][1] > 35


def test_functions_that_follow_each_other_are_one_table() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,4,5,5] y) { a = Mul(x, s) b = Tanh(a) c = Sub(t, b) y = Div(c, s) }"
    case = Case(graph, s=1.7, t=0.4)
    assert ops(case.lowered()) == ["lut"]
    assert case.errors(case.lowered())["y"][1] > 35


def test_a_function_of_which_someone_reads_a_part_is_two_tables() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,4,5,5] y, float[1,4,5,5] a) { a = Tanh(x) y = Exp(a) }"
    assert ops(Case(graph).lowered()) == ["lut", "lut"]


def test_a_number_divided_by_the_data_is_not_part_of_a_table() -> None:
    graph = "(float[1,4,5,5] x) => (float[1,4,5,5] y) { a = Sigmoid(x) y = Mul(a, w) }"
    assert ops(Case(graph, w=(4, 1, 1)).lowered()) == ["lut", "depthwise"]


def test_what_a_quantized_model_rounds_between_two_functions_is_rounded() -> None:
    case = Case("(float[1,4,5,5] x) => (float[1,4,5,5] y) { a = Tanh(x) y = Exp(a) }")
    numbers = replace(case.quantization(), given=frozenset({"a"}))
    assert [layer.op for layer in lower(case.sites, numbers, target(), ("x",), ("y",)).layers] == ["lut", "lut"]


def test_gemms_on_rows_of_tokens_are_the_layers_of_products_on_tokens() -> None:
    sizes = {"w1": (8, 12), "b1": (12,), "w2": (12, 8), "b2": (8,)}
    rows = Case(
        "(float[1,5,8] x) => (float[1,5,8] y) <int64[2] rows = {5, 8}, int64[3] tokens = {1, 5, 8}> { r = Reshape(x, rows) g = Gemm(r, w1, b1) a = Relu(g) h = Gemm(a, w2, b2) t = Reshape(h, tokens) y = Add(x, t) }",
        **sizes,
    )
    tokens = Case(
        "(float[1,5,8] x) => (float[1,5,8] y) { f = MatMul(x, w1) g = Add(f, b1) a = Relu(g) e = MatMul(a, w2) h = Add(e, b2) y = Add(x, h) }",
        **sizes,
    )
    assert ops(rows.lowered()) == ops(tokens.lowered()) == ["conv", "conv", "add"]
    np.testing.assert_array_equal(
        run_whole(rows.lowered(), rows.feeds)["y"], run_whole(tokens.lowered(), tokens.feeds)["y"]
    )
