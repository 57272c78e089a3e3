"""softmax and layer_norm on int8 against real arithmetic on the dequantized numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Box, Job, flat_tile, whole
from axtool.ops.exponential import exp_table
from axtool.ops.reference import compute
from axtool.ops.reference_rows import affine_pairs, epsilon_fields, unit_rows

EXACT_DB = 75.0  # of a layer_norm before its output is rounded, at the least
ROUNDED = 0.51  # steps of the output between the result and the real one, rounding to the nearest included
CHANNELS = (1, 2, 3, 7, 17, 32, 65, 256, 1000)


def flat(values: np.ndarray) -> Box:
    data = np.ascontiguousarray(values).view(np.int8).reshape(1, 1, -1)
    return Box(data, flat_tile(0, data.size))


def run(op: str, x: np.ndarray, attrs: dict, constant: np.ndarray) -> np.ndarray:
    job = Job(op, x.shape, x.shape, attrs, whole(x.shape))
    return compute(job, [Box(x, whole(x.shape)), flat(constant)])


def rows(seed: int, channels: int, spread: int = 256) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.integers(-128, 129 - spread) + rng.integers(0, spread, (2, 3, channels))).astype(np.int8)


def real_norm(x: np.ndarray, scale: float, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> np.ndarray:
    real = x.astype(np.float64) * scale
    deviation = real - real.mean(axis=2, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(axis=2, keepdims=True) + epsilon) * gamma + beta


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("channels", CHANNELS)
def test_a_layer_norm_is_the_real_one_but_for_the_rounding_of_its_output(channels: int, form: int) -> None:
    rng = np.random.default_rng(channels)
    gamma, beta = rng.normal(1, 0.3, channels), rng.normal(0, 0.5, channels)
    for spread, scale, epsilon in (
        (256, 0.02, 1e-5),
        (5, 0.02, 1e-5),
        (60, 0.001, 1e-5),
        (256, 0.5, 1e-6),
        (9, 1e-4, 1.0),
    ):
        x = rows(channels, channels, spread)
        want = real_norm(x, scale, gamma, beta, epsilon)
        out_scale = max(float(np.abs(want).max()), 1e-3) / 127
        pairs, f = affine_pairs(gamma, beta, out_scale, channels)
        attrs = {"f": f, "out_zp": 3, "lo": -128, "hi": 127, **epsilon_fields(epsilon, scale, channels), "form": form}
        got = run("layer_norm", x, attrs, pairs)
        assert np.abs(got - np.clip(want / out_scale + 3, -128, 127)).max() <= ROUNDED


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("spread", [2, 9, 256])
def test_a_layer_norm_is_accurate_before_its_output_is_rounded(spread: int, form: int) -> None:
    for channels in CHANNELS[2:]:
        x, scale, epsilon = rows(channels, channels, spread), 0.02, 1e-5
        attrs = {"form": form, **epsilon_fields(epsilon, scale, channels)}
        got = unit_rows(x.astype(np.int64), attrs) / 2**30 * np.sqrt(channels)
        want = real_norm(x, scale, np.ones(channels), np.zeros(channels), epsilon)
        noise = np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))
        assert noise == 0 or -20 * np.log10(noise) > EXACT_DB, channels


def test_a_row_of_equal_numbers_gives_the_offsets() -> None:
    x = np.full((1, 2, 7), -128, np.int8)
    x[0, 1] = 127
    beta = np.linspace(-3, 3, 7)
    pairs, f = affine_pairs(np.ones(7), beta, 0.05, 7)
    attrs = {"f": f, "out_zp": 0, "lo": -128, "hi": 127, **epsilon_fields(0.0, 0.1, 7), "form": 1}
    np.testing.assert_array_equal(run("layer_norm", x, attrs, pairs)[0], np.tile(np.rint(beta / 0.05), (2, 1)))


def test_the_longest_row_keeps_its_sums() -> None:
    x = np.where(np.arange(2**16) % 2, 127, -128).astype(np.int8).reshape(1, 1, -1)
    x[0, 0, :3] = 127
    pairs, f = affine_pairs(np.ones(2**16), np.zeros(2**16), 1 / 64, 2**16)
    want = real_norm(x, 0.01, np.ones(2**16), np.zeros(2**16), 1e-5) * 64
    for form in range(4):
        attrs = {"f": f, "out_zp": 0, "lo": -128, "hi": 127, **epsilon_fields(1e-5, 0.01, 2**16), "form": form}
        assert np.abs(run("layer_norm", x, attrs, pairs) - want).max() <= ROUNDED


@pytest.mark.parametrize("channels", CHANNELS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-3, 1.0))
def test_a_softmax_is_the_real_one_but_for_the_rounding_of_table_and_output(
    channels: int, seed: int, scale: float
) -> None:
    x = rows(seed, channels)
    real = np.exp(x.astype(np.float64) * scale - 128 * scale)
    real /= real.sum(axis=2, keepdims=True)
    m, f = qfp(255.0)
    got = run("softmax", x, {"m": m, "f": f, "out_zp": -128, "lo": -128, "hi": 127, "form": 1}, exp_table(scale))
    # an entry of the table is off by half a step of 2^-12 of the largest, and so is each addend of the sum
    entry = 2.0**-13 * 255 * real.max(axis=2, keepdims=True)
    assert (np.abs(got + 128.0 - real * 255) <= ROUNDED + entry * (1 + channels * real)).all()


def test_a_softmax_with_an_empty_table_divides_by_one() -> None:
    x, (m, f) = rows(0, 7), qfp(255.0)
    attrs = {"m": m, "f": f, "out_zp": -5, "lo": -128, "hi": 127, "form": 0}
    assert (run("softmax", x, attrs, np.zeros(256, np.int16)) == -5).all()


def test_zero_points_of_the_input_do_not_matter() -> None:
    x = rows(1, 17, 100)
    x = x - x.min() - 100
    pairs, f = affine_pairs(np.ones(17), np.zeros(17), 0.03, 17)
    attrs = {"f": f, "out_zp": 0, "lo": -128, "hi": 127, **epsilon_fields(1e-5, 0.02, 17), "form": 1}
    for op, fields, constant in (
        ("layer_norm", attrs, pairs),
        ("softmax", {"m": 2**30, "f": 24, "out_zp": 0, "lo": -128, "hi": 127, "form": 1}, exp_table(0.1)),
    ):
        np.testing.assert_array_equal(
            run(op, x.astype(np.int8), fields, constant), run(op, (x + 50).astype(np.int8), fields, constant)
        )
