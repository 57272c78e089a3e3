"""fx_softmax and fx_layer_norm against real arithmetic on the numbers that fx32 stands for."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.ops.boxes import Box, Job, flat_tile, whole
from axtool.ops.reference import compute
from axtool.ops.reference_fx_rows import fx_affine
from axtool.ops.reference_rows import epsilon_fields

NORM_DB, ROOT_DB = 105.0, 85.0  # with 1 / sigma by logarithm, by a root of 16 bits
SOFTMAX_ERROR = {0: 1.2e-5, 1: 4e-6}  # of a probability, by form
SIZES = {"x_bytes": 4, "out_bytes": 4}
CHANNELS = (1, 3, 7, 17, 65, 256, 1000)


def run(op: str, x: np.ndarray, attrs: dict, *flat: np.ndarray) -> np.ndarray:
    """x (h, w, c) of whole numbers -> those of the output."""
    stored = np.ascontiguousarray(x.astype("<i4")).view(np.int8)
    boxes = [Box(stored, whole(stored.shape))]
    for values in flat:
        data = np.ascontiguousarray(values).view(np.int8).reshape(1, 1, -1)
        boxes.append(Box(data, flat_tile(0, data.size)))
    made = compute(Job(op, stored.shape, stored.shape, attrs | SIZES, whole(stored.shape)), boxes)
    return np.ascontiguousarray(made).view("<i4").astype(np.float64)


def decibels(got: np.ndarray, want: np.ndarray) -> float:
    noise = float(np.mean((got - want) ** 2))
    return 10 * np.log10(np.mean(want**2) / noise) if noise else np.inf


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(("bits", "spread"), [(27, 1.0), (20, 300.0), (27, 1e-4), (10, 1e5)])
def test_a_layer_norm_of_fx32_is_the_real_one(bits: int, spread: float, form: int) -> None:
    for channels in CHANNELS[1:]:
        rng = np.random.default_rng(channels)
        x = np.rint((rng.normal(0, spread, (2, 3, channels)) + spread) * 2.0**bits)
        gamma, beta = rng.normal(1, 0.3, channels), rng.normal(0, 0.5, channels)
        pairs, shift = fx_affine(gamma, beta, 27, channels)
        attrs = {"shift": shift, **epsilon_fields(1e-5, 2.0**-bits, channels), "form": form}
        real = x * 2.0**-bits
        deviation = real - real.mean(axis=2, keepdims=True)
        want = deviation / np.sqrt((deviation**2).mean(axis=2, keepdims=True) + 1e-5) * gamma + beta
        assert decibels(run("fx_layer_norm", x, attrs, pairs) * 2.0**-27, want) > (NORM_DB if form & 1 else ROOT_DB)


def test_a_layer_norm_of_fx32_saturates() -> None:
    pairs, shift = fx_affine(np.full(2, 3.0), np.zeros(2), 30, 2)
    attrs = {"shift": shift, **epsilon_fields(0.0, 1.0, 2), "form": 3}
    got = run("fx_layer_norm", np.array([[[-5, 5]]]), attrs, pairs)
    assert got.reshape(-1).tolist() == [-(2**31), 2**31 - 1]


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("bits", [0, 12, 24, 31])
def test_a_softmax_of_fx32_is_the_real_one(bits: int, form: int) -> None:
    for channels in CHANNELS:
        rng = np.random.default_rng(channels)
        x = np.clip(np.rint(rng.normal(0, 3, (2, 3, channels)) * 2.0**bits), -(2**31), 2**31 - 1)
        real = np.exp((x - x.max(axis=2, keepdims=True)) * 2.0**-bits)
        real /= real.sum(axis=2, keepdims=True)
        for f in (30, 31):
            got = run("fx_softmax", x, {"f_x": bits, "f": f, "form": form}) * 2.0**-f
            assert np.abs(got - real).max() < SOFTMAX_ERROR[form]


def test_the_sum_of_a_long_row_keeps_its_bits() -> None:
    got = run("fx_softmax", np.zeros((1, 1, 2**16)), {"f_x": 20, "f": 31, "form": 1})
    assert (got == 2**15).all()


def test_the_only_number_of_a_row_saturates_at_31_bits() -> None:
    got = run("fx_softmax", np.full((1, 1, 1), -7), {"f_x": 20, "f": 31, "form": 1})
    assert got.item() == 2**31 - 1


def test_factors_use_all_of_their_bits() -> None:
    for gamma in (1e-6, 1.0, 1e5):
        pairs, shift = fx_affine(np.array([gamma, -gamma / 3]), np.zeros(2), 20, 64)
        assert abs(int(pairs[0, 0])) >= 2**30 or shift in (0, 62)
        np.testing.assert_allclose(pairs[:, 0] * 2.0 ** (30 - shift - 20), [gamma * 8, -gamma * 8 / 3], rtol=1e-8)
