"""verify_plan notices every kind of wrong plan; the bits of a wrong plan are wrong or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from axtool.plan.build import plan
from axtool.plan.check_plan import verify_plan
from axtool.target_file import load_target
from axtool.types import Command, Plan, Program, Tile, View
from tests.plan.hand_programs import Net, feeds_of, residual_net, run

BIG = load_target("qc-u-1d5-8mb")
CHIP = replace(BIG, memory=replace(BIG.memory, ocm_bytes=16 * 1024))
PROGRAM = residual_net()
PLAN = plan(PROGRAM, CHIP)


def refused(broken: Plan, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        verify_plan(broken, CHIP)


def with_command(index: int, command: Command) -> Plan:
    commands = list(PLAN.commands)
    commands[index] = command
    return replace(PLAN, commands=tuple(commands))


def moved(view: View, by: int) -> View:
    return replace(view, offset=view.offset + by)


def first(kind: str, after: int = 0) -> int:
    return next(i for i, c in enumerate(PLAN.commands) if c.kind == kind and i >= after)


def test_a_good_plan_passes():
    verify_plan(PLAN, CHIP)


def test_a_plan_for_another_chip_is_refused():
    with pytest.raises(ValueError, match="a plan for qc-u-1d5-8mb, checked against other"):
        verify_plan(PLAN, replace(CHIP, name="other"))


def test_more_memory_than_the_chip_has_is_refused():
    with pytest.raises(ValueError, match="the chip has 8192"):
        verify_plan(PLAN, replace(CHIP, memory=replace(CHIP.memory, ocm_bytes=8192)))


def test_overlapping_slots_are_refused():
    chip = [s for s in PLAN.slots if s.memory == "ocm"]
    constants = [s for s in chip if s.tensor in PROGRAM.constants]
    a, b = next((a, b) for a in constants for b in chip if a.first == b.first and a.offset < b.offset)
    slots = tuple(replace(s, offset=b.offset) if s is a else s for s in PLAN.slots)
    refused(replace(PLAN, slots=slots), "overlap|leaves")


def test_a_slot_outside_its_memory_is_refused():
    slots = tuple(replace(s, size=1 << 30) if i == 3 else s for i, s in enumerate(PLAN.slots))
    refused(replace(PLAN, slots=slots), "leaves ext")


def test_a_tile_that_is_missing_is_noticed():
    index = first("compute")
    refused(replace(PLAN, commands=PLAN.commands[:index] + PLAN.commands[index + 1 :]), "not at all")


def test_a_tile_that_is_computed_twice_is_noticed():
    index = first("compute")
    again = PLAN.commands[index]
    refused(replace(PLAN, commands=(*PLAN.commands[:index], again, *PLAN.commands[index:])), "more than once")


def test_a_load_that_is_missing_is_noticed():
    index = first("load")
    refused(replace(PLAN, commands=PLAN.commands[:index] + PLAN.commands[index + 1 :]), "other bytes are at")


def test_a_store_that_is_missing_is_noticed():
    index = max(i for i, c in enumerate(PLAN.commands) if c.kind == "store")
    refused(replace(PLAN, commands=PLAN.commands[:index] + PLAN.commands[index + 1 :]), "not whole in ext")


def test_a_layer_that_does_not_exist_is_refused():
    refused(with_command(0, replace(PLAN.commands[0], layer=99)), "layer 99 does not exist")


def test_a_load_from_the_wrong_address_is_noticed():
    index = first("load")
    command = PLAN.commands[index]
    refused(with_command(index, replace(command, reads=(moved(command.reads[0], 4),))), "other bytes are at|no slot")


def test_a_view_with_the_wrong_stride_is_noticed():
    index = next(i for i, c in enumerate(PLAN.commands) if c.kind == "compute" and c.tile.w > 1 and c.tile.h > 1)
    command = PLAN.commands[index]
    view = replace(command.reads[0], row_stride=command.reads[0].row_stride + 4)
    refused(with_command(index, replace(command, reads=(view, *command.reads[1:]))), "other bytes are at")


def test_a_view_that_lacks_its_halo_is_noticed():
    index = first("compute")
    command = PLAN.commands[index]
    box = command.reads[0].tile
    view = replace(command.reads[0], tile=Tile(box.y, box.x, box.c, box.h - 1, box.w, box.n))
    refused(with_command(index, replace(command, reads=(view, *command.reads[1:]))), "needs")


def test_a_load_on_the_wrong_queue_is_refused():
    index = first("load")
    refused(with_command(index, replace(PLAN.commands[index], engine="dma_write")), "want dma_read from ext to ocm")


def test_layers_in_the_wrong_order_are_noticed():
    swapped = sorted(PLAN.commands, key=lambda c: (-c.layer,))
    refused(replace(PLAN, commands=tuple(swapped)), "other bytes are at|no slot")


@pytest.mark.parametrize("seed", range(8))
def test_what_verify_lets_through_has_the_right_bits(seed: int):
    """A random change of one address or of the order: either refused, or without effect on the outputs."""
    random = np.random.default_rng(seed)
    commands = list(PLAN.commands)
    index = int(random.integers(len(commands) - 1))
    command = commands[index]
    if seed % 2:
        commands[index], commands[index + 1] = commands[index + 1], command
    else:
        commands[index] = replace(command, writes=(moved(command.writes[0], int(random.choice([-64, -4, 4, 64]))),))
    changed = replace(PLAN, commands=tuple(commands))
    feeds = feeds_of(PROGRAM)
    try:
        verify_plan(changed, CHIP)
    except ValueError:
        return
    expected = run(PLAN, feeds)
    for name, values in run(changed, feeds).items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("kind", ["load", "store", "compute"])
def test_a_moved_write_changes_the_bits_or_is_refused(kind: str):
    feeds = feeds_of(PROGRAM)
    expected = run(PLAN, feeds)
    for index in [i for i, c in enumerate(PLAN.commands) if c.kind == kind][::23]:
        command = PLAN.commands[index]
        broken = with_command(index, replace(command, writes=(moved(command.writes[0], 64),)))
        try:
            found = run(broken, feeds)
        except ValueError:
            continue
        assert any((found[name] != expected[name]).any() for name in expected), f"command {index}"


def sharing() -> tuple[Program, Plan]:
    """A concat of which one part is made in place, and a sum over its first operand."""
    net = Net(9, 33, 8)
    a, b = net.conv("x", 16), net.conv("x", 16, 1)
    total = net.add(a, net.operand(1, 1, 16))
    program = net.program(net.conv(net.concat(total, b), 5))
    return program, plan(program, BIG)


def changed(program: Program, built: Plan, index: int, **attrs: object) -> Plan:
    layers = list(program.layers)
    layers[index] = replace(layers[index], attrs={**layers[index].attrs, **attrs})
    return replace(built, program=replace(program, layers=tuple(layers)))


def test_a_copy_that_is_left_out_must_be_in_place():
    _, built = sharing()
    verify_plan(built, BIG)
    assert {c.part for c in built.commands if c.kind == "compute" and c.layer == 3} == {0}
    apart = tuple(
        replace(c, writes=(moved(c.writes[0], 64),)) if c.kind == "compute" and c.layer == 1 else c
        for c in built.commands
    )
    with pytest.raises(ValueError, match=r"other bytes are at|no slot"):
        verify_plan(replace(built, commands=apart), BIG)


def test_a_part_that_changes_its_format_may_not_be_left_out():
    program, built = sharing()
    parts = list(program.layers[3].attrs["parts"])
    parts[6] = 1 << 30
    with pytest.raises(ValueError, match="overlap"):
        verify_plan(changed(program, built, 3, parts=tuple(parts)), BIG)


def test_a_result_over_an_operand_that_is_read_again_is_noticed():
    net = Net(9, 33, 8)
    x = net.conv("x", 16)
    y = net.lut(x)
    program = net.program(net.conv(net.add(net.conv(y, 16), x), 5))
    built = plan(program, BIG)
    place = next(s.offset for s in built.slots if s.tensor == x and s.memory == "ocm")
    old = next(s.offset for s in built.slots if s.tensor == y and s.memory == "ocm")

    def over(view: View) -> View:
        return replace(view, offset=place) if view.memory == "ocm" and view.offset == old else view

    commands = tuple(
        replace(c, reads=tuple(map(over, c.reads)), writes=tuple(map(over, c.writes))) if c.layer in (1, 2) else c
        for c in built.commands
    )
    slots = tuple(replace(s, offset=place) if s.tensor == y and s.memory == "ocm" else s for s in built.slots)
    refused_on(replace(built, slots=slots, commands=commands), f"operand 1 is not '{x}'")


def test_a_window_op_over_its_own_operand_is_refused():
    net = Net(9, 33, 8)
    x = net.conv("x", 16)
    y = net.conv(x, 16)
    built = plan(net.program(y), BIG)
    place = next(s for s in built.slots if s.tensor == x and s.memory == "ocm")
    slots = tuple(replace(s, offset=place.offset) if s.tensor == y and s.memory == "ocm" else s for s in built.slots)
    refused_on(replace(built, slots=slots), "overlap")


def refused_on(broken: Plan, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        verify_plan(broken, BIG)
