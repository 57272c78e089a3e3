"""Every unary function against onnxruntime's, and at its edges."""

import math

import numpy as np
import pytest

from axtool.ops.unary import UNARY, evaluate
from tests.ops.ort import run_node

FLOAT32_TOLERANCE = 2e-6  # onnxruntime computes in float32, some functions with approximations
OPSETS = {"Swish": 24, "Gelu": 20, "Mish": 18}
POSITIVE = np.linspace(0.01, 40, 997)
WIDE = np.concatenate([np.linspace(-30, 30, 1201), np.array([0.5, 1.5, -0.5, -1.5, 2.5, 0.0])])
UNIT = np.linspace(-0.99, 0.99, 399)
DOMAINS = {
    "Log": POSITIVE, "Sqrt": POSITIVE, "Reciprocal": POSITIVE, "Acosh": POSITIVE + 1, "Asin": UNIT, "Acos": UNIT,
    "Atanh": UNIT, "Tan": UNIT, "Sinh": WIDE / 4, "Cosh": WIDE / 4, "Exp": WIDE / 2,
}  # fmt: skip
ATTRS = {
    "Celu": [{}, {"alpha": 0.3}, {"alpha": -20.0}],
    "Elu": [{}, {"alpha": 2.5}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "HardSigmoid": [{}, {"alpha": 0.4, "beta": 0.1}],
    "LeakyRelu": [{}, {"alpha": 0.2}, {"alpha": -0.5}],
    "Selu": [{}, {"alpha": 0.5, "gamma": 2.0}],
    "Shrink": [{}, {"bias": 0.25, "lambd": 1.0}],
    "ThresholdedRelu": [{}, {"alpha": 2.0}],
}
ONNX_OPS = sorted(set(UNARY) - {"Silu", "Clip", "Swish", "Identity"})
CASES = [(op, attrs) for op in ONNX_OPS for attrs in ATTRS.get(op, [{}])]


@pytest.mark.parametrize(("op", "attrs"), CASES, ids=str)
def test_a_function_is_the_one_of_onnx(op, attrs):
    x = DOMAINS.get(op, WIDE).astype(np.float32)
    got = evaluate(op, x, attrs)
    want = run_node(op, x, opset=OPSETS.get(op, 21), **attrs)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=FLOAT32_TOLERANCE, atol=FLOAT32_TOLERANCE * 3)


@pytest.mark.parametrize(("lo", "hi"), [(-1.5, 2.0), (0.0, 6.0), (3.0, 1.0)])
def test_clip_is_the_one_of_onnx_also_where_min_is_above_max(lo, hi):
    x = WIDE.astype(np.float32)
    want = run_node("Clip", x, np.array(lo, np.float32), np.array(hi, np.float32))
    np.testing.assert_array_equal(evaluate("Clip", x, {"min": lo, "max": hi}), want)


def test_clip_without_limits_changes_nothing():
    np.testing.assert_array_equal(evaluate("Clip", WIDE, {}), WIDE)


@pytest.mark.parametrize("alpha", [1.0, 1.702])
def test_swish_is_x_times_its_sigmoid(alpha):
    np.testing.assert_allclose(evaluate("Swish", WIDE, {"alpha": alpha}), WIDE / (1 + np.exp(-alpha * WIDE)))


def test_silu_is_swish_with_alpha_one():
    np.testing.assert_array_equal(evaluate("Silu", WIDE, {}), evaluate("Swish", WIDE, {}))


@pytest.mark.parametrize("op", sorted(set(UNARY) - {"Exp", "Sinh", "Cosh"}))
def test_nothing_overflows_far_from_zero(op):
    x = np.array([-1e5, -1e3, 1e3, 1e5])
    y = evaluate(op, x, {})
    outside = {"Log", "Sqrt", "Acos", "Acosh", "Asin", "Atanh"}  # have no value there
    assert np.isfinite(y).all() or op in outside


def test_an_exponential_overflows_to_infinity_without_a_warning():
    assert evaluate("Exp", np.array([1e5]), {})[0] == math.inf
