"""Properties of the clock on random plans: what may never make a frame longer, and what never overlaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.plan.build import plan
from axtool.target import Target
from axtool.target_file import list_targets, load_target, set_values
from axtool.timing.clock import time_plan
from axtool.timing.lanes import LANES
from axtool.timing.ledger import CATEGORIES, Timing
from axtool.timing.transfers import Channel, Paths
from axtool.types import Plan, Program, Tile, View
from tests.plan.hand_programs import Net, every_op, residual_net

CHIP = load_target("qc-u-1d5-8mb")
PLANS = 6


def changed(target: Target, **values: object) -> Target:
    return set_values(target, {key.replace("__", "."): value for key, value in values.items()})


STYLES = {
    "turns": CHIP,
    "pipelined": changed(CHIP, engines__pipelined="true"),
    "small array": changed(
        CHIP, engines__pipelined="true", array__rows=8, array__columns=1, array__output_channels=16,
        array__weights_bytes_per_cycle=16, external__in_flight=4, external__duplex="false", costs__burst=2,
        memory__near_bytes="2KiB", memory__near_bytes_per_cycle=32,
    ),
    "weights held in turns": changed(CHIP, array__output_channels=16, array__weights_bytes_per_cycle=8),
}  # fmt: skip


def random_program(seed: int) -> Program:
    """A few layers with branches and joins, of odd sizes."""
    random = np.random.default_rng(seed)
    net = Net(int(random.integers(5, 40)), int(random.integers(5, 40)), int(random.integers(1, 20)), seed)
    names = [net.conv("x", int(random.integers(1, 40)), 3)]
    for _ in range(int(random.integers(3, 7))):
        x = names[-1]
        same = [name for name in names[:-1] if net.dims(name) == net.dims(x)]
        match random.integers(0, 7):
            case 0 | 1:
                names.append(net.conv(x, int(random.integers(1, 50)), int(random.choice([1, 3]))))
            case 2:
                names.append(net.conv(net.conv(x, 24, 1), 24, 3, stride=2))
            case 3:
                names.append(net.depthwise(x))
            case 4 if same:
                names.append(net.add(x, same[int(random.integers(0, len(same)))]))
            case 5 if same:
                names.append(net.concat(x, same[0]))
            case _:
                names.append(net.add(net.conv(x, net.dims(x)[2], 1), x))
    return net.program(names[-1])


@cache
def made(seed: int, style: str) -> Plan:
    size = ["12KiB", "24KiB", "48KiB", "1MiB"][seed % 4]
    return plan(random_program(seed), changed(STYLES[style], memory__ocm_bytes=size))


seeds = st.integers(0, PLANS - 1)
styles = st.sampled_from(sorted(STYLES))
many = settings(max_examples=25, deadline=None)


@given(seeds, styles)
@many
def test_the_ledger_of_every_layer_closes(seed: int, style: str):
    timing = time_plan(made(seed, style), STYLES[style])
    assert timing.total == sum(timing.ledger.values()) == max(event.end for event in timing.events)
    assert all(layer.ledger["other"] == sum(layer.causes.values()) for layer in timing.layers)
    assert all(cycles >= 0 for layer in timing.layers for cycles in layer.ledger.values())


@pytest.mark.parametrize("name", list_targets())
@pytest.mark.parametrize("program", [residual_net, every_op])
def test_the_ledger_closes_on_every_chip_of_the_package(name: str, program: Callable[[], Program]):
    chip = load_target(name)
    timing = time_plan(plan(program(), chip), chip)
    assert timing.total == sum(timing.ledger.values()) == max(event.end for event in timing.events)
    assert timing.frames_per_s == pytest.approx(chip.cores * chip.clock_hz / timing.total)


@given(seeds, styles)
@many
def test_each_cycle_is_charged_once_to_the_first_busy_lane(seed: int, style: str):
    timing = time_plan(made(seed, style), STYLES[style])
    owner = np.full(timing.total, len(LANES), np.int8)
    for number, lane in reversed(list(enumerate(LANES))):
        for event in timing.events:
            if event.lane == lane:
                owner[event.start : event.end] = number
    cycles = dict.fromkeys((*CATEGORIES, "nothing"), 0)
    for category, count in zip((*LANES.values(), "nothing"), np.bincount(owner, minlength=len(LANES) + 1), strict=True):
        cycles[category] += int(count)
    assert cycles == {**timing.ledger, "nothing": 0}


@given(seeds, styles)
@many
def test_no_event_overlaps_another_of_its_lane(seed: int, style: str):
    events = time_plan(made(seed, style), STYLES[style]).events
    for lane in LANES:
        mine = [event for event in events if event.lane == lane]
        assert all(a.end <= b.start for a, b in pairwise(mine)), lane


@given(seeds, styles, st.sampled_from([
    ("memory.ocm_bytes_per_cycle", 100), ("external.read_bytes_per_s", 50e9), ("external.write_bytes_per_s", 50e9),
    ("external.latency_cycles", 20), ("external.in_flight", 9), ("external.duplex", True), ("costs.requantize", 4),
    ("costs.burst", 0), ("costs.flow", 0), ("memory.near_bytes_per_cycle", 64), ("array.input_channels", 32),
    ("array.fold", "window"), ("engines.pipelined", True),
]))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_faster_part_never_makes_a_frame_longer(seed: int, style: str, change: tuple[str, object]):
    path, value = change
    target = changed(STYLES[style], costs__flow=9)
    if path == "memory.near_bytes_per_cycle" and not target.memory.near_bytes:
        return
    if path.startswith("array."):  # a larger block of weights takes longer to enter: only where those cost nothing
        target = replace(target, array=replace(target.array, weights_bytes_per_cycle=None))
    assert total(seed, style, set_values(target, {path: value})) <= total(seed, style, target)


def total(seed: int, style: str, target: Target) -> int:
    return time_plan(made(seed, style), target).total


@given(seeds, styles)
@many
def test_no_frame_is_shorter_than_the_work_of_any_lane(seed: int, style: str):
    timing = time_plan(made(seed, style), STYLES[style])
    for lane in LANES:
        assert timing.total >= sum(event.end - event.start for event in timing.events if event.lane == lane)


@given(seeds, st.sampled_from(["turns", "weights held in turns"]))
@many
def test_engines_that_take_turns_never_compute_while_macs_run(seed: int, style: str):
    timing = time_plan(made(seed, style), STYLES[style])
    engines = ("mac", "vector", "array", "control")
    work = sorted((e.start, e.end) for e in timing.events if e.lane in engines)
    port = [(e.start, e.end) for e in timing.events if e.lane == "port"]
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(work))
    beside = {"array", "control"}
    others = [(e.start, e.end) for e in timing.events if e.lane in beside]
    assert not any(a < d and c < b for a, b in port for c, d in others)


@pytest.mark.parametrize("seed", range(PLANS))
def test_macs_do_not_depend_on_when_they_run(seed: int):
    turns, beside = (time_plan(made(seed, "turns"), STYLES[style]) for style in ("turns", "pipelined"))
    assert [layer.macs for layer in turns.layers] == [layer.macs for layer in beside.layers]
    assert turns.read_bytes == beside.read_bytes
    assert busy(turns, "mac") == busy(beside, "mac")


def busy(timing: Timing, lane: str) -> int:
    return sum(event.end - event.start for event in timing.events if event.lane == lane)


def test_pipelined_engines_work_on_different_commands_at_once():
    net = Net(128, 128, 64)
    program = net.program(net.conv("x", 64, 1))
    slow_alu = changed(CHIP, costs__requantize=40, costs__array_shift=0)
    made = plan(program, slow_alu)
    turns, beside = time_plan(made, slow_alu), time_plan(made, changed(slow_alu, engines__pipelined="true"))
    assert busy(beside, "vector") == 16 * 64 * 40
    assert beside.ledger["mac"] + beside.ledger["compute"] < busy(beside, "mac") + busy(beside, "vector")
    assert beside.total < turns.total - 0.9 * busy(beside, "mac")


def test_what_binds_pipelined_engines_is_the_longest_queue_although_another_is_charged_more():
    net = Net(64, 64, 64)
    slow = changed(CHIP, engines__pipelined="true", external__read_bytes_per_s="4GB/s", external__duplex="false")
    program = net.program(net.conv("x", 64, 3))
    made = plan(program, slow)
    rate = slow.read_bytes_per_cycle
    beside = time_plan(made, changed(slow, external__latency_cycles=0)).layers[0]
    assert beside.bound == f"bound by external reads: {beside.read_bytes / 2**20:.1f} MiB at {rate:.1f} B/cycle"
    fast = time_plan(made, changed(slow, external__read_bytes_per_s="400GB/s", external__write_bytes_per_s="400GB/s"))
    assert fast.layers[0].bound == "bound by the MAC array: 92 % of it in use"


def test_winograd_is_in_use_by_the_products_that_it_does():
    target = changed(CHIP, array__winograd=2.25, costs__mac_drain=0, costs__requantize=0, costs__array_shift=0)
    target = changed(target, external__read_bytes_per_s="9TB/s", external__write_bytes_per_s="9TB/s", costs__flow=0)
    target = changed(target, memory__ocm_bytes_per_cycle=10**6, costs__window_shift=0, external__latency_cycles=0)
    net = Net(32, 32, 64)
    layer = time_plan(plan(net.program(net.conv("x", 64)), target), target).layers[0]
    assert layer.bound == "bound by the MAC array: 100 % of it in use"
    assert layer.ledger["mac"] == 64 * 9 * 4 / 2.25


def test_frames_of_several_cores_are_counted_together_with_their_part_of_the_bandwidth():
    net = Net(64, 64, 16)
    made = plan(net.program(net.lut("x")), CHIP)
    four, alone = changed(CHIP, cores=4), changed(CHIP, cores=4, external__shared="false")
    shared, own = time_plan(made, four), time_plan(made, alone)
    assert own.total == time_plan(made, CHIP).total
    assert own.frames_per_s == 4 * own.frames_per_s_per_core == pytest.approx(4 * 1.5e9 / own.total)
    assert shared.layers[0].ledger["data_external"] > 3.5 * own.layers[0].ledger["data_external"]


def test_constants_of_near_memory_come_from_there():
    net = Net(16, 16, 64)
    program = net.program(net.conv(net.conv("x", 64), 64))
    weights = program.constants[program.layers[0].inputs[1]].nbytes
    params = program.constants[program.layers[0].inputs[2]].nbytes
    near = changed(CHIP, memory__near_bytes=weights + 2 * params, memory__near_bytes_per_cycle=32)
    made = plan(program, CHIP)
    plain, kept = time_plan(made, CHIP), time_plan(made, near)
    assert kept.layers[0].near_bytes == weights + params
    assert kept.layers[1].near_bytes == params  # the second weights do not fit beside
    assert plain.read_bytes == kept.read_bytes + kept.near_bytes
    assert {e.category for e in kept.events if e.lane == "near read"} == {"data_external"}


def test_winograd_reads_transformed_weights_from_external_memory():
    net = Net(16, 16, 64)
    program = net.program(net.conv("x", 64))
    made = plan(program, CHIP)
    plain, saved = time_plan(made, CHIP), time_plan(made, changed(CHIP, array__winograd=2.25))
    assert saved.read_bytes - plain.read_bytes == 64 * 64 * 9 * 7 // 9
    assert saved.macs == plain.macs


def test_weights_enter_the_array_ahead_of_their_layer():
    target = changed(
        CHIP, engines__pipelined="true", array__output_channels=64, array__input_channels=64,
        array__weights_bytes_per_cycle=16, memory__lrm_bytes_per_pe="16KiB",
    )  # fmt: skip
    net = Net(64, 64, 64)
    timing = time_plan(plan(net.program(net.conv(net.conv("x", 64, 1), 64, 1)), target), target)
    second = next(event for event in timing.events if event.lane == "array" and event.layer == 1)
    first = next(event for event in timing.events if event.lane == "mac" and event.layer == 0)
    fence = max(event.start for event in timing.events if event.lane == "control" and event.layer == 1)
    assert first.start <= second.start < fence


@pytest.mark.parametrize("k", [1, 3])
def test_a_block_of_weights_that_is_alone_stays_in_the_array_from_box_to_box(k: int):
    target = changed(
        CHIP, array__rows=8, array__columns=8, array__input_channels=64, array__output_channels=64,
        array__weights_bytes_per_cycle=16, memory__ocm_bytes="160KiB",
        memory__lrm_bytes_per_pe="1MiB", costs__array_shift=0, costs__window_shift=0,
    )  # fmt: skip
    net = Net(64, 64, 64)
    chip = changed(target, engines__pipelined="true")
    made = plan(net.program(net.conv("x", 64, k)), chip)
    boxes = [command.tile for command in made.commands if command.kind == "compute"]
    pairs = zip([None, *boxes], boxes, strict=False)
    entered = [box.n for before, box in pairs if k > 1 or before is None or (box.c, box.n) != (before.c, before.n)]
    assert len(boxes) > 8
    assert (len(entered) < len(boxes) / 2) == (k == 1)
    assert busy(time_plan(made, chip), "array") == sum(n * 64 * k * k // 16 for n in entered)


def one_output_buffer(made: Plan) -> Plan:
    """The plan with all boxes of the output in the buffer of the first one."""
    first = next(command.reads[0].offset for command in made.commands if command.kind == "store")
    commands = []
    for command in made.commands:
        if command.kind == "store":
            command = replace(command, reads=(replace(command.reads[0], offset=first),))
        elif command.kind == "compute":
            command = replace(command, writes=(replace(command.writes[0], offset=first),))
        commands.append(command)
    return replace(made, commands=tuple(commands))


@pytest.mark.parametrize("style", ["turns", "pipelined"])
def test_a_box_is_not_computed_into_a_buffer_that_is_still_stored(style: str):
    tight = changed(STYLES[style], memory__ocm_bytes="12KiB", costs__lut=60, external__latency_cycles=3000)
    net = Net(64, 64, 16)
    made = one_output_buffer(plan(net.program(net.lut("x")), tight))
    timing = time_plan(made, tight)
    stores = [event.end for event in timing.events if event.lane == "dma write"]
    boxes = [event.start for event in timing.events if event.lane == "vector"]
    later = boxes[-len(stores) + 1 :]
    assert len(stores) > 3
    assert all(start >= end for start, end in zip(later, stores, strict=False))


@pytest.mark.parametrize(("in_flight", "ends"), [(1, [150, 300, 450]), (2, [150, 250, 350]), (3, [150, 250, 350])])
def test_the_latency_of_a_request_hides_behind_the_bytes_of_those_in_front(in_flight: int, ends: list[int]):
    channel = Channel(latency=50, in_flight=in_flight)
    assert [channel.request(0, 100)[1] for _ in ends] == ends


def test_no_more_requests_are_under_way_than_the_path_takes():
    channel = Channel(latency=300, in_flight=2)
    assert [channel.request(0, 100) for _ in range(4)] == [(0, 400), (400, 500), (500, 800), (800, 900)]


def test_a_request_that_is_ready_late_waits_for_its_own_latency():
    channel = Channel(latency=50, in_flight=4)
    channel.request(0, 10)
    assert channel.request(1000, 10) == (1000, 1060)


def test_a_burst_begins_with_each_run_of_bytes():
    paths = Paths(changed(CHIP, costs__burst=3, external__burst_bytes=64))
    whole = View("ext", 0, Tile(0, 0, 0, 4, 8, 16), 128, 16)
    band = View("ext", 0, Tile(0, 0, 0, 4, 4, 16), 128, 16)
    channels = View("ext", 0, Tile(0, 0, 0, 4, 8, 8), 128, 16)
    assert [paths.cycles(256, 256, view) for view in (whole, band, channels)] == [1 + 8 * 3, 1 + 4 * 3, 1 + 32 * 3]


def test_reads_and_writes_on_one_path_do_not_run_at_once():
    tight = changed(CHIP, memory__ocm_bytes="12KiB", external__duplex="false")
    net = Net(64, 64, 16)
    timing = time_plan(plan(net.program(net.conv(net.conv("x", 32), 16)), tight), tight)
    moves = sorted((e.start, e.end) for e in timing.events if e.lane.startswith("dma"))
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(moves))


def test_both_utilisations_agree_without_custom_ops():
    timing = time_plan(made(0, "turns"), CHIP)
    assert timing.utilisation_outside_custom == timing.utilisation > 0


def test_products_of_custom_ops_are_left_out_of_the_second_utilisation():
    timing = time_plan(made(0, "turns"), CHIP)
    first, *rest = timing.layers
    custom = replace(timing, layers=(replace(first, custom=True), *rest))
    assert custom.utilisation == timing.utilisation
    assert custom.utilisation_outside_custom == pytest.approx(
        (timing.macs - first.macs) / (timing.total * timing.peak_macs_per_cycle)
    )


def test_energy_is_counted_by_accesses_of_four_bytes():
    weights = {"registers": 1, "lrm": 3, "on_chip": 70, "external": 225}
    target = set_values(CHIP, {f"energy.{key}": value for key, value in weights.items()})
    net = Net(32, 32, 16)
    program = net.program(net.conv("x", 16, 1))
    timing = time_plan(plan(program, target), target)
    layer, moved = timing.layers[0], timing.read_bytes + timing.write_bytes
    port = 2 * 16 * 1024
    expected = layer.macs / 16 + 3 * (layer.macs + port) / 4 + 70 * (port + moved) / 4 + 225 * moved / 4
    assert layer.energy == timing.energy == pytest.approx(expected)


def test_a_chip_without_weights_has_no_energy():
    timing = time_plan(made(0, "turns"), replace(CHIP, energy=None))
    assert timing.energy is None
    assert all(layer.energy is None for layer in timing.layers)
