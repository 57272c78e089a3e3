"""Ranges from histograms: each method keeps what it says."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.quant.clip import METHODS, clip
from axtool.quant.observers import Histogram, MinMax


def seen(values: NDArray[np.float64]) -> Histogram:
    observer = Histogram()
    observer.observe(values.astype(np.float32))
    return observer


def normal(count: int = 100_000, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, 1, count)


def error(values: NDArray[np.float64], low: float, high: float) -> float:
    """The mean squared error of 255 steps over a range."""
    step = (high - low) / 255
    kept = np.clip(np.rint((values - low) / step), 0, 255) * step + low
    return float(np.square(values - kept).mean())


def test_minmax_keeps_everything() -> None:
    values = normal()
    assert clip(seen(values), "minmax") == (np.float32(values.min()), np.float32(values.max()))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_stays_within_what_was_seen(method: str) -> None:
    values = normal()
    low, high = clip(seen(values), method, 99.9)
    assert values.min() - 1e-6 <= low < high <= values.max() + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_that_never_goes_below_zero_has_a_range_that_does_not(method: str) -> None:
    low, high = clip(seen(np.maximum(normal(), 0)), method)
    assert (low, high > 0.5) == (0, True)


def test_one_far_value_does_not_decide_the_mse_range() -> None:
    assert clip(seen(np.append(normal(1_000_000), 30.0)), "mse")[1] < 20


def test_the_mse_range_rounds_better_than_all_that_was_seen() -> None:
    values = np.append(normal(1_000_000), 30.0)
    low, high = clip(seen(values), "mse")
    assert error(values, low, high) < 0.7 * error(values, float(values.min()), float(values.max()))


def test_the_mse_range_is_nearly_the_best_there_is() -> None:
    values = np.random.default_rng(1).laplace(0, 1, 50_000)
    grid = [
        error(values, values.min() * a, values.max() * b)
        for a in np.linspace(0.2, 1, 25)
        for b in np.linspace(0.2, 1, 25)
    ]
    assert error(values, *clip(seen(values), "mse")) < 1.05 * min(grid)


def test_entropy_cuts_a_long_thin_tail() -> None:
    values = np.concatenate([normal(), np.linspace(5, 100, 50)])
    low, high = clip(seen(values), "entropy")
    assert high < 75
    assert low == pytest.approx(values.min() * high / values.max(), rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_that_is_always_zero_has_the_range_zero(method: str) -> None:
    assert clip(seen(np.zeros(10)), method) == (0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_without_a_histogram_the_range_is_what_was_seen(method: str) -> None:
    observer = MinMax()
    observer.observe(np.array([-1.0, 4.0], np.float32))
    assert clip(observer, method) == (-1, 4)
