"""Rows that no engine may run: each is refused when the engine is made, with its number and the reason."""

from dataclasses import replace

import numpy as np
import pytest

from axtool.sim.engine import native_available, open_engine
from axtool.sim.images import encode_plan, open_plan, sizes_of
from axtool.types import Command, Plan, Tile
from tests.sim.tiny_plans import Tiny, cuts, small_net


def plan() -> Plan:
    """Commands: 0 conv, 1 max_pool, 2 and 3 concat, 4 lut, 5 add."""
    return small_net()[0].plan(["out"])


def with_command(original: Plan, index: int, **changes: object) -> Plan:
    commands = list(original.commands)
    commands[index] = replace(commands[index], **changes)
    return replace(original, commands=tuple(commands))


def with_view(original: Plan, index: int, at: int, **changes: object) -> Plan:
    command = original.commands[index]
    views = [*command.reads, *command.writes]
    views[at] = replace(views[at], **changes)
    return with_command(original, index, reads=tuple(views[:-1]), writes=tuple(views[-1:]))


def copy_between(*extents: tuple[int, int, int], tile: Tile | None = None) -> Plan:
    original = plan()
    view = original.commands[1].reads[0]
    views = [replace(view, tile=Tile(0, 0, 0, *extent)) for extent in extents]
    copy = Command("move", "array", 0, tile or views[0].tile, (views[0],), (views[1],))
    return replace(original, commands=(*original.commands, copy))


