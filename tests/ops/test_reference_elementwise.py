"""add, mul, requantize, lut, concat against real numbers: never further off than their one rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Job, whole
from axtool.ops.reference import compute
from axtool.ops.regions import written
from axtool.types import Tile
from tests.ops.cases import random_case, whole_box

SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = 60
ROUNDING = 0.5 + 1e-4  # of the last step
ADD_ROUNDING = 0.5 + 3 / 2**16  # each operand is floored at 16 fraction bits


def real(q: np.ndarray, zp: int, m: int, f: int) -> np.ndarray:
    return (q.astype(np.float64) - zp) * m / 2.0**f


def assert_close(case, want: np.ndarray, tolerance: float) -> None:
    a = case.attrs
    lo, hi = a.get("lo", -128), a.get("hi", 127)
    want = np.clip(np.broadcast_to(want + a["out_zp"], case.out_dims), lo, hi)
    got = compute(case.job(), case.boxes())
    assert got.shape == case.out_dims
    assert np.abs(got - want).max() <= tolerance


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_an_addition_is_the_real_sum_rounded_once(seed):
    case = random_case("add", seed)
    a, (left, right) = case.attrs, case.operands
    x, y = real(left, a["zp_a"], a["m_a"], a["f_a"]), real(right, a["zp_b"], a["m_b"], a["f_b"])
    assert_close(case, x - y if a["sub"] else x + y, ADD_ROUNDING)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_a_product_is_the_real_product_rounded_once(seed):
    case = random_case("mul", seed)
    a, (left, right) = case.attrs, case.operands
    product = (left.astype(np.float64) - a["zp_a"]) * (right.astype(np.float64) - a["zp_b"])
    assert_close(case, product * a["m"] / 2.0 ** a["f"], ROUNDING)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_requantize_is_the_real_number_in_other_steps(seed):
    case = random_case("requantize", seed)
    a = case.attrs
    assert_close(case, real(case.operands[0], a["zp"], a["m"], a["f"]), ROUNDING)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_a_table_is_read_at_q_plus_128(seed):
    case = random_case("lut", seed)
    x, table = case.operands
    tables = table.reshape(-1, 256)
    want = np.empty_like(x)
    for c in range(x.shape[2]):
        for at in np.ndindex(x.shape[:2]):
            want[(*at, c)] = tables[c if case.attrs["per_channel"] else 0][int(x[(*at, c)]) + 128]
    np.testing.assert_array_equal(compute(case.job(), case.boxes()), want)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=SEEDS)
def test_concat_puts_each_input_at_its_offset(seed):
    case = random_case("concat", seed)
    a = case.attrs
    for part, x in enumerate(case.operands):
        job = case.job(part=part)
        offset, zp, m, f = a["parts"][4 * part : 4 * part + 4]
        want = x if m == 0 else np.clip(real(x, zp, m, f) + a["out_zp"], -128, 127)
        got, box = compute(job, [whole_box(x)]), written(job)
        assert np.abs(got - want.astype(np.float64)).max() <= (0 if m == 0 else ROUNDING)
        assert (box.y, box.x, box.c)[a["axis"]] == offset
        assert (box.h, box.w, box.n) == x.shape


def test_a_concat_tile_may_miss_an_input():
    attrs = {"axis": 2, "out_zp": 0, "parts": (0, 0, 0, 0, 4, 0, 0, 0)}
    job = Job("concat", (1, 1, 4), (1, 1, 7), attrs, Tile(0, 0, 0, 1, 1, 3), part=1)
    assert written(job).n == 0


@pytest.mark.parametrize("sub", [0, 1])
def test_an_addition_of_equal_scales_is_exact(sub):
    q = np.arange(-128, 128, dtype=np.int64).astype(np.int8).reshape(16, 16, 1)
    one = {"m_a": 1 << 30, "f_a": 30, "m_b": 1 << 30, "f_b": 30}
    attrs = {"a": q.shape, "b": q.shape, "zp_a": 0, "zp_b": 0, "out_zp": 0, "lo": -128, "hi": 127, "sub": sub, **one}
    job = Job("add", q.shape, q.shape, attrs, whole(q.shape))
    got = compute(job, [whole_box(q), whole_box(q[::-1])])
    wide = q.astype(int)
    np.testing.assert_array_equal(got, np.clip(wide - wide[::-1] if sub else wide + wide[::-1], -128, 127))
