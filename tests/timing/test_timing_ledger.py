"""The ledger closes, the queues behave, and every figure says what bound it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.plan.build import plan
from axtool.target import Target
from axtool.target_file import load_target, set_values
from axtool.timing.clock import time_plan
from axtool.timing.inside import flows, operands_inside
from axtool.timing.lanes import LANES
from axtool.timing.ledger import CATEGORIES, Timing
from axtool.types import Command, Event, Plan, Program
from tests.plan.hand_programs import Net, every_op, residual_net

CHIP = load_target("qc-u-1d5-8mb")
SMALL = set_values(CHIP, {"memory.ocm_bytes": "16KiB"})
SPILLED = plan(residual_net(), SMALL)


def timed(program: Program, target: Target = CHIP) -> Timing:
    return time_plan(plan(program, target), target)


@pytest.fixture(scope="module", params=["resident", "spilled", "every op"])
def case(request) -> tuple[Plan, Timing]:
    program, target = {
        "resident": (residual_net(), CHIP), "spilled": (residual_net(), SMALL), "every op": (every_op(), SMALL),
    }[request.param]  # fmt: skip
    made = plan(program, target)
    return made, time_plan(made, target)


def test_the_total_is_the_sum_of_the_categories(case):
    _, timing = case
    assert timing.total == sum(timing.ledger.values()) == sum(layer.total for layer in timing.layers)


def test_every_layer_is_charged_in_the_six_categories(case):
    _, timing = case
    assert all(tuple(layer.ledger) == CATEGORIES for layer in timing.layers)
    assert all(cycles >= 0 for layer in timing.layers for cycles in layer.ledger.values())


def test_other_is_the_sum_of_its_causes(case):
    _, timing = case
    assert timing.ledger["other"] == sum(timing.causes.values())
    assert all(layer.ledger["other"] == sum(layer.causes.values()) for layer in timing.layers)


def test_the_frame_is_entered_once_and_each_flow_drained(case):
    made, timing = case
    flow_of = flows(made, operands_inside(made, CHIP))
    count = len({flow_of[command.layer] for command in made.commands if command.kind == "compute"})
    assert timing.causes == {"entry": 900, "fence": 32 * (count - 1), "drain": 7 * count}


def test_the_events_of_a_lane_never_overlap(case):
    _, timing = case
    assert {e.lane for e in timing.events} <= set(LANES)
    for lane in LANES:
        events = [e for e in timing.events if e.lane == lane]
        assert all(a.end <= b.start for a, b in pairwise(events))


def test_every_event_is_of_the_category_of_its_lane(case):
    _, timing = case
    assert all(event.category == LANES[event.lane] for event in timing.events)


def test_every_cycle_is_charged_to_the_first_busy_lane(case):
    _, timing = case
    owner = ["nothing"] * timing.total
    for lane in reversed(LANES):
        for event in timing.events:
            if event.lane == lane:
                owner[event.start : event.end] = [event.category] * (event.end - event.start)
    assert {name: owner.count(name) for name in CATEGORIES} == timing.ledger


def moves(made: Plan, timing: Timing) -> list[tuple[Command, Event]]:
    """The transfers in the order of the commands, with when they run: each lane keeps that order."""
    lanes = {lane: iter([e for e in timing.events if e.lane == lane]) for lane in ("dma read", "dma write")}
    lane_of = {"load": "dma read", "store": "dma write"}
    return [(c, next(lanes[lane_of[c.kind]])) for c in made.commands if c.kind in lane_of]


@pytest.mark.parametrize("latency", [200, 5000])
@pytest.mark.parametrize("size", ["8KiB", "16KiB", "24KiB", "32KiB"])
def test_a_transfer_waits_for_those_in_front_of_it_that_use_its_bytes(size: str, latency: int):
    target = set_values(CHIP, {"memory.ocm_bytes": size, "external.latency_cycles": latency})
    made = plan(residual_net(), target)
    done: list[tuple[Command, Event]] = []
    met = 0
    for command, event in moves(made, time_plan(made, target)):
        source, place = command.reads[0], command.writes[0]
        for before, ended in done:
            read, written = before.reads[0], before.writes[0]
            pairs = ((source, written), (place, read), (place, written))
            if any(a.memory == b.memory and a.meets(b.offset, b.end) for a, b in pairs):
                met += 1
                assert event.start >= ended.end, (before, command)
        done.append((command, event))
    assert met > 10


def test_no_event_ends_after_the_frame(case):
    _, timing = case
    assert max(event.end for event in timing.events) == timing.total


def test_bytes_are_those_of_the_commands(case):
    made, timing = case
    sizes = {"load": 0, "store": 0}
    for command in made.commands:
        if command.kind in sizes:
            tile = command.reads[0].tile
            sizes[command.kind] += tile.h * tile.w * tile.n
    assert (timing.read_bytes, timing.write_bytes) == (sizes["load"], sizes["store"])


def test_no_frame_is_faster_than_its_transfers_or_its_macs(case):
    _, timing = case
    rate = CHIP.external.read_bytes_per_s / CHIP.clock_hz
    assert timing.total >= max(timing.read_bytes / rate, timing.write_bytes / rate, timing.ledger["mac"])


def test_a_document_of_a_timing_is_json(case):
    _, timing = case
    document = json.loads(json.dumps(timing.to_dict()))
    assert document["cycles"] == timing.total
    assert document["latency_ms"] == pytest.approx(1e3 * timing.total / 1.5e9)
    assert document["frames_per_s"] == pytest.approx(1.5e9 / timing.total)
    assert [layer["cycles"] for layer in document["layers"]] == [layer.total for layer in timing.layers]


def test_a_timing_is_the_same_every_time(case):
    made, timing = case
    target = CHIP if made.sizes["ocm"] > 2**14 else SMALL
    assert time_plan(made, target) == timing


def test_weights_that_arrive_behind_the_layer_in_front_cost_nothing():
    net = Net(128, 128, 32)
    timing = timed(net.program(net.conv(net.conv("x", 64), 64)))
    work = [event.end for event in timing.events if not event.lane.startswith("dma")]
    assert timing.layers[1].read_bytes > 0
    assert timing.layers[1].ledger["data_external"] == timing.total - max(work)  # the last store alone


def test_the_first_load_is_waited_for():
    net = Net(64, 64, 32)
    timing = timed(net.program(net.lut("x")), set_values(CHIP, {"external.in_flight": 1}))
    rate = CHIP.external.read_bytes_per_s / CHIP.clock_hz
    read, write = 2 * 200 + (64 * 64 * 32 + 256) / rate, 200 + 64 * 64 * 32 / rate
    hidden = 900 + 7  # behind the entry of the frame and the drain of the layer
    assert timing.ledger["data_external"] == pytest.approx(read + write - hidden, abs=4)


def test_spilling_costs_external_bytes_and_cycles():
    resident, spilled = timed(residual_net()), timed(residual_net(), SMALL)
    assert spilled.read_bytes > resident.read_bytes
    assert spilled.total > resident.total


@given(st.floats(1.1, 50))
@settings(max_examples=20, deadline=None)
def test_more_bandwidth_is_never_slower(factor: float):
    fast = replace(SMALL, external=replace(SMALL.external, read_bytes_per_s=factor * 32e9))
    assert time_plan(SPILLED, fast).total <= time_plan(SPILLED, SMALL).total


@given(st.integers(0, 5000))
@settings(max_examples=20, deadline=None)
def test_more_latency_is_never_faster(cycles: int):
    slow = replace(SMALL, external=replace(SMALL.external, latency_cycles=200 + cycles))
    assert time_plan(SPILLED, slow).total >= time_plan(SPILLED, SMALL).total


def test_a_bound_names_the_bytes_and_the_rate():
    net = Net(256, 256, 16)
    fast = set_values(CHIP, {"external.write_bytes_per_s": "320GB/s", "costs.flow": 0})
    timing = timed(net.program(net.lut("x")), fast)
    assert timing.layers[0].bound == "bound by external reads: 1.0 MiB at 21.3 B/cycle"


@pytest.mark.parametrize(("h", "w", "used"), [(1, 2048, "100 %"), (1536, 1, "75 %"), (48, 32, "75 %"), (8, 8, "6.2 %")])
def test_a_bound_names_the_elements_that_have_a_pixel(h: int, w: int, used: str):
    net = Net(h, w, 512)
    near = set_values(CHIP, {"external.read_bytes_per_s": "9TB/s", "external.write_bytes_per_s": "9TB/s"})
    near = replace(near, costs=dict(near.costs) | {"lut": 1e4})
    assert timed(net.program(net.lut("x")), near).layers[0].bound == f"bound by the ALU: {used} of the elements"


def test_a_layer_of_many_macs_is_bound_by_the_array():
    net = Net(96, 96, 512)
    layer = timed(net.program(net.conv("x", 512))).layers[0]
    assert layer.macs == 96 * 96 * 512 * 512 * 9
    assert layer.bound == "bound by the MAC array: 99 % of it in use"


def test_utilisation_is_of_the_peak_over_all_cycles():
    net = Net(32, 32, 512)
    timing = timed(net.program(net.conv("x", 512)))
    assert timing.utilisation == pytest.approx(32 * 32 * 512 * 512 * 9 / (16384 * timing.total))


def test_a_program_without_layers_takes_no_time():
    timing = timed(Net(4, 4, 3).program("x"))
    assert (timing.total, timing.frames_per_s, timing.utilisation) == (0, 0.0, 0.0)
