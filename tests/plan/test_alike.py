"""Layers that are alike are searched once, and get what was found with their own names."""

from __future__ import annotations

from functools import partial

import pytest

from axtool.plan.alike import Alike
from axtool.plan.tile import choose
from axtool.plan.tile_boxes import TileJob
from axtool.target_file import load_target
from axtool.types import Program
from tests.plan.hand_programs import Net

CHIP = load_target("dpu-b4096")
ROOM = 64 * 1024


def blocks(*couts: int) -> Program:
    net = Net(24, 24, 32)
    x = "x"
    for cout in couts:
        x = net.conv(x, cout)
    return net.program(x)


def jobs(program: Program) -> list[TileJob]:
    names = frozenset(name for name in program.tensors if name not in program.constants)
    return [TileJob(layer, program, CHIP, names) for layer in program.layers]


def searches(work: list[TileJob], rooms: list[int]) -> int:
    """How many searches the layers ask for."""
    alike, asked = Alike(), []

    def search(job: TileJob, room: int):
        asked.append(job)
        return choose(job, room)

    for job, room in zip(work, rooms, strict=True):
        alike.one(job, (room,), partial(search, job, room))
    return len(asked)


def test_layers_that_differ_in_names_alone_are_searched_once():
    assert searches(jobs(blocks(32, 32, 32)), [ROOM] * 3) == 1


@pytest.mark.parametrize(("couts", "rooms"), [((32, 48), (ROOM, ROOM)), ((32, 32), (ROOM, ROOM // 2))])
def test_another_shape_or_another_room_is_another_search(couts, rooms):
    assert searches(jobs(blocks(*couts)), list(rooms)) == 2


def test_a_tensor_that_stays_on_chip_is_another_search():
    first, second = jobs(blocks(32, 32))
    inside = TileJob(second.layer, second.program, CHIP, second.external - {second.layer.outputs[0]})
    assert searches([first, inside], [ROOM] * 2) == 2


def test_what_was_found_before_is_what_would_be_found_again():
    alike, work = Alike(), jobs(blocks(32, 32))
    for job in work:
        found = alike.one(job, (ROOM,), partial(choose, job, ROOM))
        assert found == choose(job, ROOM)
        assert set(found.constants) == set(job.layer.inputs[1:])


def test_where_nothing_fits_nothing_is_found_twice():
    alike, (first, second) = Alike(), jobs(blocks(32, 32))
    assert alike.one(first, (), lambda: None) is alike.one(second, (), lambda: None) is None
