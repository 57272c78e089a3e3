"""A figure beside ours: errors, what holds, ranks, and leaving one out."""

from __future__ import annotations

import pytest

from benchmarks.validation.rows import (
    Row,
    Rule,
    leave_one_out,
    median_error,
    rank_correlation,
    relative,
    total_error,
)


def row(published: float, ours: float, **more: object) -> Row:
    return Row("set", "name", "cycles", published, ours, **more)  # type: ignore[arg-type]


def test_the_error_is_a_signed_fraction_of_what_is_published() -> None:
    assert row(200.0, 190.0).error == pytest.approx(-0.05)


def test_the_error_of_an_absolute_figure_is_a_difference() -> None:
    assert row(73.8, 75.3, absolute=True).error == pytest.approx(1.5)


@pytest.mark.parametrize(("ours", "holds"), [(103.0, True), (97.0, True), (103.1, False), (96.9, False)])
def test_a_figure_holds_up_to_its_tolerance_on_both_sides(ours: float, holds: bool) -> None:
    assert row(100.0, ours, tolerance=0.03).holds is holds


def test_a_figure_without_tolerance_neither_holds_nor_fails() -> None:
    assert row(100.0, 300.0).holds is None


def test_nothing_is_measured_against_zero() -> None:
    with pytest.raises(ValueError, match="against 0"):
        relative(1.0, 0.0)


def test_the_median_takes_the_size_of_errors() -> None:
    assert median_error([row(100, 90), row(100, 101), row(100, 105)]) == pytest.approx(0.05)


def test_errors_cancel_in_the_total() -> None:
    assert total_error([row(100, 90), row(100, 110)]) == pytest.approx(0.0)


def test_a_rule_at_least_fails_below_its_bound() -> None:
    assert [Rule("s", "w", x, 0.9, "at least").holds for x in (0.89, 0.9, 0.91)] == [False, True, True]


def test_ranks_do_not_ask_for_a_straight_line() -> None:
    assert rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1.0)


def test_the_opposite_order_has_rank_correlation_minus_one() -> None:
    assert rank_correlation([1, 2, 3], [9, 5, 1]) == pytest.approx(-1.0)


def test_ties_share_their_mean_rank() -> None:
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)


@pytest.mark.parametrize("values", [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, 1.0], [1.0, 2.0])])
def test_lists_without_ranks_are_refused(values: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match=r"rank|values"):
        rank_correlation(*values)


def test_a_figure_left_out_is_predicted_from_the_others_alone() -> None:
    published = {"a": 10.0, "b": 20.0, "c": 60.0}
    left = leave_one_out(published, lambda rest, name: sum(rest.values()) / len(rest), "cycles")
    assert [(x.name, x.predicted) for x in left] == [("a", 40.0), ("b", 35.0), ("c", 15.0)]
