"""`Durations`: sums exactly, quantiles within 1.1 %, in a memory that does not grow."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime.durations import Durations


def test_sums_and_extremes_are_exact() -> None:
    found = Durations([0.25, 0.5, 0.125])
    assert (found.count, found.total_s, found.min_s, found.max_s) == (3, 0.875, 0.125, 0.5)
    assert found.mean_s == 0.875 / 3


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99, 1.0])
def test_quantiles_are_those_of_the_sorted_values(share: float) -> None:
    values = np.random.default_rng(1).lognormal(-6, 1.5, 5000)
    wanted = float(np.sort(values)[int(np.ceil(share * 5000)) - 1])
    assert Durations(values).quantile(share) == pytest.approx(wanted, rel=0.011)


def test_a_quantile_is_never_outside_of_what_was_seen() -> None:
    found = Durations([0.0101])
    assert found.quantile(0.0) == found.quantile(0.5) == found.quantile(1.0) == 0.0101


def test_of_nothing_all_is_nought() -> None:
    assert (Durations().mean_s, Durations().quantile(0.5), Durations().count) == (0.0, 0.0, 0)


def test_no_time_and_a_clock_that_went_back_count_as_nothing() -> None:
    found = Durations([0.0, -1.0])
    assert (found.count, found.total_s, found.quantile(0.5)) == (2, 0.0, 0.0)


def test_two_together_are_as_one() -> None:
    left, right = Durations([0.1, 0.2]), Durations([0.3, 0.05])
    left.update(right)
    whole = Durations([0.1, 0.2, 0.3, 0.05])
    assert (left.count, left.min_s, left.max_s) == (whole.count, whole.min_s, whole.max_s)
    assert left.total_s == pytest.approx(whole.total_s)
    assert [left.quantile(q) for q in (0.2, 0.5, 0.9)] == [whole.quantile(q) for q in (0.2, 0.5, 0.9)]


def test_the_memory_does_not_grow_with_the_values() -> None:
    found = Durations(np.random.default_rng(2).uniform(0.001, 0.002, 20_000))
    assert len(found._buckets) <= 34
