import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from axtool.quant import observers
from axtool.quant.observers import HALF, Histogram, MinMax, bins_of

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
ARRAYS = hnp.arrays(np.float32, st.integers(0, 40), elements=FLOATS)


def seen(kind, arrays):
    observer = kind()
    for array in arrays:
        observer.observe(array)
    return observer


def state(observer):
    counts = observer.counts.tolist() if isinstance(observer, Histogram) else None
    extra = observer.exponent if isinstance(observer, Histogram) else None
    return observer.low, observer.high, observer.count, observer.nan, observer.inf, extra, counts


@settings(max_examples=60, deadline=None)
@given(st.lists(ARRAYS, min_size=1, max_size=6), st.randoms(use_true_random=False))
@pytest.mark.parametrize("kind", [MinMax, Histogram])
def test_any_order_of_arrays_gives_the_same_bits(kind, arrays, random):
    shuffled = list(arrays)
    random.shuffle(shuffled)
    assert state(seen(kind, arrays)) == state(seen(kind, shuffled))


@settings(max_examples=60, deadline=None)
@given(st.lists(ARRAYS, min_size=2, max_size=6), st.integers(1, 5))
@pytest.mark.parametrize("kind", [MinMax, Histogram])
def test_merging_parts_gives_the_bits_of_one_pass(kind, arrays, cut):
    left, right = seen(kind, arrays[:cut]), seen(kind, arrays[cut:])
    left.merge(right)
    assert state(left) == state(seen(kind, arrays))


@settings(max_examples=60, deadline=None)
@given(ARRAYS)
def test_every_finite_value_is_in_the_bin_that_its_truncation_names(array):
    observer = seen(Histogram, [array])
    finite = array[np.isfinite(array)].astype(np.float64)
    expected = np.zeros(2 * HALF - 1, np.int64)
    for value in finite:
        index = 0 if observer.exponent is None else int(value / 2.0**observer.exponent)
        expected[index + HALF - 1] += 1
    np.testing.assert_array_equal(observer.counts, expected)


def test_nan_and_infinities_are_counted_and_left_out_of_the_range():
    observer = seen(MinMax, [np.array([1, np.nan, -np.inf], np.float32), np.array([np.inf, -2, np.nan], np.float32)])
    assert (observer.range(), observer.nan, observer.inf, observer.finite) == ((-2.0, 1.0), 2, 2, 2)


def test_a_tensor_without_elements_changes_nothing():
    observer = seen(Histogram, [np.zeros((1, 0, 4), np.float32)])
    assert (observer.count, observer.range(), observer.percentile(99.9)) == (0, (0.0, 0.0), (0.0, 0.0))


@pytest.mark.parametrize("percent", [90, 99, 99.9, 100])
@pytest.mark.parametrize("shape", ["normal", "relu", "far from zero", "constant"])
def test_percentiles_are_within_one_bin_of_numpy(percent, shape):
    values = np.random.default_rng(0).normal(0, 3, 20_000).astype(np.float32)
    values = {"relu": np.maximum(values, 0), "far from zero": values + 100, "constant": values * 0 + 5}.get(
        shape, values
    )
    observer = seen(Histogram, np.split(values, 10))
    low, high = observer.percentile(percent)
    bin_width = 2.0**observer.exponent
    assert abs(high - np.percentile(values, percent, method="higher")) <= bin_width
    assert abs(low - np.percentile(values, 100 - percent, method="lower")) <= bin_width


def test_a_percentile_range_never_leaves_the_extremes():
    values = np.array([0.3, 0.5, 7.7], np.float32)
    assert seen(Histogram, [values]).percentile(100) == (np.float32(0.3), np.float32(7.7))


def test_the_outlier_of_a_million_is_left_out():
    values = np.linspace(-1, 1, 1_000_001, dtype=np.float32)
    values[500] = 3.0
    assert seen(Histogram, [values]).percentile(99.999)[1] <= 1.0


def test_an_observer_keeps_the_same_memory_for_any_number_of_values():
    observer = Histogram()
    for seed in range(5):
        observer.observe(np.random.default_rng(seed).normal(0, 10.0**seed, 100_000))
    arrays = [value for value in vars(observer).values() if isinstance(value, np.ndarray)]
    assert [array.nbytes for array in arrays] == [8 * (2 * HALF - 1)]


NATIVE = pytest.mark.skipif(observers._native() is None, reason="the native module is not built")


@NATIVE
@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.integers(1, 70), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_native_counts_and_extremes_are_those_of_numpy(array):
    exponent = observers._exponent(float(np.abs(array).max()) or 1.0)
    counts = np.ones(2 * HALF - 1, np.int64)
    assert observers._native()(array, exponent, counts) == (0, array.min(), array.max())
    np.testing.assert_array_equal(counts, bins_of(array, exponent) + 1)


@NATIVE
def test_native_code_counts_nothing_where_a_value_has_no_bin():
    counts = np.zeros(2 * HALF - 1, np.int64)
    values = np.array([np.nan, np.inf, -np.inf, HALF, -HALF, HALF - 1, 0], np.float32)
    assert observers._native()(values, 0, counts)[0] == 5
    assert not counts.any()


@NATIVE
@settings(max_examples=40, deadline=None)
@given(st.lists(ARRAYS, min_size=1, max_size=6))
def test_without_the_native_module_everything_is_the_same(arrays):
    with_native = seen(Histogram, arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observers, "_native", lambda: None)
        assert state(seen(Histogram, arrays)) == state(with_native)


@pytest.mark.parametrize("kind", [MinMax, Histogram])
def test_the_sign_of_zero_does_not_depend_on_the_order(kind):
    zeros = [np.float32([0.0, 1]), np.float32([-0.0, 1])]
    assert [str(seen(kind, order).low) for order in (zeros, zeros[::-1])] == ["0.0", "0.0"]
