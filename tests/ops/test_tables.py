"""Tables against the function they stand for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops.arithmetic import interpolate
from axtool.ops.fixed_point import to_fx
from axtool.ops.reference import compute
from axtool.ops.tables import fx_table, interp_table, lut256, prelu_luts
from axtool.ops.unary import UNARY, evaluate
from axtool.types import QFormat
from tests.ops.mixed_cases import case_of
from tests.ops.ort import run_node

ROUNDING = 0.5 + 1e-6
INTERPOLATION_STEPS = 0.02  # how far a straight line between two entries is from Silu, in output steps


def unary(op: str, **attrs: float):
    return lambda x: evaluate(op, x, attrs)


@given(st.sampled_from(["Relu", "Silu", "Tanh", "HardSwish"]), st.integers(-128, 127), st.integers(-128, 127))
def test_an_entry_is_the_function_rounded_to_output_steps(op, zp, out_zp):
    table = lut256(unary(op), QFormat("int8", (0.07,), (zp,)), QFormat("int8", (0.03,), (out_zp,)))
    x = (np.arange(-128, 128) - zp) * 0.07
    want = np.clip(evaluate(op, x, {}) / 0.03 + out_zp, -128, 127)
    assert table.dtype == np.int8
    assert np.abs(table - want).max() <= ROUNDING


def test_exact_halves_round_up():
    table = lut256(unary("Identity"), QFormat("int8", (0.5,)), QFormat("int8", (1.0,)))
    assert [int(table[q + 128]) for q in (-3, -1, 1, 3)] == [-1, 0, 1, 2]


def test_the_same_format_in_and_out_makes_the_identity():
    fmt = QFormat("int8", (0.1,), (7,))
    np.testing.assert_array_equal(lut256(unary("Identity"), fmt, fmt), np.arange(-128, 128))


@pytest.mark.parametrize(("op", "at", "want"), [("Exp", 127, 127), ("Log", 0, -128), ("Reciprocal", 0, 127)])
def test_what_is_infinite_is_clamped(op, at, want):
    table = lut256(unary(op), QFormat("int8", (100.0,)), QFormat("int8", (0.01,)))
    assert table[at + 128] == want


def test_where_a_function_has_no_value_the_entry_is_zero():
    assert lut256(unary("Log"), QFormat("int8", (1.0,)), QFormat("int8", (0.1,), (9,)))[0] == 9


@pytest.mark.parametrize("op", sorted(UNARY))
def test_every_function_makes_a_table(op):
    table = lut256(unary(op), QFormat("int8", (0.05,), (3,)), QFormat("int8", (0.05,), (-5,)))
    assert table.shape == (256,)
    assert op in ("ThresholdedRelu", "Shrink") or len(set(table.tolist())) > 1


def test_prelu_has_the_slope_of_its_channel():
    slopes = np.array([0.25, 0.0, -1.5, 1.0], np.float32)
    in_fmt, out_fmt = QFormat("int8", (0.05,), (10,)), QFormat("int8", (0.04,), (-4,))
    tables = prelu_luts(slopes.reshape(4, 1, 1), in_fmt, out_fmt).reshape(4, 256)
    x = ((np.arange(-128, 128) - 10) * 0.05).astype(np.float32)
    want = run_node("PRelu", np.tile(x, (1, 4, 1)), slopes.reshape(4, 1))[0]
    assert np.abs(tables - np.clip(want / 0.04 - 4, -128, 127)).max() <= ROUNDING + 1e-4


def test_an_interpolated_silu_follows_the_curve():
    scale16, out = 8.0 / 32768, QFormat("int8", (8.0 / 255,), (-120,))
    table = interp_table(unary("Silu"), scale16, out)
    v = np.arange(-(2**15), 2**15)
    want = np.clip(evaluate("Silu", v * scale16, {}) / out.scale[0] - 120, -128, 127)
    assert table.dtype == np.int16
    assert table.shape == (1025,)
    assert np.abs(interpolate(table, v) - want).max() <= 0.5 + INTERPOLATION_STEPS


def test_an_interpolation_entry_holds_the_zero_point_and_7_fraction_bits():
    table = interp_table(unary("Identity"), 1 / 64, QFormat("int8", (1.0,), (5,)))
    assert table[512] == 5 * 128
    assert table[513] == 6 * 128
    assert table[[0, 1024]].tolist() == [-(2**15), 2**15 - 1]  # -507 and 517 steps do not fit 16 bits


def test_a_function_that_overflows_saturates_its_table():
    table = interp_table(unary("Exp"), 1.0, QFormat("int8", (1.0,)))
    assert table[1024] == 2**15 - 1
    assert math.isclose(table[512], 128)


@pytest.mark.parametrize(("op", "seen", "curve"), [
    ("Sigmoid", (-9.0, 7.5), 0.0963), ("Gelu", (-4.0, 4.0), 0.798), ("Tanh", (-3.0, 5.0), 0.77),
    ("Exp", (-2.0, 1.0), 23.0),
])  # fmt: skip
@pytest.mark.parametrize("in_bits", [15, 20, 26])
def test_a_table_of_fx32_is_within_the_bound_of_its_intervals(op, seen, curve, in_bits):
    """|error| <= h^2 / 8 * max|f''| for the interval h, and the rounding of two points and of the result."""
    out_bits = 27
    points, first, interval = fx_table(lambda x: evaluate(op, x, {}), seen, in_bits, out_bits)
    x = to_fx(np.random.default_rng(0).uniform(*seen, 4000), in_bits).reshape(1, 1, -1)
    attrs = {"first": first, "interval": interval, "x_bytes": 4, "out_bytes": 4}
    case = case_of("fx_lut", (1, 1, 4000), attrs, x, points)
    made = np.ldexp(compute(case.job(), case.boxes()).view(np.int32).astype(np.float64), -out_bits)
    h = 2.0 ** (interval - in_bits)
    assert h <= max((seen[1] - seen[0]) * 2**-10, 2.0**-in_bits)
    want = evaluate(op, np.ldexp(x.astype(np.float64), -in_bits), {})
    assert np.abs(made - want).max() <= h * h / 8 * curve + 1.5 * 2.0**-out_bits


def test_a_table_of_fx32_covers_twice_the_range_and_holds_the_ends_beyond():
    points, first, interval = fx_table(lambda x: evaluate("Sigmoid", x, {}), (-8.0, 8.0), 15, 31)
    assert first <= -(16 << 15)
    assert first + (4096 << interval) >= 16 << 15
    assert points[-1] == np.floor(evaluate("Sigmoid", np.array((first + (4096 << interval)) / 2**15), {}) * 2**31 + 0.5)
    assert (np.diff(points.astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("seen", [(-(2.0**31), 2.0**31), (0.0, 0.0), (2.0**30, 2.0**31), (-5.0, -5.0)])
def test_a_table_of_any_range_is_one_of_the_device(seen):
    _, first, interval = fx_table(lambda x: x, seen, 0, 0)
    assert -(2**31) <= first <= 2**31 - 1
    assert 0 <= interval <= 20
