"""Which core a frame runs on: models stay where they are, share the cores, and leave them when that is worth it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

from axtool.errors import FitError
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import DeviceLost
from axtool.runtime.scheduler import Scheduler, residency
from axtool.runtime.scheduler.residency import IN_A_ROW
from axtool.runtime.scheduler.shares import shares
from tests.runtime.scheduler_boards import (
    FRAME,
    FakeBoard,
    FakeInstance,
    Held,
    at_once,
    boards,
    model,
    nothing_forgotten,
)

A, B, C = model("a"), model("b"), model("c")


@pytest.fixture
def board() -> FakeBoard:
    return FakeBoard(cores=4)


@pytest.fixture
def scheduler(board: FakeBoard) -> Iterator[Scheduler]:
    with boards(board):
        made = Scheduler()
        yield made
        made.close()


def run(scheduler: Scheduler, model: DeviceModel) -> None:
    scheduler.run_stage(model, 0, FRAME)


def loaded(board: FakeBoard) -> list[tuple[int, str]]:
    """(core, model) of every load so far."""
    return [(core, key) for core, key, _ in board.loads]


@pytest.mark.parametrize(
    ("wanted", "cores", "given"),
    [
        ([None], 4, [4]),
        ([None, None], 4, [2, 2]),
        ([None, None, None], 4, [2, 1, 1]),
        ([2, None], 4, [2, 2]),
        ([None, 3], 4, [1, 3]),
        (["50%"], 4, [2]),
        (["50%", "50%"], 4, [2, 1]),
        (["50%", 2], 4, [1, 2]),
        ([2, "50%", None], 4, [2, 1, 1]),
        (["25%"], 4, [1]),
        (["10%"], 4, [1]),
        (["100%", None], 4, [4, 1]),
        ([9], 4, [4]),
        ([4, 4, None], 4, [4, 1, 1]),
        ([None] * 6, 4, [1] * 6),
        ([None], 1, [1]),
        ([None], 0, [1]),
        ([], 4, []),
    ],
)
def test_core_allocation_is_numbers_first_then_shares_of_what_is_left_then_equal_parts(
    wanted: list[Any], cores: int, given: list[int]
) -> None:
    assert shares(wanted, cores) == given


def test_frames_one_after_another_stay_on_the_core_that_holds_the_model(scheduler: Scheduler, board: FakeBoard) -> None:
    for _ in range(20):
        run(scheduler, A)
    assert loaded(board) == [(0, "a")]


def test_frames_at_once_spread_over_all_cores_of_a_model_that_is_alone(scheduler: Scheduler, board: FakeBoard) -> None:
    with Held(board, 4) as held:
        held.start(4, partial(run, scheduler, A))
    assert sorted(loaded(board)) == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]
    assert [core.frames for core in scheduler.stats().cores] == [1, 1, 1, 1]


def test_the_outputs_are_those_of_the_frame(scheduler: Scheduler) -> None:
    frames = [[np.full((1, 2, 2, 4), value, np.int8)] for value in range(64)]
    made = at_once(*(partial(scheduler.run_stage, A, 0, frame) for frame in frames))
    assert all(out[0] is frame[0] for out, frame in zip(made, frames, strict=True))


def test_models_that_fit_side_by_side_never_switch(scheduler: Scheduler, board: FakeBoard) -> None:
    for _ in range(10):
        for one in (A, B, C):
            run(scheduler, one)
    assert sorted(loaded(board)) == [(0, "a"), (1, "b"), (2, "c")]
    assert scheduler.stats().switches == 3


def test_a_second_model_takes_its_share_of_the_cores_of_the_first(scheduler: Scheduler, board: FakeBoard) -> None:
    with Held(board, 4) as held:
        held.start(4, partial(run, scheduler, A))
    with Held(board, 2) as held:
        held.start(2, partial(run, scheduler, B))
    assert [core.model for core in scheduler.stats().cores].count("a.axm") == 2
    with Held(board, 2) as held:
        held.start(4, partial(run, scheduler, B))  # two of them wait: the other cores are the first model's
    assert [core.model for core in scheduler.stats().cores].count("b.axm") == 2
    assert len(board.loads) == 6


def test_core_allocation_bounds_the_cores_of_a_model(scheduler: Scheduler, board: FakeBoard) -> None:
    with Held(board, 2) as held:
        held.start(8, partial(run, scheduler, model("two", 2)))
    assert len(board.loads) == 2


def test_a_model_on_no_core_takes_the_one_that_rested_longest(scheduler: Scheduler, board: FakeBoard) -> None:
    for name in "abcd":
        run(scheduler, model(name))
    run(scheduler, A)
    run(scheduler, model("e"))
    assert loaded(board)[-1] == (1, "e")


def test_models_that_run_nothing_leave_their_cores_to_one_whose_frames_wait(
    scheduler: Scheduler, board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Held(board, 4) as held:
        held.start(4, partial(run, scheduler, A))
    monkeypatch.setattr(residency, "UNUSED_AFTER_S", 0.0)
    with Held(board, 4) as held:
        held.start(4, partial(run, scheduler, B))
    assert [core.model for core in scheduler.stats().cores] == ["b.axm"] * 4


def test_a_core_takes_as_many_frames_at_once_as_its_board_says() -> None:
    board = FakeBoard(cores=2, queue=2)
    with boards(board):
        scheduler = Scheduler()
        with Held(board, 4) as held:
            held.start(6, partial(run, scheduler, A))
        scheduler.close()
    assert board.most == {0: 2, 1: 2}
    assert len(board.loads) == 2


def test_frames_that_wait_for_one_core_come_in_their_order() -> None:
    board, order = FakeBoard(cores=1), []
    with boards(board):
        scheduler = Scheduler()
        with Held(board, 1) as held:
            held.start(1, partial(run, scheduler, A))
            board.work = lambda instance: order.append(instance.model.key)
            for name in ("a", "b", "c", "d"):
                held.wait_for_a_core(scheduler, partial(run, scheduler, model(name)))
        scheduler.close()
    assert order == ["a", "b", "c", "d"]


@pytest.mark.parametrize("batch", [None, 1, 2, 5])
@pytest.mark.parametrize("queue", [1, 2])
def test_a_core_runs_as_many_frames_in_a_row_as_the_batch_of_its_model_while_another_waits(
    batch: int | None, queue: int
) -> None:
    board, order, in_a_row = FakeBoard(cores=1, queue=queue), [], batch or IN_A_ROW
    mine = model("a", batch=batch)
    with boards(board):
        scheduler = Scheduler()
        with Held(board, 1) as held:
            held.start(1, partial(run, scheduler, mine))
            held.fill(partial(run, scheduler, mine), queue - 1)
            board.work = _notes(order)
            held.wait_for_a_core(scheduler, partial(run, scheduler, B))
            for _ in range(in_a_row + 4):
                held.wait_for_a_core(scheduler, partial(run, scheduler, mine))
        scheduler.close()
    assert order == ["a"] * in_a_row + ["b"] + ["a"] * 4
    assert len(board.loads) == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_larger_batch_switches_less_often_and_nobody_starves(seed: int) -> None:
    """Two models with 12 threads each on one core that takes two frames at once: every frame ends."""
    switches = {}
    for batch in (1, 8):
        board, rng = FakeBoard(cores=1, queue=2), random.Random(seed)
        board.work = lambda instance: time.sleep(0.0003)
        with boards(board):
            scheduler = Scheduler()
            kinds = [model("a", batch=batch), model("b", batch=batch)] * 12

            def frames(own: DeviceModel, scheduler: Scheduler = scheduler) -> None:
                for _ in range(20):
                    run(scheduler, own)

            rng.shuffle(kinds)
            assert at_once(*[partial(frames, one) for one in kinds]) == [None] * 24
            switches[batch] = scheduler.stats().switches
            scheduler.close()
    assert switches[8] < switches[1] / 2


def test_a_core_that_dies_is_left_out_and_its_frame_runs_on_another(
    scheduler: Scheduler, board: FakeBoard, caplog: pytest.LogCaptureFixture
) -> None:
    board.work = _dies_on(0)
    with caplog.at_level(logging.WARNING, "axtool"):
        for _ in range(3):
            run(scheduler, A)
    assert [core.alive for core in scheduler.stats().cores] == [False, True, True, True]
    assert [core.frames for core in scheduler.stats().cores] == [0, 3, 0, 0]
    assert [record.getMessage() for record in caplog.records] == [
        "fake-0:1:0/0 is left out, 3 cores remain: core 0 is gone"
    ]


def test_without_a_core_that_answers_each_frame_says_so(scheduler: Scheduler, board: FakeBoard) -> None:
    board.work = _dies_on(0, 1, 2, 3)
    made = at_once(*[partial(run, scheduler, A)] * 12)
    assert all(isinstance(error, DeviceLost) for error in made)
    with pytest.raises(DeviceLost, match="fake-0:1:0: no core of this scheduler answers any more"):
        run(scheduler, B)


def test_frames_that_wait_for_a_core_that_dies_get_another(board: FakeBoard) -> None:
    """Model a has one core, b the other three, which rest. The frame on a's core is lost while two more wait for it."""
    order: list[str] = []
    with boards(board):
        scheduler = Scheduler()
        run(scheduler, model("a", 1))
        with Held(board, 3) as held:
            held.start(3, partial(run, scheduler, model("b", 3)))
        with Held(board, 1) as held:
            held.start(1, partial(run, scheduler, model("a", 1)))
            held.wait_for_a_core(scheduler, lambda: order.append(str(run(scheduler, model("a", 1)))))
            held.wait_for_a_core(scheduler, lambda: order.append(str(run(scheduler, model("a", 1)))))
            held.then = _dies_on(0)
        scheduler.close()
    assert order == ["None", "None"]
    assert [core.alive for core in scheduler.stats().cores] == [False, True, True, True]


