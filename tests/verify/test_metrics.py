"""The figures of a comparison, held against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from axtool.graph.parts import Part
from axtool.verify.metrics import Comparison, channel_axis, decibels

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)
VALUES = st.floats(-1e3, 1e3, width=32)
ARRAYS = hnp.arrays(np.float32, SHAPES, elements=VALUES)
PAIRS = SHAPES.flatmap(lambda s: st.tuples(*[hnp.arrays(np.float32, s, elements=VALUES)] * 2))


def compared(reference: np.ndarray, result: np.ndarray, parts: tuple[Part, ...] = ()) -> Comparison:
    comparison = Comparison("y", parts)
    comparison.add(reference, result)
    return comparison


@given(PAIRS)
def test_sqnr_is_signal_over_noise(pair: tuple[np.ndarray, np.ndarray]) -> None:
    ref, got = (a.astype(np.float64) for a in pair)
    noise, signal = ((ref - got) ** 2).sum(), (ref**2).sum()
    figure = compared(*pair).sqnr_db
    if noise == 0:
        assert figure == math.inf
    elif signal == 0:
        assert figure == -math.inf
    else:
        assert figure == pytest.approx(10 * math.log10(signal / noise))


@given(ARRAYS)
def test_a_tensor_equals_itself(array: np.ndarray) -> None:
    figures = compared(array, array.copy())
    assert figures.exact
    assert figures.max_error == 0
    assert figures.cosine == pytest.approx(1)
    assert figures.dead_channels == []


@given(PAIRS)
def test_a_cosine_lies_between_minus_one_and_one(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert -1 <= compared(*pair).cosine <= 1


@given(PAIRS, st.floats(0.01, 100))
def test_sqnr_does_not_depend_on_the_unit(pair: tuple[np.ndarray, np.ndarray], factor: float) -> None:
    scaled = compared(*(a.astype(np.float64) * factor for a in pair)).sqnr_db
    assert scaled == pytest.approx(compared(*pair).sqnr_db, abs=1e-6)


@settings(max_examples=50)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_samples_one_by_one_give_the_figures_of_all_at_once(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ref = rng.normal(size=(count, 3, 4, 4))
    got = ref + rng.normal(size=ref.shape) * 0.1
    streamed = Comparison("y")
    for a, b in zip(ref, got, strict=True):
        streamed.add(a[None], b[None])
    whole = compared(ref, got)
    assert streamed.sqnr_db == pytest.approx(whole.sqnr_db)
    assert streamed.cosine == pytest.approx(whole.cosine)
    assert streamed.max_error == whole.max_error
    assert streamed.worst_channel is not None
    assert whole.worst_channel is not None
    assert streamed.worst_channel == pytest.approx(whole.worst_channel)


@given(hnp.arrays(np.float32, (1, 4, 3, 3), elements=VALUES), st.integers(0, 3))
def test_the_worst_channel_is_the_one_with_the_noise(array: np.ndarray, bad: int) -> None:
    ref = array + np.where(array >= 0, 1, -1)  # every channel has signal
    got = ref.copy()
    got[0, bad] += 0.5
    figure = compared(ref, got).worst_channel
    assert figure is not None
    assert figure[0] == bad


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1, 8, 4, 4), 1),
        ((1, 10), 1),
        ((1, 84, 2100), 1),
        ((1, 2100, 84), 2),
        ((5,), None),
        ((), None),
        ((1, 1, 9, 9), None),
        ((1, 255, 13, 13), 1),
        ((1, 80, 80, 3), 3),
        ((1, 60, 80, 1), None),
    ],
)
def test_the_channel_axis_of_common_outputs(shape: tuple[int, ...], axis: int | None) -> None:
    assert channel_axis(shape) == axis


def test_the_graph_knows_the_channels_better_than_the_shape() -> None:
    assert channel_axis((1, 8, 40, 4), 1) == 1
    assert channel_axis((1, 4, 9, 9), 3) == 3


def test_a_single_channel_has_no_worst_and_no_dead_one() -> None:
    ref = np.random.default_rng(0).normal(size=(1, 9, 8, 1))
    figures = compared(ref, np.zeros_like(ref))
    assert (figures.worst_channel, figures.dead_channels) == (None, [])


def test_a_whole_figure_hides_scores_that_are_all_zero_and_the_parts_show_them() -> None:
    rng = np.random.default_rng(0)
    ref = np.concatenate([rng.uniform(0, 640, (1, 4, 50)), rng.uniform(0, 1, (1, 2, 50))], 1)
    got = ref.copy()
    got[:, :4] += rng.normal(0, 0.5, (1, 4, 50))
    got[:, 4:] = 0
    figures = compared(ref, got, (Part("boxes", 1, 0, 4), Part("scores", 1, 4, 6)))
    assert figures.sqnr_db > 40
    assert figures.worst_part is not None
    part, figure = figures.worst_part
    assert (part.name, round(figure, 1)) == ("scores", 0.0)
    assert figures.dead_channels == [4, 5]


def test_a_channel_that_never_moves_in_the_reference_is_not_dead() -> None:
    ref = np.random.default_rng(0).normal(size=(1, 3, 5, 5))
    ref[:, 1] = 0.25
    assert compared(ref, ref * [[[[1.0]], [[1.0]], [[1.0]]]]).dead_channels == []


def test_a_channel_is_not_called_dead_after_a_handful_of_values() -> None:
    ref, got = np.array([[0.0, 5.0]]), np.array([[0.0, 4.0]])
    comparison = compared(ref, got)
    comparison.add(np.array([[0.01, 7.0]]), np.array([[0.0, 6.0]]))
    assert comparison.dead_channels == []


def test_values_that_are_finite_in_only_one_are_counted() -> None:
    ref = np.array([1.0, np.nan, np.inf, -np.inf, 2.0])
    assert compared(ref, ref.copy()).mismatched == 0
    assert compared(ref, np.array([1.0, np.nan, np.inf, np.inf, np.nan])).mismatched == 2


def test_two_zero_tensors_are_exact_and_one_is_without_signal() -> None:
    zero, one = np.zeros((1, 4)), np.ones((1, 4))
    assert compared(zero, zero).to_dict()["exact"]
    figures = compared(zero, one).to_dict()
    assert (figures["sqnr_db"], figures["exact"], figures["cosine"]) == (None, False, 0.0)


def test_an_empty_tensor_has_no_error() -> None:
    assert compared(np.zeros((1, 0, 4)), np.zeros((1, 0, 4))).exact


def test_another_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match="want"):
        compared(np.zeros((1, 2)), np.zeros((2, 1)))


def test_top1_counts_rows() -> None:
    ref = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    got = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 1.0]])
    assert compared(ref, got).to_dict()["top1_agreement"] == 0.5


def test_decibels_of_powers_of_ten() -> None:
    assert decibels(100.0, 1.0) == pytest.approx(20)
