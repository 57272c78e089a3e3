"""Metis: predicted frames a second beside those of the vendor's model zoo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from axtool.target_file import load_target
from benchmarks.validation import metis
from benchmarks.validation.chip import Section, constants_of
from benchmarks.validation.networks import NETWORKS
from benchmarks.validation.rows import Row, rank_correlation
from benchmarks.validation.timing import timed

# Small, large, depthwise, and with weights that do not fit beside the cores: a second or two each.
FEW = ("mobilenet-v2", "regnet-x-1.6gf", "resnet18", "resnet50", "retinaface-mobile", "yolov5n")


@pytest.fixture(scope="module")
def few() -> list[Row]:
    return metis.rows_of(line for line in metis.published() if line.network in FEW)


def test_every_published_line_has_a_network_and_stands_there_once():
    names = [line.network for line in metis.published()]
    assert len(names) == len(set(names)) >= 70
    assert set(names) <= set(NETWORKS)


def test_no_prediction_is_below_what_a_whole_pipeline_reached(few: list[Row]):
    assert {row.name: round(row.ours) for row in few if row.ours < row.published} == {}


def test_no_prediction_is_more_than_four_times_what_a_pipeline_reached(few: list[Row]):
    assert {row.name: round(row.ours) for row in few if row.ours > 4 * row.published} == {}


def test_predictions_come_in_the_published_order(few: list[Row]):
    assert len(few) == len(FEW)
    assert rank_correlation([row.ours for row in few], [row.published for row in few]) >= metis.LEAST_RANK


def test_no_number_is_fitted_and_one_choice_is():
    assert [constant.path for constant in constants_of(metis.TARGETS)["fitted"]] == ["array.grouped"]


def test_frames_of_all_cores_are_reported():
    timing = timed("squeezenet1.1", load_target("metis"))
    assert timing.frames_per_s == pytest.approx(4 * 800e6 / timing.total)


def test_weights_that_do_not_fit_beside_the_cores_come_from_external_memory_each_frame():
    chip = load_target("metis")
    small, large = timed("resnet18", chip), timed("regnet-x-1.6gf", chip)
    assert small.read_bytes < 1 << 20  # a picture
    assert large.read_bytes > 10 << 20


@pytest.mark.slow
def test_the_whole_table_comes_in_the_published_order_and_never_below(section: Callable[[str], Section]):
    found = section("metis")
    assert {rule.what: rule.figure for rule in found.rules if not rule.holds} == {}
