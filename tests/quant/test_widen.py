"""Which tensors become int16: in the order of what they are worth, no more than is needed or allowed."""

import numpy as np
import pytest

from axtool.errors import Exit, NumericsError, UsageError
from axtool.quant.observers import Histogram
from axtool.quant.widen import Budget, budget_of, noisiest, widen

WORTH = {"a": 1.0, "b": 4.0, "c": -1.0, "d": 2.0}  # dB, which add up here
COST = {"a": 5, "b": 60, "c": 1, "d": 10}  # of 1,000 cycles


def score(wide: frozenset[str]) -> float:
    return 20 + sum(WORTH[name] for name in wide)


def cycles(wide: frozenset[str]) -> int:
    return 1000 + sum(COST[name] for name in wide)


def widened(budget: Budget, scored=score) -> list[str]:
    return [step.tensor for step in widen(tuple(WORTH), scored, cycles, budget, lambda done, total: None)]


def test_no_more_tensors_than_the_figure_needs():
    assert widened(Budget(sqnr_db=23)) == ["b"]
    assert widened(Budget(sqnr_db=26)) == ["b", "d"]


def test_a_figure_that_is_reached_already_needs_none():
    assert widened(Budget(sqnr_db=20)) == []


def test_within_cycles_what_is_worth_most_comes_first_and_what_costs_too_much_is_left_out():
    assert widened(Budget(cycles=0.02)) == ["d", "a"]
    assert widened(Budget(cycles=0.5)) == ["b", "d", "a"]


def test_a_tensor_that_makes_it_worse_is_never_taken():
    assert "c" not in widened(Budget(cycles=9))


def test_a_tensor_that_is_worth_nothing_beside_the_others_is_left_out():
    def same_error(wide: frozenset[str]) -> float:
        return 20.0 + (4 if wide & {"a", "b"} else 0)

    assert widened(Budget(cycles=9), same_error) == ["a"]


def test_a_step_says_what_was_reached_and_what_it_costs_with_all_before_it():
    steps = widen(tuple(WORTH), score, cycles, Budget(sqnr_db=26), lambda done, total: None)
    assert [step.to_dict() for step in steps] == [
        {"tensor": "b", "sqnr_db": 24.0, "cycles_added": 0.06},
        {"tensor": "d", "sqnr_db": 26.0, "cycles_added": 0.07},
    ]


def test_a_budget_out_of_reach_says_the_best_that_was_reached():
    with pytest.raises(NumericsError, match=r"30 dB is out of reach: the best is 27.0 dB with 3 tensors") as caught:
        widened(Budget(sqnr_db=30))
    assert caught.value.exit == Exit.NUMERICS
    assert len(caught.value.details) == 3
    with pytest.raises(NumericsError, match=r"within \+2.0% of cycles: the best is 23.0 dB"):
        widened(Budget(sqnr_db=25, cycles=0.02))


@pytest.mark.parametrize("names", [tuple(WORTH), ()])
def test_where_no_output_can_be_measured_the_budget_says_so(names: tuple[str, ...]):
    with pytest.raises(NumericsError, match=r"cannot be measured: .* no outputs but zeros and integers"):
        widen(names, lambda wide: None, cycles, Budget(sqnr_db=30), lambda done, total: None)
    assert widen(names, lambda wide: None, cycles, Budget(cycles=1), lambda done, total: None) == ()


def test_progress_counts_the_candidates():
    heard: list[tuple[int, int]] = []
    widen(tuple(WORTH), score, cycles, Budget(sqnr_db=23), lambda done, total: heard.append((done, total)))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(("text", "share"), [("+5%", 0.05), ("5%", 0.05), (" 0.5 % ", 0.005), ("+120%", 1.2)])
def test_a_share_of_cycles_is_a_percentage(text: str, share: float):
    assert budget_of(None, text) == Budget(None, pytest.approx(share))


@pytest.mark.parametrize("text", ["5", "-5%", "+5", "%", "five%", "1e3%", ""])
def test_what_is_no_share_of_cycles_is_refused(text: str):
    with pytest.raises(UsageError, match="want a share of the cycles such as"):
        budget_of(None, text)


@pytest.mark.parametrize("sqnr", [0.0, -3.0, 121.0, float("nan"), float("inf")])
def test_what_is_no_sqnr_is_refused(sqnr: float):
    with pytest.raises(UsageError, match="want decibels"):
        budget_of(sqnr, None)


def seen(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    histogram.observe(values.astype(np.float32))
    return histogram


def test_of_many_tensors_those_with_the_coarsest_steps_are_tried():
    rng = np.random.default_rng(1)
    spread = {"a": rng.normal(0, 1, 999), "b": np.append(rng.normal(0, 1, 999), 1e4), "c": rng.normal(0, 9, 999)}
    spread["d"] = np.append(rng.normal(0, 1, 999), 1e2)
    assert noisiest("abcd", {name: seen(values) for name, values in spread.items()}, 2) == ("b", "d")


def test_of_few_tensors_all_are_tried():
    assert noisiest("abc", {}, 3) == ("a", "b", "c")


def test_a_tensor_that_was_always_zero_has_no_noise():
    assert noisiest("ab", {"a": seen(np.zeros(9)), "b": seen(np.linspace(0, 1, 9))}, 1) == ("b",)


def test_what_comes_last_is_tried_only_where_the_rest_leaves_the_figure_short():
    names, last = ("a", "c"), ("d",)

    def run(budget: Budget) -> list[str]:
        return [step.tensor for step in widen(names, score, cycles, budget, lambda done, total: None, last)]

    assert run(Budget(sqnr_db=21)) == ["a"]
    assert run(Budget(sqnr_db=23)) == ["a", "d"]
    assert run(Budget(cycles=9)) == ["a"]
