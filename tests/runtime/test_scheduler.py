"""`Scheduler`, `create`, `current`, `close`: who owns the boards, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from axtool.runtime import scheduler
from axtool.runtime.devices.seam import DevicesInUse
from axtool.runtime.scheduler import Scheduler, SchedulerClosed
from axtool.runtime.scheduler.default import close_default
from tests.runtime.scheduler_boards import FRAME, FakeBoard, at_once, boards, model


@pytest.fixture
def board() -> Iterator[FakeBoard]:
    """The one board of the process, four cores; no default scheduler before, none after."""
    close_default()
    made = FakeBoard()
    with boards(made):
        yield made
        close_default()


def test_a_scheduler_connects_when_the_first_model_runs(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert not made.is_connected
        assert not board.taken
        made.run_stage(model("a"), 0, FRAME)
        assert made.is_connected
        assert board.taken


def test_current_is_the_scheduler_of_the_block_and_the_default_is_never_made_in_it(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert scheduler.current() is made
        scheduler.current().run_stage(model("a"), 0, FRAME)
    assert scheduler.current() is not made


def test_the_default_is_made_once_and_used_again(board: FakeBoard) -> None:
    assert scheduler.current() is scheduler.current()
    assert len({id(one) for one in at_once(*[scheduler.current] * 16)}) == 1


def test_closing_the_default_makes_room_and_the_next_call_makes_another(board: FakeBoard) -> None:
    first = scheduler.current()
    first.run_stage(model("a"), 0, FRAME)
    first.close()
    assert not board.taken
    assert scheduler.current() is not first
    scheduler.current().run_stage(model("a"), 0, FRAME)


def test_create_refuses_devices_that_the_default_owns(board: FakeBoard) -> None:
    scheduler.current().run_stage(model("a"), 0, FRAME)
    with pytest.raises(RuntimeError, match=r"default scheduler owns fake-0:1:0.*current\(\).close"), scheduler.create():
        pass


def test_create_is_content_with_a_default_that_has_not_connected(board: FakeBoard) -> None:
    assert not scheduler.current().is_connected
    with scheduler.create() as made:
        made.run_stage(model("a"), 0, FRAME)


def test_a_second_scheduler_fails_when_it_connects(board: FakeBoard) -> None:
    with scheduler.create() as first:
        first.run_stage(model("a"), 0, FRAME)
        second = Scheduler()
        with pytest.raises(DevicesInUse, match=r"num_sub_devices > available \(4 > 0\)"):
            second.run_stage(model("a"), 0, FRAME)
        assert not second.is_connected


def test_a_scheduler_that_is_constructed_is_current_of_nothing(board: FakeBoard) -> None:
    made = Scheduler()
    assert scheduler.current() is not made
    made.close()


def test_every_worker_resolves_current_to_its_owner(board: FakeBoard) -> None:
    made, found, done = Scheduler(), [], threading.Event()
    with scheduler.create():
        made.workers.submit(lambda: (found.append(scheduler.current()), done.set()))
        assert done.wait(5)
    made.close()
    assert found == [made]


def test_a_closed_scheduler_says_so(board: FakeBoard) -> None:
    made = Scheduler()
    made.close()
    made.close()
    with pytest.raises(SchedulerClosed, match="this scheduler is closed"):
        made.run_stage(model("a"), 0, FRAME)
    with pytest.raises(SchedulerClosed, match="this scheduler is closed"):
        _ = made.workers
