"""fx32 formats and immediates: a compiler's printed numbers, and exact fractions."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops import fixed_point as fx

PRINTED = json.loads((Path(__file__).parent / "data" / "fixed_point_formats.json").read_text())
RULES = {
    "fp16_op": fx.fp16_op_bits,
    "ffn_block": fx.fit,  # ends in a LayerNorm
    "layer_norm": fx.fit,
    "keep": fx.fit,  # of the same range as its input
    "concatenate": fx.fit,
    "residual_add": lambda lo, hi: fx.residual_add_bits(lo, hi, 27, 24),
    "fp16_matmul_add": lambda lo, hi: fx.FP16_MATMUL_BITS,
    "sigmoid": lambda lo, hi: fx.SIGMOID_BITS,
}


def test_every_printed_format_follows_from_its_range():
    got = [[rule, lo, hi, RULES[rule](lo, hi)] for rule, lo, hi, _ in PRINTED["formats"]]
    # a Relu keeps the format of its input, which an FP16 MatMul wrote
    got = [[r, lo, hi, fx.FP16_MATMUL_BITS if r == "keep" and lo == 0 else bits] for r, lo, hi, bits in got]
    assert got == PRINTED["formats"]


def test_every_printed_dequantize_immediate_follows_from_its_scale():
    for bits, shift, scale, zero_point in PRINTED["dequantize"]:
        got = fx.fx_dequantize(scale / 2**31, zero_point)
        assert got == fx.FxDequantize(bits, shift, scale, zero_point)


def test_every_printed_quantize_immediate_follows_from_a_float32_scale():
    for x_bits, shift, rest, inverse in PRINTED["quantize"]:
        scale = float(np.float32(2.0 ** (rest + shift - x_bits) / inverse))
        assert fx.fx_quantize(scale, 0, x_bits) == fx.FxQuantize(inverse, shift, rest, 0)


@pytest.mark.parametrize(
    ("lo", "hi", "bits"),
    [(0, 0, 31), (-0.5, 0.7, 31), (-1.0, 0.5, 31), (0, 1.0, 30), (-8.0, 1.0, 28), (-8.1, 1.0, 27), (0, 7.0, 28)],
)
def test_the_fit_at_powers_of_two(lo, hi, bits):
    assert fx.fit(lo, hi) == bits


@given(st.floats(-1e9, 1e9, width=32), st.floats(-1e9, 1e9, width=32))
def test_both_ends_of_a_range_are_representable_in_its_fit(a, b):
    lo, hi = min(a, b), max(a, b)
    bits = fx.fit(lo, hi)
    assert Fraction(lo) * 2**bits >= -(2**31)
    assert Fraction(hi) * 2**bits <= 2**31 - (1 if abs(hi) >= 1 else 0)


@pytest.mark.parametrize("lo_hi", [(0, 2.0**31), (-(2.0**32), 0), (0, float("inf")), (float("nan"), 1)])
def test_a_range_that_no_format_holds_is_refused(lo_hi):
    with pytest.raises(ValueError, match="range"):
        fx.fit(*lo_hi)


def test_float_to_fx_rounds_half_to_even_and_saturates():
    x = [0.5, 1.5, -0.5, 2.0**31, -(2.0**40), float("inf"), float("nan")]
    assert fx.to_fx(x, 0).tolist() == [0, 2, 0, 2**31 - 1, -(2**31), 2**31 - 1, 0]


def test_a_sigmoid_of_one_saturates():
    assert fx.to_fx(1.0, fx.SIGMOID_BITS) == 2**31 - 1


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 31))
def test_fx_to_float_is_the_nearest_float32(n, bits):
    assert fx.from_fx(np.int32(n), bits) == np.float32(Fraction(n, 2**bits))


@given(st.integers(-(2**31), 2**31 - 1), st.floats(1e-4, 100), st.integers(-128, 127), st.integers(0, 31))
def test_quantize_is_the_rounded_quotient(x, scale, zp, x_bits):
    rule = fx.fx_quantize(scale, zp, x_bits)
    exact = Fraction(x) * rule.inverse / 2 ** (rule.shift + rule.rest)  # x / scale, as far as the inverse goes
    want = min(max(int((exact + Fraction(1, 2)) // 1) + zp, -128), 127)
    got = int(rule(np.array([x], np.int32))[0])
    assert got == want  # flooring first loses nothing that rounding half up could see
    inverse_bits = rule.shift + rule.rest - x_bits
    assert abs(exact - Fraction(x, 2**x_bits) / Fraction(scale)) <= Fraction(abs(x), 2 ** (x_bits + inverse_bits))


@given(st.integers(-128, 127), st.integers(-128, 127), st.floats(1e-4, 100))
def test_dequantize_is_the_floored_product(q, zp, scale):
    rule = fx.fx_dequantize(scale, zp)
    got = int(rule(np.array([q], np.int8))[0])
    assert got == (q - zp) * rule.scale // 2**rule.shift
    assert abs(Fraction(got, 2**rule.fraction_bits) - (q - zp) * Fraction(scale)) <= abs(q - zp) * scale / 2**14 + 1


@pytest.mark.parametrize("scale", [0.0, 2.0**-31, -1.0, float("nan")])
def test_a_scale_whose_inverse_overflows_is_refused(scale):
    with pytest.raises(ValueError, match="inverse"):
        fx.inverse_qfp(scale)