FULL = Tile(0, 0, 0, 9, 8, 19)
REFUSED = {
    "a layer that does not exist": (
        lambda: with_command(plan(), 1, layer=5), "command 1: layer 5 does not exist; there are 5"),
    "a negative layer": (lambda: with_command(plan(), 1, layer=-1), "command 1: layer -1 does not exist"),
    "a view before its memory": (lambda: with_view(plan(), 0, 0, offset=-1), "command 0: bytes -1.* leave ext"),
    "a view behind its memory": (lambda: with_view(plan(), 4, 1, offset=10**9), "command 4: bytes .* leave ext"),
    "a view that overlaps itself": (
        lambda: with_view(plan(), 0, 3, pixel_stride=18), "command 0: a view of .* overlaps itself"),
    "a view whose rows overlap": (
        lambda: with_view(plan(), 0, 3, row_stride=8 * 32 - 14), "command 0: a view of .* overlaps itself"),
    "a view of nothing": (
        lambda: with_view(plan(), 0, 3, tile=Tile(0, 0, 0, 0, 8, 19)), "command 0: a view has no element"),
    "a box outside the output": (
        lambda: with_command(plan(), 1, tile=Tile(0, 0, 0, 10, 8, 19)), "command 1: max_pool: the box .*0:10"),
    "an empty box": (
        lambda: with_command(plan(), 1, tile=Tile(0, 0, 0, 0, 8, 19)), "command 1: max_pool: the box"),
    "too little of an input": (
        lambda: with_view(plan(), 1, 0, tile=Tile(1, 0, 0, 8, 8, 19)), "command 1: max_pool: operand 0 needs .*0:9"),
    "too few weights": (
        lambda: with_view(plan(), 0, 1, tile=Tile(0, 0, 0, 1, 1, 100)), "command 0: conv: operand 1 needs"),
    "weights that begin too late": (
        lambda: with_view(plan(), 0, 1, tile=Tile(0, 0, 64, 1, 1, 2 * 9 * 2 * 64 - 64)), "conv: operand 1 needs"),
    "too short a table": (
        lambda: with_view(plan(), 4, 1, tile=Tile(0, 0, 0, 1, 1, 255)), "command 4: lut: operand 1 needs"),
    "too little room for the output": (
        lambda: with_view(plan(), 5, 2, tile=Tile(0, 0, 0, 9, 8, 37)), "command 5: add: the view of the output"),
    "an operand too few": (
        lambda: with_command(plan(), 5, reads=plan().commands[5].reads[:1]), "command 5: add: 1 reads"),
    "an output too many": (
        lambda: with_command(plan(), 5, writes=plan().commands[5].writes * 2), "command 5: add: 2 reads and 2 writes"),
    "an input that the concat lacks": (lambda: with_command(plan(), 3, part=2), "command 3: concat: part 2"),
    "params that begin inside a number": (
        lambda: with_view(plan(), 0, 2, offset=plan().commands[0].reads[2].offset - 1), "begins inside a number"),
    "channels inside a block": (
        lambda: with_command(plan(), 0, tile=Tile(0, 0, 8, 9, 8, 11)), "command 0: conv: channel 8 is inside a block"),
    "a copy that changes the extent": (
        lambda: copy_between((3, 8, 19), (8, 3, 19)), "command 6: move: .* does not fit"),
    "a copy of nothing": (
        lambda: copy_between((3, 8, 19), (3, 8, 19), tile=Tile(0, 0, 0, 3, 0, 19)), "command 6: move: .* no box"),
    "a copy of what is before a tensor": (
        lambda: copy_between((3, 8, 19), (3, 8, 19), tile=Tile(0, -64, 0, 3, 8, 19)), "command 6: move: .* no box"),
    "a copy of what is beyond any tensor": (
        lambda: copy_between((3, 8, 19), (3, 8, 19), tile=Tile(2**40, 0, 0, 3, 8, 19)), "command 6: move: .* no box"),
    "a negative stride": (lambda: with_view(plan(), 4, 1, row_stride=-1), "command 4: a view has strides .*: -1, 256"),
    "a stride beyond any memory": (lambda: with_view(plan(), 4, 1, pixel_stride=2**40), "a view has strides"),
    "a view of what is beyond any tensor": (
        lambda: with_view(plan(), 4, 1, tile=Tile(2**40, 0, 0, 1, 1, 256)), "command 4: a view lies beyond"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_a_command_is_refused_for(fault):
    make, reason = REFUSED[fault]
    with pytest.raises(ValueError, match=reason) as refusal:
        open_plan(make())
    if native_available():
        number = str(refusal.value).split(":")[0]  # "command 3"
        with pytest.raises(ValueError, match=f"{number}:"):
            open_plan(make(), "native")


def test_the_plans_that_the_refusals_start_from_are_accepted():
    open_plan(plan())
    open_plan(copy_between((3, 8, 19), (3, 8, 19)))
    open_plan(small_net()[0].plan(["out"], cuts(2, 3, 16), staged=True))


def test_a_layer_that_contradicts_itself_is_refused_by_its_number():
    rows = list(encode_plan(plan()))
    rows[0] = rows[0].copy()
    rows[0][rows[1][4] + 4] += 1  # one more row in the output of the add
    with pytest.raises(ValueError, match="layer 4: add: operand a"):
        open_engine("reference", *rows, sizes_of(plan()))


@pytest.mark.parametrize("cut", [slice(0, -1), slice(1, None), slice(0, 0)])
def test_offsets_that_do_not_cut_the_rows_are_refused(cut):
    layers, offsets, commands, command_offsets = encode_plan(plan())
    with pytest.raises(ValueError, match="offsets do not cut"):
        open_engine("reference", layers, offsets[cut], commands, command_offsets, sizes_of(plan()))


def test_random_rows_are_refused_and_never_believed():
    rng = np.random.default_rng(0)
    layers, layer_offsets, commands, offsets = encode_plan(plan())
    for _ in range(300):
        broken = commands.copy()
        broken[rng.integers(commands.size, size=3)] = rng.integers(-(2**62), 2**62, 3)
        try:
            open_engine("reference", layers, layer_offsets, broken, offsets, sizes_of(plan()))
        except ValueError as error:
            assert str(error).startswith("command ")  # noqa: PT017


def test_an_engine_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="engine 'fast' does not exist; there are native, reference"):
        open_engine("fast", *encode_plan(plan()), sizes_of(plan()))


def wide_plan(*, even: bool = True) -> Plan:
    """One wide_requantize, with the view of its int16 operand moved by a byte where it is not to be even."""
    net = Tiny()
    net.input("x", (3, 4, 10))
    numbers = {"zp": 0, "m": 1 << 30, "f": 31, "out_zp": 0, "lo": -128, "hi": 127, "x_bytes": 2, "out_bytes": 1}
    net.layer("wide_requantize", ["x"], "out", (3, 4, 5), **numbers)
    made = net.plan(["out"])
    return made if even else with_view(made, 0, 0, offset=made.commands[0].reads[0].offset + 1)


WIDE_REFUSED = {
    "an operand at an odd address": (lambda: wide_plan(even=False), "operand 0 begins inside a number"),
    "an operand whose pixels are an odd number of bytes apart": (
        lambda: with_view(wide_plan(), 0, 0, pixel_stride=15), "operand 0 begins inside a number"),
    "a view that begins before its tensor": (
        lambda: with_view(wide_plan(), 0, 0, tile=Tile(0, 0, -1, 3, 4, 11)), "begins before its tensor"),
}  # fmt: skip


@pytest.mark.parametrize("what", WIDE_REFUSED)
def test_a_number_of_two_bytes_begins_at_an_even_address(what):
    make, message = WIDE_REFUSED[what]
    open_plan(wide_plan())
    with pytest.raises(ValueError, match=message):
        open_plan(make())
