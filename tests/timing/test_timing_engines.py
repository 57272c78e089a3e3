"""One command after the other on the engines of a core: when each engine is busy."""

from __future__ import annotations

import pytest

from axtool.timing.cost import Cost
from axtool.timing.engines import Engines, Run
from axtool.timing.lanes import LANES, Lane

NOBODY = Run()


class Core:
    """Engines, and the spans that they have worked."""

    def __init__(self) -> None:
        self.lanes = {name: Lane(name) for name in LANES}
        self.engines = Engines(self.lanes, holds_weights=True)

    def stream(self, cost: Cost, ready: int = 0, weights: int = 0, source: Run = NOBODY, layer: int = 0) -> Run:
        return self.engines.stream(layer, cost, ready, weights, source)

    def spans(self, name: str) -> list[tuple[int, int]]:
        return list(zip(self.lanes[name].starts, self.lanes[name].ends, strict=True))


@pytest.fixture
def core() -> Core:
    return Core()


def test_the_engines_of_one_command_run_beside_each_other(core: Core):
    run = core.stream(Cost(mac=100, compute=40, port=60, array=20), ready=7)
    assert [core.spans(name) for name in ("port", "mac", "array", "vector")] == [
        [(7, 67)], [(7, 107)], [(7, 27)], [(7, 47)],
    ]  # fmt: skip
    assert run == Run(7, 107)


@pytest.mark.parametrize("engine", ["mac", "compute", "port", "array"])
def test_a_command_is_done_when_its_slowest_engine_is(core: Core, engine: str):
    cycles = {"mac": 10, "compute": 10, "port": 10, "array": 10, engine: 90}
    assert core.stream(Cost(**cycles)).done == 90


def test_the_next_command_starts_on_each_engine_that_is_free(core: Core):
    core.stream(Cost(mac=100, compute=40, port=30))
    core.stream(Cost(mac=10, compute=5, port=30))
    assert core.spans("port") == [(0, 60)]
    assert core.spans("mac") == [(0, 110)]
    assert core.spans("vector") == [(0, 40), (100, 105)]


def test_macs_wait_for_the_first_block_of_weights(core: Core):
    core.stream(Cost(mac=400, array=100, blocks=4), weights=50)
    assert core.spans("array") == [(50, 150)]
    assert core.spans("mac") == [(75, 475)]


def test_the_macs_of_the_last_block_wait_for_it(core: Core):
    run = core.stream(Cost(mac=40, array=100, blocks=4))
    assert core.spans("mac") == [(70, 110)]
    assert run.done == 110


def test_the_next_weights_enter_when_the_macs_of_the_last_block_begin(core: Core):
    core.stream(Cost(mac=400, array=100, blocks=4))
    core.stream(Cost(mac=100, array=25, blocks=1), ready=0, weights=0, layer=1)
    assert core.spans("array") == [(0, 100), (325, 350)]
    assert core.spans("mac") == [(25, 425), (425, 525)]


def test_weights_may_enter_before_the_rest_of_their_command_is_ready(core: Core):
    core.stream(Cost(mac=100, array=25, blocks=1, port=10), ready=1000, weights=200)
    assert core.spans("array") == [(200, 225)]
    assert core.spans("mac") == [(1000, 1100)]


def test_what_is_handed_on_is_taken_as_it_comes_and_not_done_before_it_is(core: Core):
    maker = core.stream(Cost(mac=100, port=10))
    taker = core.stream(Cost(compute=20, port=5), source=maker, layer=1)
    assert core.spans("vector") == [(10, 30)]
    assert taker.done == maker.done == 100


def test_nothing_is_taken_before_its_maker_begins(core: Core):
    maker = core.stream(Cost(mac=100), ready=50)
    core.stream(Cost(compute=20), source=maker, layer=1)
    assert core.spans("vector") == [(50, 70)]


def test_engines_that_take_turns_follow_each_other(core: Core):
    run = core.engines.turn(0, Cost(mac=100, compute=40, data_array=20, data_ocm=30, port=130), 5)
    assert [core.spans(name) for name in ("mac", "port", "array", "vector")] == [
        [(5, 105)], [(5, 135)], [(135, 155)], [(155, 195)],
    ]  # fmt: skip
    assert run == Run(5, 195)


def test_transfers_of_a_command_without_macs_run_beside_its_vector_unit(core: Core):
    run = core.engines.turn(0, Cost(compute=40, port=60, data_ocm=20), 0)
    assert (core.spans("vector"), core.spans("port"), run.done) == ([(0, 40)], [(0, 60)], 60)


def test_a_copy_with_arithmetic_is_moved_first(core: Core):
    core.engines.turn(0, Cost(compute=40, port=60, data_ocm=60), 0)
    assert core.spans("vector") == [(60, 100)]


def test_transfers_behind_macs_use_what_those_left(core: Core):
    core.engines.turn(0, Cost(mac=100, port=30, compute=10), 0)
    core.engines.turn(1, Cost(compute=5, port=90, data_ocm=85), 110, handed_from=0)
    assert core.spans("port") == [(0, 30), (30, 100), (110, 130)]
    assert core.spans("vector") == [(0 + 100, 110), (130, 135)]


def test_transfers_behind_macs_wait_for_what_they_move(core: Core):
    core.engines.turn(0, Cost(mac=100, port=30), 0)
    core.engines.turn(1, Cost(port=90, compute=5), 100, handed_from=80)
    assert core.spans("port") == [(0, 30), (80, 170)]


def test_macs_that_were_handed_an_operand_leave_cycles_too(core: Core):
    core.engines.turn(0, Cost(mac=50, port=50), 0)
    core.engines.turn(1, Cost(mac=100), 50, handed_from=0)
    core.engines.turn(2, Cost(port=60, compute=5), 150, handed_from=0)
    assert core.spans("port") == [(0, 50), (50, 110)]
    assert core.spans("vector") == [(150, 155)]
