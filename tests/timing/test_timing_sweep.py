"""The sweep over time: which lane and which layer a cycle belongs to."""

from __future__ import annotations

import pytest

from axtool.timing.lanes import LANES, TRANSFERS, Lane
from axtool.timing.ledger import CATEGORIES, CAUSES
from axtool.timing.sweep import Charges, sweep


def charged(*spans: tuple[str, int, int, int], layers: int = 3) -> Charges:
    """Charges of spans (lane, start, end, layer)."""
    lanes = {name: Lane(name) for name in LANES}
    for name, start, end, layer in spans:
        lanes[name].add(start, end, layer, CAUSES.index("fence") if name == "control" else -1)
    return sweep(lanes, layers)


def ledger(charges: Charges) -> dict[tuple[int, str], int]:
    rows = enumerate(charges.ledger.tolist())
    return {(layer, name): n for layer, row in rows for name, n in zip(CATEGORIES, row, strict=True) if n}


ORDER = ["mac", "vector", "array", "port", "control", "dma read", "near read", "dma write"]


@pytest.mark.parametrize("at", range(len(ORDER) - 1))
def test_a_cycle_belongs_to_the_first_busy_lane_of_the_order(at: int):
    found = ledger(charged((ORDER[at], 0, 7, 0), (ORDER[at + 1], 0, 10, 1)))
    assert found == {(0, LANES[ORDER[at]]): 7, (1, LANES[ORDER[at + 1]]): 3}


def test_a_lane_comes_back_when_the_one_in_front_of_it_is_idle():
    found = ledger(charged(("mac", 2, 4, 0), ("mac", 6, 8, 1), ("port", 0, 10, 2)))
    assert found == {(0, "mac"): 2, (1, "mac"): 2, (2, "data_ocm"): 6}


def test_a_wait_is_charged_to_the_layer_whose_bytes_are_on_their_way():
    charges = charged(("mac", 0, 5, 0), ("dma read", 3, 9, 2), ("mac", 9, 12, 1))
    assert ledger(charges) == {(0, "mac"): 5, (2, "data_external"): 4, (1, "mac"): 3}
    assert charges.waits.sum(axis=0).tolist() == [4, 0, 0]


def test_reads_and_writes_that_are_waited_for_are_told_apart():
    charges = charged(("dma read", 0, 4, 0), ("near read", 2, 6, 0), ("dma write", 0, 9, 0))
    assert dict(zip(TRANSFERS, charges.waits[0].tolist(), strict=True)) == {
        "dma read": 4, "near read": 2, "dma write": 3,
    }  # fmt: skip


def test_what_control_is_busy_with_behind_an_engine_is_no_cause():
    charges = charged(("array", 0, 4, 0), ("control", 0, 10, 1))
    assert charges.causes[1].tolist() == [0, 6, 0]
    assert charges.ledger[1, CATEGORIES.index("other")] == 6


def test_a_cycle_in_which_nothing_runs_is_refused():
    with pytest.raises(AssertionError, match="nothing runs from cycle 4 on"):
        charged(("mac", 0, 4, 0), ("mac", 6, 8, 0))


def test_a_frame_of_nothing_has_no_cycles():
    assert charged().ledger.sum() == 0


def test_spans_that_continue_each_other_are_one_event_unless_they_are_requests():
    lanes = Lane("mac"), Lane("dma read")
    for lane in lanes:
        lane.add(0, 4, 0)
        lane.add(4, 9, 0)
        lane.add(9, 10, 1)
    assert [len(list(lane.events())) for lane in lanes] == [2, 3]


def test_a_span_that_begins_before_the_one_in_front_has_ended_is_refused():
    lane = Lane("mac")
    lane.add(0, 4, 0)
    with pytest.raises(AssertionError, match="3 is before 4"):
        lane.add(3, 5, 0)
