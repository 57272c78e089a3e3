"""Chimera QC-U: what Quadric printed beside what the model says, and what the constants are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from axtool.target_file import load_target, set_values
from benchmarks.validation import (
    chimera,
    chimera_detr,
    chimera_frame,
    chimera_operators,
    chimera_segformer,
    chimera_segformer_frame,
)
from benchmarks.validation.chimera_data import backbone_names, convolutions, totals
from benchmarks.validation.chip import Section
from benchmarks.validation.rows import Row

Sections = Callable[[str], Section]
Misses = Callable[[list[Row]], str]
ROUNDED = 0.02  # a target file may round what the fit gives


def of_set(section: Section, name: str) -> list[Row]:
    found = [row for row in section.rows if row.set == name]
    assert found, f"no figure of '{name}'"
    return found


def test_the_104_convolutions_of_detr_have_the_printed_macs(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_detr.MACS)
    assert len(rows) == 105
    assert misses(rows) == ""


def test_the_convolutions_of_detr_have_93689164800_macs(section: Sections) -> None:
    (whole,) = (row for row in of_set(section("chimera"), chimera_detr.MACS) if row.name == "all 104")
    assert whole.ours == whole.published == 93_689_164_800


def test_the_printed_macs_are_those_of_the_shapes_beside_them() -> None:
    wrong = [
        c.layer for c in convolutions() if c.macs != c.cin * c.cout * c.kernel**2 * c.out_h * c.out_w
    ]  # fmt: skip
    assert wrong == []


def test_every_printed_convolution_is_in_our_backbone_by_its_name() -> None:
    assert sorted(backbone_names()) == sorted(c.layer for c in convolutions())


def test_the_array_of_detr_takes_the_printed_cycles(section: Sections, misses: Misses) -> None:
    assert misses(of_set(section("chimera"), chimera_detr.ARRAY)) == ""


def test_a_cascade_makes_rows_twice_and_leaves_the_macs_what_they_are() -> None:
    assert chimera_detr.cascaded().timing.macs == 93_689_164_800


def test_the_compiled_network_has_the_printed_size(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_frame.NETWORK)
    assert [row.name for row in rows] == [
        "convolutions of the backbone", "feed-forward blocks", "outside the feed-forward blocks", "with them",
    ]  # fmt: skip
    assert misses(rows) == ""
    assert chimera_frame.frame().timing.macs == 101_357_900_800


def test_every_figure_of_the_job_summary_has_its_row(section: Sections) -> None:
    rows = {row.name: row for row in of_set(section("chimera"), chimera_frame.LEDGER)}
    assert rows.keys() >= totals().keys() - {"convolution MACs"}
    assert {"local memory", "temporary external memory"} <= rows.keys()
    assert 0 < rows["on-chip peak"].ours <= 8


def test_the_frame_of_detr_takes_the_printed_cycles_but_for_three_figures_that_are_open(section: Sections) -> None:
    rows = of_set(section("chimera"), chimera_frame.LEDGER)
    assert {row.name for row in rows if row.holds is False} <= {"compute", "data_ocm", "external writes"}


def test_operator_kernels_have_the_utilisation_of_the_datasheet(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_operators.SET)
    assert [row.published for row in rows] == [73.8, 75.4, 83.6, 85.2]
    assert misses(rows) == ""


def test_a_qb16_has_half_the_multipliers_of_a_qc_u() -> None:
    qb, qc = chimera_operators.qb16(), load_target(chimera_operators.FAMILY)
    assert qb.array.input_channels * 2 == qc.array.input_channels
    assert qb.costs == qc.costs


def test_savings_of_segformer_are_those_of_the_primitive_costs(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_segformer.SET)
    assert len(rows) == 14
    assert misses(rows) == ""


def test_both_frames_of_segformer_take_the_printed_cycles(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_segformer_frame.FRAME)
    assert len(rows) == 4
    assert misses(rows) == ""


def test_the_30_deltas_of_segformer_are_those_of_the_program(section: Sections, misses: Misses) -> None:
    rows = of_set(section("chimera"), chimera_segformer_frame.DELTAS)
    assert len(rows) == 30
    assert misses(rows) == ""
    assert all(row.ours > 0 for row in rows)


def test_the_gains_and_the_ranks_of_segformer_hold(section: Sections) -> None:
    sets = (chimera_segformer_frame.FRAME, chimera_segformer_frame.DELTAS)
    rules = [rule for rule in section("chimera").rules if rule.set in sets]
    assert len(rules) == 4
    assert [rule.what for rule in rules if not rule.holds] == []


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [((1, 2, 3), (10, 20, 30), 1.0), ((1, 2, 3), (3, 2, 1), -1.0), ((1, 1, 2), (5, 5, 9), 1.0)],
)
def test_a_rank_correlation_looks_at_the_order_alone(first: Any, second: Any, wanted: float) -> None:
    pairs = list(zip(first, second, strict=True))
    assert chimera_segformer_frame.rank_correlation(pairs) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("cost", "low", "high"),
    [("layernorm_root", 132.3, 161.7), ("row_sum", 73.8, 90.2), ("copy_per_kib", 49.5, 60.5)],
)
def test_a_primitive_cost_is_within_a_tenth_of_the_measured_one(cost: str, low: float, high: float) -> None:
    for name in chimera.TARGETS:
        assert low <= load_target(name).costs[cost] <= high


def test_a_table_saves_38_cycles_of_an_exponential() -> None:
    costs = load_target(chimera_segformer.TARGET).costs
    assert 37.5 * 0.9 <= costs["exp"] - costs["lut"] <= 38 * 1.1


@pytest.mark.parametrize("elements", [128, 1024])
def test_a_gather_costs_28_and_a_quarter_of_its_elements(elements: int) -> None:
    costs = load_target(chimera_segformer.TARGET).costs
    ours = costs["gather"] + elements * costs["gather_per_element"]
    assert ours == pytest.approx(28 + 0.24 * elements, rel=0.1)


def test_scores_of_segformer_fill_the_tiles_that_its_two_rows_stand_for() -> None:
    target = load_target(chimera_segformer.TARGET)
    stages = chimera_segformer.STAGES
    assert chimera_segformer.score_tiles(target, stages[:2]) == 3072
    assert chimera_segformer.score_tiles(target, stages[2:]) == 3328


@pytest.mark.parametrize("constant", ["exp", "gather", "layernorm_root", "entry"])
def test_a_constant_fitted_to_savings_is_what_the_fit_gives(constant: str) -> None:
    target = load_target(chimera_segformer.TARGET)
    of = [saving for saving in chimera_segformer.savings(target) if saving.constant == constant]
    assert target.costs[constant] == pytest.approx(chimera_segformer.fitted_value(of), rel=ROUNDED)


def test_window_shift_is_what_the_kernels_give() -> None:
    target = load_target(chimera_operators.FAMILY)
    assert target.costs["window_shift"] == pytest.approx(chimera_operators.fitted_shift([3, 5, 7]), rel=0.1)


def test_a_dearer_constant_moves_the_figures_that_it_is_fitted_to() -> None:
    target = load_target(chimera_segformer.TARGET)
    dearer = set_values(target, {"costs.exp": 84})
    before, after = (chimera_segformer.savings(t)[0].ours(t) for t in (target, dearer))
    assert after == pytest.approx(before + 42 * 3072)


def test_fitted_constants_are_at_most_a_third_of_the_figures(section: Sections) -> None:
    made = section("chimera")
    assert len(made.fitted) == 8
    assert made.sparing


def test_a_figure_left_out_is_still_predicted_within_a_tenth(section: Sections) -> None:
    far = [x for x in section("chimera").left_out if abs(x.error) > 0.10]
    assert far == []


def test_both_chips_of_the_family_have_the_same_costs() -> None:
    first, second = (load_target(name) for name in chimera.TARGETS)
    assert first.costs == second.costs
