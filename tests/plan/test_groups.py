"""Layers whose commands take turns: the bits of the plan without, in any memory, and no transfer that is not needed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import FitError
from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.plan.check_plan import verify_plan
from axtool.plan.groups import find_groups, groups_of
from axtool.plan.whole import whole_plan
from axtool.runtime.watch import Watch
from axtool.sim.images import host_slot, new_images, open_plan, write_tensor
from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.types import Program
from tests.plan.hand_programs import Net, feeds_of, run
from tests.plan.planned_bits import CHIP, same_bits

SMALL_ARRAY = load_target("dpu-b4096")
APART = (Directive("*", residency="ocm"),)  # a wish for a layer leaves it alone
WIDTHS = (1, 3, 7, 17, 65)


def sized(chip: Target, ocm_bytes: int) -> Target:
    return replace(chip, memory=replace(chip.memory, ocm_bytes=ocm_bytes))


def block(c: int = 24, h: int = 45, w: int = 37) -> Program:
    """A residual block whose sum goes through a table."""
    net = Net(h, w, 8)
    skip = net.conv("x", c)
    x = net.conv(net.conv(skip, c), c, 1)
    return net.program(net.conv(net.lut(net.add(x, skip)), 5))


@pytest.mark.parametrize("c", WIDTHS)
def test_a_convolution_and_the_sum_and_table_behind_it_take_turns(c: int):
    built = same_bits(block(c))
    assert groups_of(built) == ((2, 3, 4),)
    order = [command.layer for command in built.commands if command.kind == "compute" and 2 <= command.layer <= 4]
    assert order == [2, 3, 4] * (len(order) // 3)


def test_what_passes_between_layers_has_room_for_one_tile():
    built = plan(block(), CHIP)
    passing = {slot.tensor: slot.size for slot in built.slots if slot.tensor in ("t2", "t3")}
    assert passing == {"t2": 32 * 32 * 24, "t3": 32 * 32 * 24}


def test_the_operand_that_is_in_the_array_and_what_passes_cross_no_port():
    together, apart = (time_plan(plan(block(), CHIP, wish), CHIP) for wish in ((), APART))
    assert together.ledger["data_ocm"] < apart.ledger["data_ocm"]
    assert together.ledger["mac"] == apart.ledger["mac"]
    assert together.total < apart.total


def test_what_passes_between_layers_never_sees_external_memory():
    program, chip = block(), sized(CHIP, 48 * 1024)
    together, apart = (plan(program, chip, wish) for wish in ((), (Directive("add_3", buffers=1),)))
    assert {slot.tensor for slot in together.slots if slot.memory == "ext"}.isdisjoint({"t2", "t3"})
    read, write = (
        [time_plan(built, chip).to_dict()[f"{way}_bytes"] for built in (together, apart)] for way in ("read", "write")
    )
    assert read[0] < read[1]
    assert write[0] <= write[1]


def test_a_tensor_with_two_readers_lives_whole():
    net = Net(9, 9, 8)
    x = net.conv("x", 16)
    program = net.program(net.conv(net.add(net.lut(x), x), 5))
    assert "t0" not in find_groups(program, {}).passing
    same_bits(program)


def test_an_output_of_the_program_lives_whole():
    net = Net(9, 9, 8)
    x = net.conv("x", 16)
    program = net.program(net.lut(x), x)
    assert find_groups(program, {}).passing == frozenset()
    same_bits(program)


def test_a_sum_over_the_input_of_its_own_convolution_is_not_made_in_place():
    net = Net(40, 40, 8)
    x = net.conv("x", 16)
    y = net.add(net.conv(x, 16), x)  # later tiles of the convolution still look at earlier pixels of x
    built = same_bits(net.program(net.conv(y, 5)))
    slots = {slot.tensor: slot for slot in built.slots if slot.memory == "ocm"}
    assert slots[x].offset != slots[y].offset


def test_an_input_that_a_later_layer_of_a_group_reads_first_is_loaded():
    net = Net(40, 33, 8)
    built = same_bits(net.program(net.add(net.input("late", 40, 33, 8), net.lut("x"))))
    assert groups_of(built) == ((0, 1),)


def test_a_layer_with_a_wish_takes_no_turns():
    built = plan(block(), CHIP, (Directive("add_3", tile=(32, 37, 24)),))
    assert groups_of(built) == ()


def test_each_layer_of_a_group_can_be_watched():
    program = block()
    seen = []
    for built in (plan(program, CHIP), whole_plan(program, CHIP)):
        watch, memories = Watch(built, ("t2", "t3", "t4")), new_images(built)
        write_tensor(memories, host_slot(built, "x"), program.tensors["x"], feeds_of(program)["x"][None])
        open_plan(built, "native").run(memories["ext"], memories["ocm"], watch.taps)
        seen.append(watch.arrays)
    for name in seen[0]:
        np.testing.assert_array_equal(seen[0][name], seen[1][name])


def test_a_group_that_has_no_room_is_taken_apart():
    net = Net(9, 9, 64)
    program = net.program(net.conv(net.add(net.conv("x", 16), net.operand(9, 9, 16)), 5))
    chip = sized(CHIP, 11 * 1024 // 64 * 64)
    assert find_groups(program, {}).passing
    built = same_bits(program, chip)
    assert groups_of(built) == ()


@pytest.mark.parametrize("kib", [200, 48, 24, 12])
@pytest.mark.parametrize("chip", [CHIP, SMALL_ARRAY], ids=["large array", "small array"])
def test_a_group_gives_the_same_bits_in_any_memory(chip: Target, kib: int):
    program = block()
    feeds, small = feeds_of(program), sized(chip, kib * 1024)
    built = plan(program, small)
    verify_plan(built, small)
    expected = run(whole_plan(program, CHIP), feeds)
    for name in program.outputs:
        if chip is CHIP:  # the helper reads pixels of this chip
            np.testing.assert_array_equal(run(built, feeds)[name], expected[name])
    assert groups_of(built)


OPS = ("conv", "depthwise", "pool", "lut", "add", "mul", "skip", "operand", "input")


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 7, 17, 34])),
    st.lists(st.sampled_from(OPS), min_size=2, max_size=7),
    st.floats(0.2, 1.1),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_any_chain_of_riders_runs_in_any_memory_that_it_fits(dims, ops, share, begins_at_the_input):
    net = Net(*dims)
    x = skip = "x" if begins_at_the_input else net.conv("x", dims[2], 1)
    for at, op in enumerate(ops):
        match op:
            case "input":
                x = net.add(x, net.input(f"input{at}", *net.dims(x)))
            case "conv":
                x = net.conv(x, dims[2])
            case "depthwise":
                x = net.depthwise(x)
            case "pool":
                x = net.max_pool(x, 3, 1, 1)
            case "lut":
                x = net.lut(x)
            case "operand":
                x = net.add(x, net.operand(1, 1, dims[2]))
            case "skip":
                skip = x
            case _:
                x = net.add(skip, x) if op == "add" else net.mul(x, skip)
    program = net.program(net.lut(x))
    chip = sized(CHIP, int(share * plan(program, CHIP).sizes["ocm"]) // 64 * 64)
    with suppress(FitError):
        same_bits(program, chip)
