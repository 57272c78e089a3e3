"""What a profile reads off a plan: spilled activations, and layers whose commands take turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from axtool.report.plan_facts import groups, peak_bytes, spilled_bytes, spilled_slots
from axtool.report.profile import Request, Source
from axtool.types import Command, Layer, Plan, Program, Slot, Tile, View
from tests.conftest import Tiny

BOX = Tile(0, 0, 0, 1, 1, 1)


def plan_of(layers: str) -> Plan:
    """A plan whose compute commands are of these layers, one digit each."""
    program = Program({}, (Layer("relu", (), ()),) * 6, {}, (), ())
    commands = tuple(Command("compute", "mac", int(layer), BOX, (), ()) for layer in layers)
    return Plan(program, "chip", (), commands, {})


@pytest.mark.parametrize(
    ("order", "found"),
    [
        ("001122", [None] * 6),
        ("010122", [0, 0, None, None, None, None]),
        ("0121233", [None, 1, 1, None, None, None]),
        ("012012", [0, 0, 0, None, None, None]),
        ("01012323", [0, 0, 2, 2, None, None]),
        ("011022", [0, 0, None, None, None, None]),
        ("", [None] * 6),
    ],
)
def test_layers_that_take_turns_are_one_group(order: str, found: list[int | None]) -> None:
    assert list(groups(plan_of(order))) == found


def test_nothing_is_spilled_where_everything_fits(tiny_models: Tiny) -> None:
    (stage,) = Source(Request(tiny_models / "cls.onnx")).on(None).stages
    assert set(stage.spilled_bytes) == {0}


def test_what_has_no_room_on_chip_is_spilled_by_the_layer_that_makes_it(tiny_models: Tiny) -> None:
    settings = ("memory.ocm_bytes=1500",)
    (stage,) = Source(Request(tiny_models / "cls.onnx")).on(None, settings).stages
    moved = [layer.write_bytes for layer in stage.timing.layers]
    assert stage.spilled_bytes[0] > 0
    assert all(out <= written for out, written in zip(stage.spilled_bytes, moved, strict=True))


def test_the_facts_of_a_plan_are_one_a_layer() -> None:
    empty = replace(plan_of(""), slots=())
    assert len(spilled_bytes(empty, spilled_slots(empty))) == len(groups(empty)) == 6


def test_a_load_from_what_lies_inside_another_slot_is_found() -> None:
    layers = tuple(Layer("conv", (), (name,)) for name in ("part", "whole"))
    slots = (Slot("part", "ext", 0, 40, 0, 1), Slot("whole", "ext", 0, 100, 0, 1))
    for offset, found in ((0, (0, 100)), (10, (0, 100)), (60, (0, 100)), (100, (0, 0))):
        source = View("ext", offset, BOX, 1, 1)
        load = Command("load", "dma_read", 1, BOX, (source,), (source,))
        planned = Plan(Program({}, layers, {}, (), ()), "chip", slots, (load,), {})
        assert spilled_bytes(planned, spilled_slots(planned)) == found


@pytest.mark.parametrize(
    ("slots", "most"),
    [
        ([], 0),
        ([(0, 10, 0, 1), (10, 10, 2, 3)], 10),  # one after the other
        ([(0, 10, 0, 2), (10, 10, 2, 3)], 20),
        ([(0, 10, 0, 2), (0, 30, 1, 3)], 30),  # one inside the other
        ([(0, 10, 0, 9), (20, 10, 3, 4), (40, 5, 4, 5)], 25),
    ],
)
def test_the_peak_of_what_is_spilled_counts_shared_bytes_once(
    slots: list[tuple[int, int, int, int]], most: int
) -> None:
    assert peak_bytes([Slot("t", "ext", offset, size, first, last) for offset, size, first, last in slots]) == most
