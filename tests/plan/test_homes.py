"""Tensors that share bytes: nothing is copied or kept without need, the bits are those of the plan without sharing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.plan.build import plan
from axtool.plan.build_directives import Directive
from axtool.plan.groups import alone
from axtool.plan.homes import find_homes, home_bytes
from axtool.plan.memory import align
from axtool.plan.order import activation_bytes, activations, lifetimes, live_peak
from axtool.plan.whole import whole_plan
from axtool.runtime.watch import Watch
from axtool.sim.images import host_slot, new_images, open_plan, write_tensor
from axtool.types import Command, Plan, Program, Slot
from tests.plan.hand_programs import Net, feeds_of
from tests.plan.planned_bits import CHIP, same_bits

WIDTHS = (1, 3, 7, 17, 65)
WHOLE = (Directive("*", residency="ocm"),)  # every tensor: none only passes from one layer to the next
MISALIGNED = 5  # channels: the part behind it begins inside a word


def slot_of(built: Plan, name: str) -> Slot:
    return next(slot for slot in built.slots if slot.tensor == name and slot.memory == "ocm")


def copies(built: Plan, op: str) -> list[Command]:
    return [c for c in built.commands if c.kind == "compute" and built.program.layers[c.layer].op == op]


ELEMENTWISE = {
    "add": lambda net, x: net.add(x, net.operand(1, 1, net.dims(x)[2])),
    "mul": lambda net, x: net.mul(x, net.operand(*net.dims(x))),
    "lut": lambda net, x: net.lut(x),
    "lut_per_channel": lambda net, x: net.lut(x, per_channel=1),
    "requantize": lambda net, x: net.requantize(x),
    "twice": lambda net, x: net.add(x, x),
}


@pytest.mark.parametrize("c", WIDTHS)
@pytest.mark.parametrize("op", sorted(ELEMENTWISE))
def test_an_elementwise_result_takes_the_place_of_an_operand_that_dies(op: str, c: int):
    net = Net(37, 41, 8)
    x = net.conv("x", c)
    y = ELEMENTWISE[op](net, x)
    built = same_bits(net.program(net.conv(y, 5)), directives=WHOLE)
    assert slot_of(built, y).offset == slot_of(built, x).offset


@pytest.mark.parametrize("c", WIDTHS)
def test_a_sum_takes_the_place_of_its_second_operand_where_only_that_dies(c: int):
    net = Net(9, 35, 8)
    a, b = net.conv("x", c), net.conv("x", c, 1)
    y = net.add(a, b)
    built = same_bits(net.program(net.conv(net.add(net.conv(y, c), a), 5)), directives=WHOLE)
    assert slot_of(built, y).offset == slot_of(built, b).offset != slot_of(built, a).offset


def test_an_operand_that_is_read_again_keeps_its_bytes():
    net = Net(9, 9, 8)
    x = net.conv("x", 16)
    y = net.lut(x)
    built = same_bits(net.program(net.conv(net.add(net.conv(y, 16), x), 5)))
    assert slot_of(built, y).offset != slot_of(built, x).offset


def test_a_result_that_is_larger_than_its_operand_has_bytes_of_its_own():
    net = Net(9, 9, 8)
    x = net.conv("x", 16)
    row = net.avg_pool(x, 0, 1, 0)
    y = net.add(row, net.operand(9, 9, 16))
    built = same_bits(net.program(net.conv(y, 5)))
    assert slot_of(built, y).size > slot_of(built, row).size


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_part_that_keeps_its_format_is_made_inside_the_concat(axis: int):
    net = Net(13, 36, 8)
    parts = [net.conv("x", 16), net.conv("x", 16, 1), net.lut("x", 0) if axis == 2 else net.conv("x", 16, 5)]
    joined = net.concat(*parts, axis=axis)  # the second part has no factor
    built = same_bits(net.program(net.conv(joined, 5)))
    assert {c.part for c in copies(built, "concat")} == {0, 2}
    whole, part = slot_of(built, joined), slot_of(built, parts[1])
    assert whole.offset < part.offset < part.offset + part.size <= whole.offset + whole.size


def test_a_part_that_begins_inside_a_word_is_copied():
    net = Net(9, 9, 8)
    joined = net.concat(net.conv("x", MISALIGNED), net.conv("x", 16))
    built = same_bits(net.program(net.conv(joined, 5)))
    assert {c.part for c in copies(built, "concat")} == {0, 1}


def test_a_part_of_two_concats_at_different_places_is_copied_into_one():
    net = Net(9, 9, 200)
    x = net.conv("x", 8)  # from here on there is room below the peak
    a, b, c = net.conv(x, 16), net.conv(x, 16, 1), net.conv(x, 20, 1)
    first, second = net.concat(a, b), net.concat(c, b)
    built = same_bits(net.program(net.conv(first, 5), net.conv(second, 5)))
    assert sorted(command.part for command in copies(built, "concat")) == [0, 0, 1]


def test_a_slice_of_channels_is_read_where_it_is():
    net = Net(9, 33, 8)
    x = net.conv("x", 32)
    halves = [net.slice(x, (0, 0, at), (1, 1, 1), (9, 33, 16)) for at in (0, 16)]
    built = same_bits(net.program(net.conv(halves[0], 5), net.conv(halves[1], 5)))
    assert copies(built, "slice") == []


def test_a_split_whose_halves_meet_in_a_concat_again_copies_nothing():
    net = Net(9, 33, 8)
    x = net.conv("x", 32)
    low, high = (net.slice(x, (0, 0, at), (1, 1, 1), (9, 33, 16)) for at in (0, 16))
    plain = {"axis": 2, "out_zp": 3, "parts": (0, 3, 0, 30, 16, 3, 0, 30, 32, 3, 0, 30)}
    joined = net.layer("concat", (low, high, net.conv(high, 24)), (9, 33, 56), **plain)
    built = same_bits(net.program(net.conv(joined, 5)))
    assert copies(built, "slice") == copies(built, "concat") == []


def test_a_slice_that_steps_backwards_is_copied():
    net = Net(9, 9, 8)
    x = net.conv("x", 16)
    built = same_bits(net.program(net.conv(net.slice(x, (8, 0, 0), (-1, 1, 1), (9, 9, 16)), 5)))
    assert copies(built, "slice")


def test_an_output_that_was_never_copied_is_stored_whole():
    net = Net(9, 9, 8)
    plain = {"axis": 2, "out_zp": 3, "parts": (0, 3, 0, 30, 16, 3, 0, 30)}
    x = net.conv(net.conv("x", 64), 8)  # the peak is here: the joined tensor may live earlier than it has to
    joined = net.layer("concat", (net.conv(x, 16), net.conv(x, 8, 1)), (9, 9, 24), **plain)
    built = same_bits(net.program(joined))
    assert copies(built, "concat") == []


def test_a_tensor_that_was_never_copied_can_be_watched():
    net = Net(9, 9, 8)
    plain = {"axis": 2, "out_zp": 3, "parts": (0, 3, 0, 30, 16, 3, 0, 30)}
    joined = net.layer("concat", (net.conv("x", 16), net.conv("x", 8, 1)), (9, 9, 24), **plain)
    half = net.slice(joined, (1, 2, 8), (1, 1, 1), (7, 6, 12))
    program = net.program(net.conv(half, 5))
    seen = {}
    for built in (plan(program, CHIP), whole_plan(program, CHIP)):
        watch, memories = Watch(built, (joined, half)), new_images(built)
        write_tensor(memories, host_slot(built, "x"), program.tensors["x"], feeds_of(program)["x"][None])
        open_plan(built, "native").run(memories["ext"], memories["ocm"], watch.taps)
        seen[built.sizes["ocm"] > 0] = watch.arrays
    for name in (joined, half):
        np.testing.assert_array_equal(seen[True][name], seen[False][name])


OUTSIDE = replace(CHIP, memory=replace(CHIP.memory, activations="external"))


def split_and_joined(*outputs: str) -> Program:
    """A tensor whose halves meet in a concat again, with a third part."""
    net = Net(9, 33, 8)
    x = net.conv("x", 32)
    low, high = (net.slice(x, (0, 0, at), (1, 1, 1), (9, 33, 16)) for at in (0, 16))
    plain = {"axis": 2, "out_zp": 3, "parts": (0, 3, 0, 30, 16, 3, 0, 30, 32, 3, 0, 30)}
    joined = net.layer("concat", (low, high, net.conv(high, 24)), (9, 33, 56), **plain)
    return net.program(net.conv(joined, 5), *outputs)


@pytest.mark.parametrize("outputs", [(), ("t4",)], ids=["inside", "the concat is an output"])
def test_in_external_memory_parts_and_slices_are_never_copied_either(outputs):
    built = same_bits(split_and_joined(*outputs), chip=OUTSIDE)
    assert copies(built, "slice") == copies(built, "concat") == []
    assert not [c for c in built.commands if c.layer in (1, 2, 4)]


def test_a_part_that_is_an_output_lies_whole_for_the_host():
    built = same_bits(split_and_joined("t0", "t3"), chip=OUTSIDE)
    sizes = {slot.tensor: slot.size for slot in built.slots if slot.memory == "ext"}
    assert (sizes["t0"], sizes["t3"]) == (9 * 33 * 32, 9 * 33 * 24)
    assert 2 in {c.part for c in copies(built, "concat")}


def test_an_output_in_external_memory_is_not_written_over_when_its_last_reader_is_done():
    net = Net(13, 9, 8)
    x = net.conv("x", 8)
    half = net.slice(x, (7, 0, 0), (1, 1, 1), (6, 9, 8))
    joined = net.concat(half, half, axis=0)  # the first part is rescaled, to where the first rows of x are
    same_bits(net.program(net.conv(joined, 5), x), chip=OUTSIDE)


@pytest.mark.parametrize("kib", [64, 40, 24, 12])
def test_parts_that_spill_are_stored_where_the_concat_is(kib: int):
    chip = replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=kib * 1024))
    same_bits(split_and_joined(), chip=chip)


@given(st.lists(st.sampled_from(["conv", "lut", "add", "concat", "slice", "twice"]), min_size=2, max_size=9), st.data())
@settings(max_examples=60, deadline=None)
def test_no_sharing_raises_the_memory_that_lives_or_changes_a_bit(ops, data):
    net = Net(5, 34, 8)
    made = [net.conv("x", 16)]
    for op in ops:
        x, y = (data.draw(st.sampled_from(made)) for _ in range(2))
        match op:
            case "conv":
                made.append(net.conv(x, 16, 1))
            case "lut":
                made.append(net.lut(x))
            case "concat":
                made.append(net.concat(x, y))
            case "slice":
                c = net.dims(x)[2]
                made.append(net.slice(x, (0, 0, c // 2), (1, 1, 1), (5, 34, c - c // 2)))
            case _:
                made.append(net.add(x, y if op == "add" and net.dims(x) == net.dims(y) else x))
    program = net.program(made[-1], data.draw(st.sampled_from(made)))
    program = replace(program, outputs=tuple(dict.fromkeys(program.outputs)))
    same_bits(program)
    same_bits(program, chip=OUTSIDE)
    sizes = {name: align(activation_bytes(program, name, CHIP)) for name in activations(program)}
    peak = live_peak(program, program.layers, sizes)
    resident = [name for name in lifetimes(program, program.layers)]
    homes = find_homes(program, CHIP, resident, [peak] * len(program.layers), alone(program))
    for at in range(len(program.layers)):
        alive = [home for home in homes.homes if home.first <= at <= home.last]
        live = sum(align(home_bytes(home.dims, CHIP)) for home in alive)
        assert live <= peak
