"""The integer rules against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops import arithmetic as ar
from axtool.types import QFormat

SCALES = st.floats(2.0**-20, 2.0**30)
INT32 = st.integers(-(2**31), 2**31 - 1)


def floor_half_up(x: Fraction) -> int:
    return int((x + Fraction(1, 2)) // 1)


@pytest.mark.parametrize(("n", "want"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (255, 8), (2**30, 31)])
def test_bits_counts_binary_digits(n, want):
    assert ar.bits(n) == want


@given(SCALES)
def test_a_constant_is_the_scale_truncated_to_31_bits(scale):
    m, f = ar.qfp(scale)
    assert f == 31 - ar.bits(int(scale))
    assert m == int(Fraction(scale) * 2**f)
    assert 0 <= m < 2**31


@given(st.lists(st.one_of(SCALES, st.just(0.0), st.floats(2.0**-1070, 2.0**-1020)), min_size=1, max_size=9))
def test_constants_of_many_scales_are_those_of_each(scales):
    m, f = ar.qfps(np.array(scales))
    assert list(zip(m.tolist(), f.tolist(), strict=True)) == [ar.qfp(scale) for scale in scales]


@pytest.mark.parametrize("scale", [-1.0, 2.0**31, float("inf"), float("nan")])
def test_a_scale_out_of_range_is_refused(scale):
    with pytest.raises(ValueError, match="scale"):
        ar.qfp(scale)
    with pytest.raises(ValueError, match="scale"):
        ar.qfps(np.array([1.0, scale]))


@given(INT32, SCALES, st.integers(-128, 127))
def test_requantize_is_one_rounding_half_up(acc, scale, zp):
    m, f = ar.qfp(scale)
    want = min(max(floor_half_up(Fraction(acc) * m / 2**f) + zp, -128), 127)
    assert int(ar.requantize(acc, m, f, zp, -128, 127)) == want


@given(st.integers(-(2**62), 2**62), st.floats(2.0**-31, 2.0**30))
def test_requantize_of_a_64_bit_accumulator_uses_a_wider_product(acc, scale):
    m, f = ar.qfp(scale)
    want = min(max(floor_half_up(Fraction(acc) * m / 2**f), -(2**15)), 2**15 - 1)
    assert int(ar.requantize(np.array([acc]), m, f, 0, -(2**15), 2**15 - 1)[0]) == want


def test_requantize_rounds_exact_halves_up_on_both_sides_of_zero():
    m, f = ar.qfp(0.5)
    assert ar.requantize([-3, -1, 1, 3], m, f, 0, -128, 127).tolist() == [-1, 0, 1, 2]


def test_requantize_takes_one_constant_for_each_channel():
    m, f = zip(*(ar.qfp(s) for s in (0.25, 3.0)), strict=True)
    assert ar.requantize([[10, 10], [-10, 40]], m, f, [0, 1], -128, 127).tolist() == [[3, 31], [-2, 121]]


@given(st.integers(-(2**15), 2**15 - 1), st.integers(0, 2**32 - 1))
def test_interpolation_is_the_straight_line_between_two_entries(v, seed):
    table = np.random.default_rng(seed).integers(-(2**15), 2**15, 1025, dtype=np.int16)
    i, fraction = divmod(v + 2**15, 64)
    left, right = Fraction(int(table[i])), Fraction(int(table[i + 1]))
    want = floor_half_up((left + (right - left) * Fraction(fraction, 64)) / 128)
    assert int(ar.interpolate(table, np.array([v]))[0]) == min(max(want, -128), 127)


@given(st.integers(-128, 127), st.integers(-128, 127), SCALES)
def test_a_residual_term_is_floored_at_16_fraction_bits(q, zp, scale):
    m, f = ar.qfp(scale)
    want = (q - zp) * m * Fraction(2) ** (16 - f) // 1
    assert int(ar.residual_term(np.array([q], np.int8), zp, m, f)[0]) == want


def test_a_residual_sum_rounds_half_up():
    assert ar.residual_sum(np.array([1 << 15, -(1 << 15), (1 << 15) - 1]), 5, -128, 127).tolist() == [6, 5, 5]


@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=20), st.floats(1e-3, 10), st.integers(-128, 127))
def test_the_host_quantizes_in_float32(values, scale, zp):
    x = np.array(values, np.float32)
    got = ar.quantize_host(x, QFormat("int8", (scale,), (zp,)))
    want = [np.clip(np.rint(np.float32(np.float32(v / np.float32(scale)) + np.float32(zp))), -128, 127) for v in x]
    assert got.dtype == np.int8
    assert got.tolist() == want


def test_the_host_quantizes_what_is_not_finite():
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert ar.quantize_host(x, QFormat("int8", (0.5,), (7,))).tolist() == [7, 127, -128]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
def test_the_host_saturates_at_the_ends_of_the_kind(kind):
    info = np.iinfo(kind)
    x = np.array([-1e30, 1e30], np.float32)
    assert ar.quantize_host(x, QFormat(kind, (1.0,))).tolist() == [info.min, info.max]


def test_formats_with_a_scale_for_each_entry_of_the_last_axis_go_both_ways():
    fmt = QFormat("int8", (0.5, 2.0), (1, -3))
    x = np.array([[1.0, 8.0], [-2.0, 0.0]], np.float32)
    assert ar.quantize_host(x, fmt).tolist() == [[3, 1], [-3, -3]]
    np.testing.assert_array_equal(ar.dequantize(ar.quantize_host(x, fmt), fmt), x)


@given(st.integers(-128, 127), st.floats(2.0**-10, 10, width=32), st.integers(-128, 127))
def test_quantize_of_dequantize_is_the_same_number(q, scale, zp):
    fmt = QFormat("int8", (scale,), (zp,))
    assert ar.quantize_host(ar.dequantize(np.int8(q), fmt), fmt) == q