def test_a_model_that_does_not_fit_leaves_the_core_to_others(scheduler: Scheduler, board: FakeBoard) -> None:
    board.fits = _refuses("b")
    run(scheduler, A)
    for _ in range(3):
        with pytest.raises(FitError, match="too large"):
            run(scheduler, B)
    run(scheduler, C)
    assert [core.model for core in scheduler.stats().cores] == ["a.axm", "c.axm", None, None]


def test_an_error_of_a_frame_is_its_own(scheduler: Scheduler, board: FakeBoard) -> None:
    def fails(instance: FakeInstance) -> None:
        raise ValueError("input 0 is int8")

    board.work = fails
    with pytest.raises(ValueError, match="input 0 is int8"):
        run(scheduler, A)
    board.work = lambda instance: None
    run(scheduler, A)
    assert len(board.loads) == 1


def test_a_batch_may_borrow_cores_beyond_its_share_and_only_one_at_a_time(
    scheduler: Scheduler, board: FakeBoard
) -> None:
    for one in (A, B):
        with Held(board, 2) as held:
            held.start(2, partial(run, scheduler, one))
    cores = scheduler.connected()
    with cores.lent(B, range(4)) as lent, cores.lent(B, range(4)) as again:
        assert (lent, again) == (True, False)
        with Held(board, 4) as held:
            held.start(4, partial(run, scheduler, B))
        assert [view.holds for view in cores.view(A)] == ["b"] * 4
    run(scheduler, A)
    assert [view.holds for view in cores.view(A)].count("a") == 1


