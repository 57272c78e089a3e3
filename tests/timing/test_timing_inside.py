"""Commands of two layers that take turns: what stays in the array, what waits, and what a change of layer costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.target_file import load_target, set_values
from axtool.timing.clock import time_plan
from axtool.timing.cost import OUTPUT, CostModel
from axtool.timing.inside import operands_inside
from axtool.types import Command, Plan, Program
from tests.plan.hand_programs import Net

CHIP = load_target("qc-u-1d5-8mb")
PIPELINED = set_values(CHIP, {"engines.pipelined": True})


def conv_and_add(kept: bool = False) -> Program:
    """conv, then the sum of it and of the input; `kept`: the convolution is an output too."""
    net = Net(96, 64, 32)
    y = net.conv("x", 32, 1)
    return net.program(net.add("x", y), *([y] if kept else []))


def in_turns(made: Plan) -> Plan:
    """The plan with the tiles of its two layers one after the other: first, second, first, second."""
    tiles = [[c for c in made.commands if c.kind == "compute" and c.layer == layer] for layer in (0, 1)]
    assert len(tiles[0]) == len(tiles[1]) == 6
    moves = [[c for c in made.commands if c.kind == kind] for kind in ("load", "store")]
    work = [command for pair in zip(*tiles, strict=True) for command in pair]
    return replace(made, commands=(*moves[0], *work, *moves[1]))


@pytest.fixture(scope="module")
def apart() -> Plan:
    return plan(conv_and_add(), CHIP, [Directive("*", residency="ocm")])  # a layer with a wish takes no turns


@pytest.fixture(scope="module")
def together(apart) -> Plan:
    return in_turns(apart)


def work(made: Plan) -> list[tuple[int, Command]]:
    return [(at, command) for at, command in enumerate(made.commands) if command.kind == "compute"]


def test_a_sum_behind_each_tile_finds_it_in_the_array(together):
    found = operands_inside(together, CHIP)
    for at, command in work(together):
        assert found[at] == ({OUTPUT} if command.layer == 0 else {1})


def test_only_the_last_tile_is_in_the_array_when_the_next_layer_begins(apart):
    found = operands_inside(apart, CHIP)
    assert found == {}  # the first tile of the sum is not the last one of the convolution


def test_an_output_of_the_program_is_written_although_its_reader_finds_it_inside():
    made = in_turns(plan(conv_and_add(kept=True), CHIP))
    found = operands_inside(made, CHIP)
    assert all(found.get(at, set()) == (set() if c.layer == 0 else {1}) for at, c in work(made))


def test_a_sum_over_a_part_of_the_tile_in_front_leaves_the_rest_of_it_to_be_written(together):
    commands = tuple(
        replace(c, tile=replace(c.tile, n=16)) if c.kind == "compute" and c.layer == 1 else c for c in together.commands
    )
    found = operands_inside(replace(together, commands=commands), CHIP)
    assert all(found.get(at, set()) == (set() if c.layer == 0 else {1}) for at, c in work(together))


def test_a_tile_that_the_elements_have_no_room_for_is_written(together):
    small = set_values(CHIP, {"memory.lrm_bytes_per_pe": 31})
    assert operands_inside(together, small) == {}


def test_layers_that_hand_on_inside_the_array_are_entered_and_drained_once(apart, together):
    assert time_plan(apart, CHIP).causes == {"entry": 900, "fence": 32, "drain": 2 * 7}
    assert time_plan(together, CHIP).causes == {"entry": 900, "fence": 0, "drain": 7}


def test_layers_that_take_turns_in_memory_are_entered_each(together):
    small = set_values(CHIP, SMALL_ELEMENTS)
    assert time_plan(together, small).causes == {"entry": 900, "fence": 32, "drain": 2 * 7}


def test_what_stays_in_the_array_does_not_cross_the_port(apart, together):
    alone, joined = time_plan(apart, CHIP), time_plan(together, CHIP)
    tiles, tile_bytes = 6, 32 * 1024
    flows = [1, 3 * 32 - 2]  # of a tile: the store of the layer, and those of each channel of the sum but two
    port = [tiles * (tile_bytes / CHIP.memory.ocm_bytes_per_cycle + count * CHIP.costs["flow"]) for count in flows]
    saved = [busy(alone, layer) - busy(joined, layer) for layer in (0, 1)]
    assert saved == pytest.approx(port, abs=tiles)
    assert joined.total < alone.total
    assert joined.ledger["mac"] == alone.ledger["mac"]


def busy(timing, layer: int) -> int:
    return sum(event.end - event.start for event in timing.events if event.lane == "port" and event.layer == layer)


SMALL_ELEMENTS = {"memory.lrm_bytes_per_pe": 31}  # no room to keep a tile of 32 channels in the array


@pytest.mark.parametrize("target", [CHIP, set_values(PIPELINED, SMALL_ELEMENTS)], ids=["turns", "pipelined"])
def test_a_tile_is_not_read_before_it_is_made(together, target):
    events = time_plan(together, target).events
    made = [event.end for event in events if event.lane == "vector" and event.layer == 0]
    read = [event.start for event in events if event.lane == "vector" and event.layer == 1]
    assert len(made) == len(read) == 6
    assert all(end <= start for end, start in zip(made, read, strict=True))


def own_buffers(made: Plan) -> Plan:
    """The plan with a buffer of its own for each tile between the two layers, and one for the output."""
    commands, place = [], 10**6
    for command in made.commands:
        if command.kind == "compute" and command.layer == 0:
            place += 10**5
            command = replace(command, writes=(replace(command.writes[0], offset=place),))
        elif command.kind == "compute":
            reads = (replace(command.reads[0], offset=place), *command.reads[1:])
            command = replace(command, reads=reads, writes=(replace(command.writes[0], offset=10**7),))
        commands.append(command)
    return replace(made, commands=tuple(commands))


def test_macs_wait_for_the_vector_unit_that_makes_their_operand():
    net = Net(96, 64, 32)
    made = own_buffers(in_turns(plan(net.program(net.conv(net.conv("x", 32, 1), 32, 1)), CHIP)))
    slow = {**SMALL_ELEMENTS, "costs.requantize": 200, "memory.ocm_bytes_per_cycle": 10**6}
    events = time_plan(made, set_values(PIPELINED, slow)).events
    tiles = [event.end for event in events if event.lane == "vector" and event.layer == 0]
    macs = [event.start for event in events if event.lane == "mac" and event.layer == 1]
    assert len(tiles) == len(macs) == 6
    assert all(end <= start for end, start in zip(tiles, macs, strict=True))


def test_what_stays_in_the_array_is_handed_on_as_it_is_made(together):
    slow = {"array.cycles": 50}
    inside, outside = (time_plan(together, set_values(PIPELINED, {**slow, **more})) for more in ({}, SMALL_ELEMENTS))
    last_macs = max(event.end for event in inside.events if event.lane == "mac")
    sums = [event for event in inside.events if event.lane == "vector" and event.layer == 1]
    assert sums[-1].end < last_macs  # the sum keeps up with the MACs
    assert inside.total < outside.total


@pytest.mark.parametrize("cycles", [1, 3, 9])
def test_transfers_of_a_sum_use_the_mac_cycles_that_those_of_its_convolution_left(together, cycles: int):
    target = set_values(CHIP, {"array.cycles": cycles, "costs.window_shift": 0, "external.read_bytes_per_s": "9TB/s"})
    timing = time_plan(together, target)
    model = CostModel(together.program, target)
    tile = work(together)[0][1].tile
    conv, add = model.cost(0, tile, 0, frozenset({OUTPUT})), model.cost(1, tile, 0, frozenset({1}))
    bundle = max(0, conv.port + add.port - conv.mac)
    assert timing.ledger["data_ocm"] == 6 * bundle
    assert timing.ledger["compute"] == 6 * (conv.compute + add.compute)


def test_pipelined_macs_of_the_next_tile_run_beside_the_sum_of_this_one(together):
    events = time_plan(together, set_values(PIPELINED, {"costs.add": 200})).events
    macs = [(event.start, event.end) for event in events if event.lane == "mac"]
    sums = [(event.start, event.end) for event in events if event.lane == "vector" and event.layer == 1]
    assert any(start < macs_end and macs_start < end for start, end in sums for macs_start, macs_end in macs)


def test_a_buffer_is_not_overwritten_before_it_is_read(together):
    """Each command of the first layer writes the same bytes here, and the sum is too slow to read them in time."""
    written = next(c for _, c in work(together) if c.layer == 0).writes
    commands = tuple(
        replace(c, writes=written) if c.kind == "compute" and c.layer == 0
        else replace(c, reads=(c.reads[0], written[0])) if c.kind == "compute" else c
        for c in together.commands
    )  # fmt: skip
    tight = set_values(PIPELINED, {"costs.add": 500, "memory.lrm_bytes_per_pe": 31})
    events = time_plan(replace(together, commands=commands), tight).events
    sums = [event.end for event in events if event.lane == "vector" and event.layer == 1]
    macs = [event.start for event in events if event.lane == "mac"]
    assert all(start >= end for start, end in zip(macs[1:], sums, strict=False))


def test_a_layer_without_commands_has_a_row_of_zeros(together):
    none = replace(together, commands=tuple(c for c in together.commands if c.layer == 0))
    timing = time_plan(none, CHIP)
    assert len(timing.layers) == 2
    assert (timing.layers[1].total, timing.layers[1].commands, timing.layers[1].bound) == (0, 0, "nothing to do")
