"""Memory of the elements of the array: a budget that commands are cut to, and that a plan is refused for breaking."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.errors import Exit, FitError
from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.plan.local_memory import local_bytes, parts
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Layer, Plan, Program, QFormat, Tensor
from tests.plan.hand_programs import Net, every_op, feeds_of, residual_net, run

CHIP = load_target("qc-u-1d5-8mb")


def with_room(lrm_bytes: int, chip: Target = CHIP) -> Target:
    return replace(chip, memory=replace(chip.memory, lrm_bytes_per_pe=lrm_bytes))


def widths(built: Plan, at: int) -> set[int]:
    return {c.tile.n for c in built.commands if c.kind == "compute" and c.layer == at}


def test_a_convolution_keeps_the_input_under_its_pixel_or_an_accumulator_for_each_output():
    net = Net(8, 8, 256)
    few, many = net.conv("x", 16, 1), net.conv("x", 512, 1)
    program = net.program(few, many)
    narrow, wide = (parts(layer, program, CHIP, n) for layer, n in zip(program.layers, (16, 512), strict=True))
    assert narrow == {"w0": 32, "p0": 0, "x": 2 * 16, few: 4 * 16}  # of two steps, 16 accumulators
    assert wide == {"w1": 32, "p1": 0, "x": 256, many: 4 + 512}  # all input channels, one accumulator, the outputs


def test_a_strided_window_has_more_pixels_under_an_output():
    net = Net(8, 8, 64)
    program = net.program(net.conv("x", 512, 3, 2))
    assert parts(program.layers[0], program, CHIP, 512)["x"] == 2 * 2 * 64


def test_a_window_with_too_much_under_it_comes_step_by_step():
    net = Net(62, 62, 64)
    program = net.program(net.conv("x", 32, 31, 31, 0))
    found = parts(program.layers[0], program, CHIP, 32)
    assert (found["x"], found["t0"]) == (2 * 16, 4 * 32)


def test_a_table_of_int16_passes_by_in_two_parts():
    assert CHIP.memory.lrm_bytes_per_pe < 1025 * 4
    layer = Layer("wide_lut", ("x", "table"), ("y",), {"x_bytes": 2, "out_bytes": 2, "per_channel": 0})
    tensors = {name: Tensor(name, (1, 4, 4, 8), QFormat("int16", (1.0,))) for name in ("x", "y")}
    program = Program(tensors, (layer,), {"table": np.zeros(1025, np.int32)}, ("x",), ("y",))
    assert parts(layer, program, CHIP, 8)["table"] == 1025 * 2


def test_a_table_is_in_every_element():
    net = Net(8, 8, 64)
    program = net.program(net.conv("x", 16, 1, act=1), net.lut("x"))
    assert parts(program.layers[0], program, CHIP, 16)["table0"] == 2050
    assert local_bytes(program.layers[1], program, CHIP, 64) == 256 + 2 + 2


@pytest.mark.parametrize("lrm_bytes", [4096, 300, 140])
def test_commands_have_as_few_channels_as_the_elements_want_and_the_same_bits(lrm_bytes: int):
    net = Net(12, 12, 40)
    program = net.program(net.conv("x", 160, 3))
    chip = with_room(lrm_bytes)
    built = plan(program, chip)
    verify_plan(built, chip)
    most = max(widths(built, 0))
    assert local_bytes(program.layers[0], program, chip, most) <= lrm_bytes
    assert most == 160 or local_bytes(program.layers[0], program, chip, most + 16) > lrm_bytes
    feeds = feeds_of(program)
    expected = run(plan(program, CHIP), feeds)
    for name, values in run(built, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("make", [residual_net, every_op])
def test_a_plan_in_little_local_memory_has_the_same_bits(make):
    program = make()
    chip, feeds = with_room(2300), feeds_of(program)
    built = plan(program, chip)
    verify_plan(built, chip)
    expected = run(plan(program, CHIP), feeds)
    for name, values in run(built, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_layer_without_room_is_refused_by_name_with_the_smallest_change():
    with pytest.raises(FitError) as caught:
        plan(residual_net(), with_room(2100))
    assert caught.value.exit == Exit.DOES_NOT_FIT
    assert "layer 2 conv 'conv_2' (from /conv_2)" in str(caught.value)
    assert "2,050 of them for tensor 'table2'" in str(caught.value)
    assert "the chip has 2,100 bytes in each" in str(caught.value)


def test_the_smallest_local_memory_in_a_refusal_is_enough_and_one_byte_less_is_not():
    with pytest.raises(FitError) as caught:
        plan(every_op(), with_room(8))
    enough = int(caught.value.hint.split("at least ")[1].split(" runs")[0].replace(",", ""))
    plan(every_op(), with_room(enough))
    with pytest.raises(FitError):
        plan(every_op(), with_room(enough - 1))


def test_every_layer_without_room_is_listed():
    with pytest.raises(FitError) as caught:
        plan(residual_net(), with_room(100))
    assert [line.split(" ")[2] for line in caught.value.details].count("conv") == 4


def test_a_plan_that_breaks_the_budget_is_not_legal():
    net = Net(12, 12, 40)
    built = plan(net.program(net.conv("x", 160, 3)), CHIP)
    with pytest.raises(ValueError, match=r"layer 0 conv 'conv_0'.* needs \d+ bytes in each element"):
        verify_plan(built, with_room(140))
