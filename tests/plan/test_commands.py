"""Commands: which engine, which views, which order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from axtool.plan.build import plan
from axtool.plan.layer_commands import engine_of
from axtool.plan.order import padded
from axtool.target_file import load_target
from tests.plan.hand_programs import Net, residual_net

CHIP = load_target("qc-u-1d5-8mb")


def small(kib: int):
    return replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=kib * 1024))


def compute(built, at):
    return [c for c in built.commands if c.kind == "compute" and c.layer == at]


def test_one_command_covers_one_tile_of_the_array():
    net = Net(70, 33, 8)
    built = plan(net.program(net.conv("x", 40)), CHIP)
    assert [(c.tile.y, c.tile.x, c.tile.h, c.tile.w, c.tile.n) for c in compute(built, 0)] == [
        (0, 0, 32, 32, 40), (0, 32, 32, 1, 40), (32, 0, 32, 32, 40), (32, 32, 32, 1, 40),
        (64, 0, 6, 32, 40), (64, 32, 6, 1, 40),
    ]  # fmt: skip


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (8, 1), (15, 17)])
def test_an_array_of_a_few_pixels_takes_a_box_in_one_command(rows: int, columns: int):
    net = Net(70, 33, 8)
    built = plan(net.program(net.conv("x", 40)), replace(CHIP, array=replace(CHIP.array, rows=rows, columns=columns)))
    assert [(c.tile.h, c.tile.w, c.tile.n) for c in compute(built, 0)] == [(70, 33, 40)]


def test_the_tiles_of_a_resident_layer_share_their_views():
    net = Net(70, 70, 8)
    commands = compute(plan(net.program(net.conv("x", 40)), CHIP), 0)
    assert all(c.reads is commands[0].reads for c in commands)
    assert {c.writes for c in commands} == {commands[0].writes}


def test_a_whole_view_pads_its_channels_to_the_multiple():
    net = Net(9, 7, 3)
    command = compute(plan(net.program(net.conv("x", 18)), CHIP), 0)[0]
    assert (command.reads[0].pixel_stride, command.reads[0].row_stride) == (4, 28)
    assert (command.writes[0].pixel_stride, command.writes[0].row_stride) == (20, 140)


@pytest.mark.parametrize(("channels", "bytes_"), [(1, 4), (4, 4), (5, 8), (65, 68)])
def test_channels_are_padded_to_words(channels: int, bytes_: int):
    assert padded(channels, CHIP) == bytes_


def test_a_convolution_reads_its_tensor_weights_parameters_and_table():
    net = Net(8, 8, 8)
    program = net.program(net.conv("x", 24, act=1))
    command = compute(plan(program, CHIP), 0)[0]
    assert [view.tile.n for view in command.reads[1:]] == [
        program.constants[name].nbytes for name in program.layers[0].inputs[1:]
    ]


def test_each_part_of_a_concat_has_its_own_commands():
    net = Net(8, 8, 8)
    y = net.lut("x")
    built = plan(net.program(net.concat("x", "x", y)), CHIP)
    assert [(c.part, c.tile.c, c.tile.n, len(c.reads)) for c in compute(built, 1)] == [
        (0, 0, 8, 1), (1, 8, 8, 1), (2, 16, 8, 1),
    ]  # fmt: skip


def test_slices_of_weights_carry_their_place_in_the_whole():
    net = Net(8, 8, 256)
    program = net.program(net.conv("x", 256))
    commands = compute(plan(program, small(200)), 0)
    assert len({c.reads[1].tile.c for c in commands}) > 1
    for command in commands:
        assert command.reads[1].tile.c == command.tile.c // 16 * 9 * 256 * 16
        assert command.reads[2].tile.c == command.tile.c // 16 * 256


def test_two_buffers_take_turns():
    net = Net(200, 64, 16)
    built = plan(net.program(net.conv("x", 16, 1)), small(64))
    places = [c.writes[0].offset for c in built.commands if c.kind == "load" and c.writes[0].tile.h > 1]
    assert len(places) > 3
    assert all(a != b for a, b in pairwise(places))


def test_loads_run_ahead_of_the_tiles_before_theirs():
    net = Net(200, 64, 16)
    built = plan(net.program(net.conv("x", 16, 1)), small(64))
    kinds = [c.kind for c in built.commands if c.kind == "compute" or c.reads[0].tile.h > 1]
    assert kinds[:3] == ["load", "load", "compute"]


def test_inputs_and_outputs_are_in_external_memory():
    program = residual_net()
    built = plan(program, CHIP)
    external = {slot.tensor for slot in built.slots if slot.memory == "ext"}
    assert external.issuperset((*program.inputs, *program.outputs))


@pytest.mark.parametrize(("op", "engine"), [("conv", "mac"), ("add", "vector"), ("transpose", "array")])
def test_each_kind_of_op_has_its_engine(op: str, engine: str):
    assert engine_of(op) == engine
