"""The ops on fx32 and fp16 are the arithmetic of `fixed_point`, saturate, and round as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Job
from axtool.ops.fixed_point import from_fx, fx_dequantize, fx_quantize, inverse_qfp, to_fx
from axtool.ops.legal import check_layer
from axtool.ops.packing_fp16 import pack_bias, pack_linear, unpack_blocks
from axtool.ops.reference import compute
from axtool.ops.regions import needed, number_bytes
from axtool.types import Tile
from tests.ops.cases import Case
from tests.ops.mixed_cases import Dice, case_of, mixed_case

FULL = {"lo": -(2**31), "hi": 2**31 - 1}
ONE = {"x_bytes": 4, "out_bytes": 4}
TWO = {"a_bytes": 4, "b_bytes": 4, "out_bytes": 4}
SEEDS = st.integers(0, 2**32 - 1)


def run(case: Case, dtype: Any) -> np.ndarray:
    return compute(case.job(), case.boxes()).view(dtype)


def integers(case: Case, at: int = 0) -> np.ndarray:
    return case.operands[at].view(np.int32)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, scale=st.floats(1e-6, 8.0), zp=st.integers(-128, 127), f=st.integers(4, 31))
def test_quantize_is_the_printed_rule(seed, scale, zp, f):
    x, rule = Dice("q", seed).fx(2, 3, 7), fx_quantize(scale, zp, f)
    attrs = {"inverse": rule.inverse, "shift": rule.shift, "rest": rule.rest, "out_zp": zp, "lo": -128, "hi": 127}
    case = case_of("fx_quantize", (2, 3, 7), attrs | {"x_bytes": 4, "out_bytes": 1}, x)
    np.testing.assert_array_equal(run(case, np.int8), rule(x))


@settings(max_examples=60, deadline=None)
@given(scale=st.floats(1e-6, 8.0), zp=st.integers(-128, 127))
def test_dequantize_is_the_printed_rule(scale, zp):
    q, rule = np.arange(-128, 128, dtype=np.int8).reshape(16, 16, 1), fx_dequantize(scale, zp)
    attrs = {"zp": zp, "scale": rule.scale, "shift": rule.shift, "x_bytes": 1, "out_bytes": 4}
    np.testing.assert_array_equal(run(case_of("fx_dequantize", (16, 16, 1), attrs, q), np.int32), rule(q))


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, shifts=st.tuples(st.integers(0, 31), st.integers(0, 31)), sub=st.booleans())
def test_a_sum_floors_each_operand_and_saturates(seed, shifts, sub):
    d = Dice("a", seed)
    a, b = d.fx(2, 3, 7), d.fx(2, 1, 7)
    attrs = {"a": (2, 3, 7), "b": (2, 1, 7), "shift_a": shifts[0], "shift_b": shifts[1], "sub": int(sub), **FULL, **TWO}
    left, right = a.astype(object) >> shifts[0], b.astype(object) >> shifts[1]
    want = np.clip(left - right if sub else left + right, *FULL.values()).astype(np.int32)
    np.testing.assert_array_equal(run(case_of("fx_add", (2, 3, 7), attrs, a, b), np.int32), want)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, shift=st.integers(-30, 62))
def test_a_product_is_rounded_half_up_and_saturates(seed, shift):
    d = Dice("m", seed)
    a, b = d.fx(2, 3, 7), d.fx(1, 1, 7)
    attrs = {"a": (2, 3, 7), "b": (1, 1, 7), "shift": shift, **FULL, **TWO}
    exact = a.astype(object) * b.astype(object)
    rounded = (exact * 2 + (1 << shift)) >> (shift + 1) if shift >= 0 else exact << -shift
    want = np.clip(rounded, *FULL.values()).astype(np.int32)
    np.testing.assert_array_equal(run(case_of("fx_mul", (2, 3, 7), attrs, a, b), np.int32), want)


def test_a_requantize_with_lo_0_is_a_relu():
    x = np.array([[[-5, 0, 7, -(2**31), 2**31 - 1]]], np.int32)
    case = case_of("fx_requantize", (1, 1, 5), {"shift": 0, "lo": 0, "hi": 2**31 - 1, **ONE}, x)
    assert run(case, np.int32).reshape(-1).tolist() == [0, 0, 7, 0, 2**31 - 1]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, shift=st.integers(-30, 40))
def test_other_fraction_bits_floor_to_the_right_and_saturate_to_the_left(seed, shift):
    x = Dice("r", seed).fx(2, 3, 7)
    exact = x.astype(object) >> shift if shift >= 0 else x.astype(object) << -shift
    got = run(case_of("fx_requantize", (2, 3, 7), {"shift": shift, **FULL, **ONE}, x), np.int32)
    np.testing.assert_array_equal(got, np.clip(exact, *FULL.values()).astype(np.int32))


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, f=st.integers(0, 31))
def test_fp16_becomes_fx32_half_to_even(seed, f):
    x = Dice("f", seed).fp16(2, 3, 7)
    got = run(case_of("fx_from_fp16", (2, 3, 7), {"f": f, "x_bytes": 2, "out_bytes": 4}, x), np.int32)
    np.testing.assert_array_equal(got, to_fx(x.astype(np.float32), f))


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, f=st.integers(0, 31))
def test_fx32_becomes_fp16_by_way_of_float32(seed, f):
    x = Dice("t", seed).fx(2, 3, 7)
    got = run(case_of("fp16_from_fx", (2, 3, 7), {"f": f, "x_bytes": 4, "out_bytes": 2}, x), np.float16)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, from_fx(x, f).astype(np.float16))


def test_a_sum_of_products_has_one_rounding_a_product_in_ascending_order():
    """2^24 takes no 1, then 1 again: 2^24 in this order, 2^24 + 2 in the other."""
    for order, want in (((4096.0, 1.0, 1.0), 2.0**24), ((1.0, 1.0, 4096.0), 2.0**24 + 2)):
        x = np.array(order, np.float16).reshape(1, 1, 3)
        attrs = {
            "zp": 0,
            "scale": 0,
            "shift": 0,
            "f_x": 0,
            "f": 0,
            "relu": 0,
            "bias_rows": 1,
            "x_bytes": 2,
            "out_bytes": 4,
        }
        case = case_of(
            "fp16_linear", (1, 1, 1), attrs, x, pack_linear(x.reshape(3, 1)), pack_bias(np.zeros(1, np.float32))
        )
        assert run(case, np.int32).item() == want


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_linear_is_its_parts_one_after_the_other(size):
    """dequantize, fp16_from_fx, the sums, fx_from... : the fused op has the bits of the ops on their own."""
    d = Dice("l", 5)
    h, w, k, n, f_x, f = 2, 5, 33, 17, 26, 22
    weights, bias = d.fp16(k, n, strange=False), d.rng.normal(size=(h * w, n)).astype(np.float32)
    x = {1: d.rng.integers(-128, 128, (h, w, k), np.int8), 2: d.fp16(h, w, k, strange=False), 4: d.fx(h, w, k)}[size]
    ways = {"zp": 3 if size == 1 else 0, "scale": 1 << 30, "shift": 6}
    attrs = {**ways, "f_x": f_x, "f": f, "relu": 1, "bias_rows": h * w, "x_bytes": size, "out_bytes": 4}
    got = run(case_of("fp16_linear", (h, w, n), attrs, x, pack_linear(weights), pack_bias(bias)), np.int32)
    if size == 1:
        x = run(case_of("fx_dequantize", (h, w, k), ways | {"x_bytes": 1, "out_bytes": 4}, x), np.int32)
    if size != 2:
        x = run(case_of("fp16_from_fx", (h, w, k), {"f": f_x, "x_bytes": 4, "out_bytes": 2}, x), np.float16)
    sums = np.zeros((h * w, n), np.float32)
    for i in range(k):
        sums += x.reshape(-1, k)[:, i, None].astype(np.float32) * weights[i].astype(np.float32)
    np.testing.assert_array_equal(got.reshape(-1, n), to_fx(np.maximum(sums + bias, 0), f))


def test_packed_weights_come_back():
    w = np.arange(7 * 33).reshape(7, 33).astype(np.float16)
    np.testing.assert_array_equal(unpack_blocks(pack_linear(w), 7)[:, :33], w)
    assert not unpack_blocks(pack_linear(w), 7)[:, 33:].any()


def test_what_a_linear_needs_is_all_inputs_and_whole_blocks():
    attrs = {
        "zp": 0,
        "scale": 0,
        "shift": 0,
        "f_x": 20,
        "f": 20,
        "relu": 0,
        "bias_rows": 6,
        "x_bytes": 4,
        "out_bytes": 2,
    }
    job = Job("fp16_linear", (2, 3, 40), (2, 3, 70), attrs, Tile(1, 1, 32, 1, 2, 6))
    assert needed(job, 0) == Tile(1, 1, 0, 1, 2, 40)
    assert needed(job, 1) == Tile(0, 0, 10 * 16 * 2, 1, 1, 10 * 16 * 2)
    assert needed(job, 2) == Tile(0, 0, 6 * 16 * 4, 1, 1, 6 * 16 * 4)
    assert [number_bytes("fp16_linear", read, attrs) for read in range(3)] == [4, 2, 4]


@pytest.mark.parametrize(("op", "wrong", "reason"), [
    ("fx_add", {"a_bytes": 2}, "a_bytes 2 is not 4"), ("fx_add", {"shift_b": 63}, "shift_b 63 is not -30..62"),
    ("fx_requantize", {"lo": 5, "hi": 4}, "lo 5 is above hi 4"), ("fx_quantize", {"shift": -1}, "shift -1 is below 0"),
    ("fx_quantize", {"inverse": -1}, "inverse -1 is not"), ("fx_dequantize", {"x_bytes": 4}, "x_bytes 4 is not 1 or 2"),
    ("fx_lut", {"interval": 21}, "interval 21 is not 0..20"), ("fx_from_fp16", {"f": 32}, "f 32 is not 0..31"),
    ("fp16_linear", {"bias_rows": 7919}, "bias_rows 7919 is neither"),
    ("fp16_linear", {"relu": 2}, "relu 2 is not 0..1"),
    ("fp16_linear", {"out_bytes": 1}, "out_bytes 1 is not 2 or 4"),
])  # fmt: skip
def test_a_row_that_no_engine_could_run_is_refused(op, wrong, reason):
    case = mixed_case(op, 1)
    with pytest.raises(ValueError, match=reason):
        check_layer(op, case.in_dims, case.out_dims, case.attrs | wrong)


def test_an_inverse_of_the_printed_scale_is_a_row_of_the_device():
    inverse, bits = inverse_qfp(27.0 / 2**9)
    assert 0 <= inverse < 2**31
    assert 0 <= bits <= 31