def test_the_view_of_a_model_tells_what_each_core_would_cost(scheduler: Scheduler) -> None:
    run(scheduler, A)
    cores = scheduler.connected()
    assert [(view.holds, view.idle, view.switch_s, view.back_s) for view in cores.view(A)] == [
        ("a", True, 0.0, 0.001), *[(None, True, 0.001, 0.0)] * 3,
    ]  # fmt: skip
    assert [view.switch_s for view in cores.view(B)] == [0.001] * 4


def test_counters_add_up(scheduler: Scheduler) -> None:
    at_once(*[partial(run, scheduler, one) for one in (A, B) for _ in range(30)])
    stats = scheduler.stats()
    assert stats.frames == 60
    assert sum(core.modelled_s for core in stats.cores) == pytest.approx(60 * 0.002)
    assert sum(core.switch_s for core in stats.cores) == pytest.approx(stats.switches * 0.001)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("queue", [1, 2])
def test_whatever_happens_every_frame_ends_and_no_core_is_forgotten(seed: int, queue: int) -> None:
    rng = random.Random(seed)
    board = FakeBoard(cores=rng.randint(1, 5), queue=queue)
    kinds = [model(f"{at}", rng.choice([None, None, 1, 2, "50%"])) for at in range(rng.randint(1, 7))]
    board.fits = _sometimes(rng, FitError, 0.05)
    board.work = _sometimes(rng, ValueError, 0.05)
    with boards(board):
        scheduler = Scheduler()

        def frames(own: random.Random) -> int:
            ended = 0
            for _ in range(120):
                with suppress(ValueError, FitError):
                    run(scheduler, own.choice(kinds))
                ended += 1
            return ended

        assert at_once(*[partial(frames, random.Random(seed * 100 + at)) for at in range(8)]) == [120] * 8
        nothing_forgotten(scheduler)
        assert all(most <= queue for most in board.most.values())
        scheduler.close()


def _dies_on(*cores: int) -> Callable[[FakeInstance], None]:
    def work(instance: FakeInstance) -> None:
        if instance.core in cores:
            raise DeviceLost(f"core {instance.core} is gone")

    return work


def _notes(order: list[str]) -> Callable[[FakeInstance], None]:
    return lambda instance: order.append(instance.model.key)


def _refuses(key: str) -> Callable[[DeviceModel], None]:
    def fits(model: DeviceModel) -> None:
        if model.key == key:
            raise FitError("too large")

    return fits


def _sometimes(rng: random.Random, error: type[Exception], share: float) -> Callable[[Any], None]:
    lock = threading.Lock()

    def work(what: object) -> None:
        with lock:
            fails = rng.random() < share
        if fails:
            raise error("by chance")

    return work
