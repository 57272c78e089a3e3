import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.errors import UsageError
from axtool.quant.formats import DEAD_SCALE, int8_format, quantize_stage, resolve, span_of
from axtool.quant.ties import observed_names
from axtool.types import QFormat, Site

BOUND = st.floats(-(2.0**100), 2.0**100, width=32)


def site(op, inputs, output, constants=None, **attrs):
    return Site(op, f"{op}_{output}", 0, tuple(inputs), (output,), attrs, {}, {}, constants or {})


def formats(sites, ranges, inputs=("x",), outputs=("y",), given=None):
    return {d.tensor: d.format for d in resolve(sites, ranges, None, inputs, outputs, given)}


def why(sites, ranges, tensor, given=None):
    return next(d.why for d in resolve(sites, ranges, None, ("x",), ("y",), given) if d.tensor == tensor)


@given(BOUND, BOUND)
def test_zero_is_represented_exactly(a, b):
    fmt = int8_format(min(a, b), max(a, b))
    assert -128 <= fmt.zero_point[0] <= 127


@given(BOUND, BOUND)
def test_scales_are_float32_numbers_with_a_finite_inverse(a, b):
    scale = np.float32(int8_format(min(a, b), max(a, b)).scale[0])
    assert float(scale) == int8_format(min(a, b), max(a, b)).scale[0]
    assert np.isfinite(np.float32(1) / scale)


@given(BOUND, BOUND, st.floats(0, 1))
def test_quantizing_inside_the_range_is_within_half_a_step(a, b, place):
    low, high = min(a, b, 0), max(a, b, 0)
    fmt = int8_format(low, high)
    scale, zero = fmt.scale[0], fmt.zero_point[0]
    value = low + (high - low) * place
    q = np.clip(np.rint(value / scale + zero), -128, 127)
    assert abs((q - zero) * scale - value) <= scale * 0.5001


def test_a_range_from_zero_has_zero_point_minus_128_and_one_to_zero_127():
    assert int8_format(0, 3).zero_point == (-128,)
    assert int8_format(-3, 0).zero_point == (127,)


def test_a_dead_tensor_has_a_scale_that_keeps_biases_fine():
    assert int8_format(0, 0) == QFormat("int8", (DEAD_SCALE,), (-128,))


def test_a_constant_tensor_is_represented_exactly_enough():
    fmt = int8_format(5, 5)
    assert (127 - fmt.zero_point[0]) * fmt.scale[0] == pytest.approx(5, rel=1e-6)


def test_a_move_has_the_format_of_its_input():
    sites = [site("MaxPool", ["x"], "p"), site("Transpose", ["p"], "t"), site("Slice", ["t"], "y")]
    found = formats(sites, {"x": (-1, 3)})
    assert found["x"] == found["p"] == found["t"] == found["y"] == int8_format(-1, 3)


def test_a_nearest_resize_moves_and_a_linear_one_computes():
    assert observed_names([site("Resize", ["x"], "y", mode="nearest")], ("x",), ("y",)) == ("x",)
    assert observed_names([site("Resize", ["x"], "y", mode="linear")], ("x",), ("y",)) == ("x", "y")


def test_a_value_that_only_a_relu_reads_is_not_observed_and_has_its_format():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "y")]
    assert observed_names(sites, ("x",), ("y",)) == ("x", "y")
    assert formats(sites, {"x": (-1, 1), "y": (0, 2)})["a"] == int8_format(0, 2)


def test_a_value_that_others_read_beside_a_relu_has_its_own_format():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "r"), site("Mul", ["a", "r"], "y")]
    assert observed_names(sites, ("x",), ("y",)) == ("x", "a", "r", "y")


def test_a_stage_output_that_a_relu_reads_has_its_own_format():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "y")]
    assert observed_names(sites, ("x",), ("a", "y")) == ("x", "a", "y")


def test_a_moved_value_does_not_take_the_format_of_a_relu_behind_it():
    sites = [site("Transpose", ["x"], "t"), site("Relu", ["t"], "y")]
    found = formats(sites, {"x": (-4, 4), "y": (0, 4)})
    assert found["t"] == found["x"] == int8_format(-4, 4)
    assert found["y"] == int8_format(0, 4)


def test_clamps_in_a_row_share_the_last_format():
    sites = [site("Add", ["x", "x"], "a"), site("Relu", ["a"], "r"), site("Clip", ["r"], "y", min=0.0, max=6.0)]
    found = formats(sites, {"x": (-9, 9), "y": (0, 6)})
    assert found["a"] == found["r"] == found["y"] == int8_format(0, 6)


def test_a_clip_bounds_the_range_that_was_given_for_it():
    sites = [site("Add", ["x", "x"], "a"), site("Clip", ["a"], "y", min=-1.0, max=6.0)]
    assert formats(sites, {"x": (-9, 9), "y": (-5, 9)})["y"] == int8_format(-1, 6)


def test_a_sigmoid_needs_no_calibration():
    sites = [site("Sigmoid", ["x"], "y")]
    assert observed_names(sites, ("x",), ("y",)) == ("x",)
    assert formats(sites, {"x": (-9, 9)})["y"] == int8_format(0, 1)


def test_an_edited_range_of_a_sigmoid_is_used():
    assert formats([site("Sigmoid", ["x"], "y")], {"x": (-9, 9), "y": (0, 0.5)})["y"] == int8_format(0, 0.5)


def test_the_value_of_a_constant_pad_has_a_place_in_the_range():
    sites = [site("Pad", ["x"], "y", mode="constant", value=-7.0)]
    assert formats(sites, {"x": (0, 1)})["y"] == int8_format(-7, 1)


