"""What board settings change: modelled time, and room in the board's memory. Never bits."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from axtool.artefact import axm
from axtool.errors import FitError
from axtool.runtime.device_config import BadDeviceConfig, BoardConfig
from axtool.runtime.devices.settings import (
    frame_seconds,
    require_room,
    require_settings,
    resident_bytes,
    target_under,
)
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from tests.conftest import Tiny

METIS = load_target("metis")
CLOCK = METIS.clock_hz  # of the board: that of the chip
NOTHING = BoardConfig()


@pytest.fixture(scope="module")
def plans(tiny_models: Tiny):
    return [stage.plan for stage in axm.read(tiny_models / "two.axm").device_stages]


def test_settings_that_say_nothing_leave_the_chip_as_it_is():
    assert target_under(METIS, CLOCK, NOTHING) == METIS
    assert target_under(METIS, CLOCK, BoardConfig(clock=800, mvm_limitation=100)) == METIS


def test_a_clock_is_of_the_core_alone_and_external_memory_keeps_its_bytes_a_second_and_its_latency():
    slow = target_under(METIS, CLOCK, BoardConfig(clock=200))
    assert slow.clock_hz == 200e6
    assert slow.read_bytes_per_cycle == 4 * METIS.read_bytes_per_cycle
    assert slow.external.latency_cycles / slow.clock_hz == METIS.external.latency_cycles / METIS.clock_hz
    assert slow.memory == METIS.memory


def test_a_chip_of_another_clock_is_slowed_in_the_ratio_in_which_the_board_is():
    chip = load_target("qc-u-1d7-16mb")
    assert target_under(chip, 800e6, BoardConfig(clock=200)).clock_hz == chip.clock_hz / 4
    assert target_under(chip, 800e6, BoardConfig(clock=800)) == chip == target_under(chip, 800e6, None)


def test_a_latency_that_is_no_whole_number_of_cycles_is_not_cut():
    assert target_under(METIS, CLOCK, BoardConfig(clock=333)).external.latency_cycles == ceil(100 * 333 / 800)


def test_a_frame_takes_longer_at_half_the_clock_but_never_more_than_twice_as_long(plans):
    usual, slow = (sum(frame_seconds(plans, METIS, CLOCK, BoardConfig(clock=clock))) for clock in (800, 400))
    assert 1.2 * usual < slow <= 2.001 * usual


def test_a_limited_matrix_unit_makes_a_frame_longer_and_the_less_it_may_do_the_more(plans):
    times = [
        sum(frame_seconds(plans, METIS, CLOCK, BoardConfig(mvm_limitation=percent))) for percent in (100, 50, 10, 1)
    ]
    assert times == sorted(times)
    assert times[-1] > 2 * times[0]


def test_a_limited_matrix_unit_multiplies_the_cycles_of_the_array_alone(plans):
    usual, limited = (time_plan(plans[0], target_under(METIS, CLOCK, BoardConfig(mvm_limitation=p))) for p in (100, 10))
    assert limited.read_bytes == usual.read_bytes
    assert limited.macs == usual.macs
    assert limited.ledger["mac"] > 5 * usual.ledger["mac"]


def test_each_stage_has_its_own_time_and_it_is_that_of_timing(plans):
    assert frame_seconds(plans, METIS, CLOCK, NOTHING) == tuple(time_plan(plan, METIS).latency_s for plan in plans)


def test_a_model_needs_the_external_memory_of_all_its_stages(plans):
    assert resident_bytes(plans) == sum(plan.sizes["ext"] for plan in plans) > 0
    assert resident_bytes([replace(plans[0], sizes={})]) == 0


@pytest.mark.parametrize(
    ("taken", "settings", "fits"),
    [
        (0, NOTHING, True), (900, None, True), (900, NOTHING, True), (901, NOTHING, False),
        (0, BoardConfig(ddr_size=100), True), (1, BoardConfig(ddr_size=100), False),
        (0, BoardConfig(ddr_size=99), False), (950, BoardConfig(ddr_size=10_000), False),
    ],
)  # fmt: skip
def test_models_fit_up_to_the_last_byte_that_a_board_opens_to_them(taken: int, settings: BoardConfig, fits: bool):
    if fits:
        require_room("m.axm", 100, taken, 1000, settings, "metis-0:1:0")
        return
    with pytest.raises(FitError, match=r"metis-0:1:0: 'm.axm' needs 100 bytes of the board's memory") as failed:
        require_room("m.axm", 100, taken, 1000, settings, "metis-0:1:0")
    assert failed.value.hint


def test_a_window_that_is_too_small_is_told_with_one_that_is_enough():
    with pytest.raises(
        FitError, match=r"beside 50 of other models; it has 99, ddr_size opens 99 of its 1,000"
    ) as failed:
        require_room("m.axm", 100, 50, 1000, BoardConfig(ddr_size=99), "metis-0:1:0")
    assert failed.value.hint == "a ddr_size of at least 150 is enough"


def test_a_clock_that_the_board_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(ValueError, match="metis-0:1:0: clock 500 MHz is none of the board's") as failed:
        require_settings(BoardConfig(clock=500), "metis-0:1:0", [800, 100, 400], 2**30)
    assert failed.value.hint == "it has 100, 400, 800 MHz"


def test_more_memory_than_the_board_has_is_refused():
    with pytest.raises(BadDeviceConfig, match=r"ddr_size 1,025 bytes is more than the board has"):
        require_settings(BoardConfig(ddr_size=1025), "metis-0:1:0", [800], 1024)


def test_a_board_without_a_list_of_clocks_runs_at_any():
    require_settings(BoardConfig(clock=123, ddr_size=10), "metis-0:1:0", [], 10)