def test_integers_have_no_format():
    shape = Site("Shape", "s", 0, ("x",), ("y",), {}, {}, {"y": "int64"})
    assert list(formats([shape], {"x": (0, 1)})) == ["x"]


def test_a_given_format_is_taken_over_exactly():
    mine = QFormat("int8", (0.5,), (3,))
    sites = [site("Add", ["x", "x"], "y")]
    assert formats(sites, {"x": (0, 1)}, given={"y": mine})["y"] == mine
    assert why(sites, {"x": (0, 1)}, "y", {"y": mine}) == "given by the model"


def test_a_format_given_for_a_moved_value_holds_for_its_source():
    mine = QFormat("int8", (0.5,), (3,))
    sites = [site("Add", ["x", "x"], "a"), site("MaxPool", ["a"], "y")]
    found = formats(sites, {"x": (0, 1)}, given={"y": mine})
    assert found["a"] == found["y"] == mine


NARROW, WIDE = QFormat("int8", (0.1,), (-128,)), QFormat("int8", (0.2,), (0,))


def test_a_value_that_is_rounded_in_two_ways_is_cut_off_in_neither():
    sites = [site("Add", ["x", "x"], "a"), site("MaxPool", ["a"], "y"), site("Identity", ["a"], "z")]
    found = formats(sites, {"x": (0, 1)}, outputs=("y", "z"), given={"y": NARROW, "z": WIDE})
    assert (found["y"], found["z"]) == (NARROW, WIDE)
    low, high = span_of(found["a"])
    assert low <= span_of(WIDE)[0] + 0.1
    assert high >= span_of(WIDE)[1] - 0.1
    assert observed_names(sites, ("x",), ("y", "z"), ["y", "z"]) == ("x",)


def test_a_value_that_is_computed_with_before_it_is_rounded_has_a_range_of_its_own():
    sites = [site("Add", ["x", "x"], "a"), site("MaxPool", ["a"], "y"), site("Sigmoid", ["a"], "z")]
    found = formats(sites, {"x": (0, 1), "a": (-40, 40)}, outputs=("y", "z"), given={"y": NARROW})
    assert found["a"] == int8_format(-40, 40)
    assert observed_names(sites, ("x",), ("y", "z"), ["y"]) == ("x", "a")


def test_what_follows_a_given_format_has_that_format():
    sites = [
        site("Add", ["x", "x"], "a"),
        site("MaxPool", ["a"], "b"),
        site("Relu", ["b"], "c"),
        site("Slice", ["c"], "y"),
    ]
    found = formats(sites, {"x": (0, 1), "a": (-9, 9)}, outputs=("a", "y"), given={"b": WIDE})
    assert found["b"] == found["c"] == found["y"] == WIDE
    assert found["a"] == int8_format(-9, 9)


def test_a_sum_is_never_far_finer_than_its_addends():
    found = formats([site("Sub", ["x", "x"], "y")], {"x": (-1000, 1000), "y": (0, 1e-6)})
    assert found["y"].scale[0] >= found["x"].scale[0] * 2.0**-14


def test_missing_ranges_are_all_listed():
    sites = [site("Add", ["x", "x"], "a"), site("Mul", ["a", "x"], "y")]
    with pytest.raises(UsageError, match="'a' has no range; 'y' has no range") as caught:
        formats(sites, {"x": (0, 1)})
    assert (caught.value.exit, caught.value.code) == (2, "missing-range")


@pytest.mark.parametrize("bad", [(0, np.inf), (np.nan, 1), (2, 1)])
def test_a_range_that_is_none_is_refused(bad):
    with pytest.raises(UsageError, match="'x' has the range"):
        formats([site("Relu", ["x"], "y")], {"x": bad, "y": (0, 1)})


def test_the_range_before_a_fused_table_is_kept():
    weights = {"w": np.ones((1, 1, 1, 1), np.float32)}
    sites = [site("Conv", ["x", "w"], "c", weights, group=1), site("Silu", ["c"], "y")]
    ranges = {"x": (-1, 1), "c": (-5, 7), "y": (-0.28, 7)}
    quantization = quantize_stage(sites, ranges, None, ("x",), ("y",))
    assert quantization.ranges["c"] == (-5, 7)
    assert list(quantization.weights) == ["c"]


@given(st.floats(-100, 0), st.floats(0.01, 100))
def test_the_span_of_a_format_holds_its_range_to_half_a_step(low, high):
    fmt = int8_format(low, high)
    found = span_of(fmt)
    assert found[0] <= low + fmt.scale[0] * 0.501
    assert found[1] >= high - fmt.scale[0] * 0.501


def test_a_concat_of_one_operand_with_elements_moves():
    concat = Site("Concat", "c", 0, ("e", "x"), ("y",), {"axis": 1}, {"e": (1, 0, 4, 4), "x": (1, 2, 4, 4)})
    assert observed_names([concat], ("e", "x"), ("y",)) == ("e", "x")
    assert formats([concat], {"e": (0, 0), "x": (-1, 1)}, ("e", "x"))["y"] == int8_format(-1, 1)


def test_a_given_format_needs_no_range():
    mine = QFormat("int8", (0.5,), (3,))
    sites = [site("Add", ["x", "x"], "a"), site("MaxPool", ["a"], "y")]
    assert observed_names(sites, ("x",), ("y",), ["y"]) == ("x",)
    assert formats(sites, {"x": (0, 1)}, given={"y": mine})["a"] == mine


def test_a_given_format_that_the_device_lacks_is_decided_anew():
    lacking = QFormat("int32", (0.5,), (3,))
    assert formats([site("Add", ["x", "x"], "y")], {"x": (0, 1), "y": (0, 2)}, given={"y": lacking})["y"].kind == "int8"
