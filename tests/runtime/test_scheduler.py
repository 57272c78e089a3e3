"""`Scheduler`, `create`, `current`, `close`: who owns the boards, and for how long."""

from __future__ import annotations

import contextvars
import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from axtool.errors import UnsupportedError
from axtool.runtime import op, scheduler
from axtool.runtime.device_config import BoardConfig, DeviceConfig
from axtool.runtime.devices.seam import DevicesInUse
from axtool.runtime.devices.select import UnknownDevice
from axtool.runtime.scheduler import Scheduler, SchedulerClosed
from tests.runtime.scheduler_boards import FRAME, FakeBoard, FakeInstance, Held, at_once, boards, model


@pytest.fixture
def board() -> Iterator[FakeBoard]:
    """The one board of the process, four cores."""
    made = FakeBoard()
    with boards(made):
        yield made


@pytest.fixture
def two_boards() -> Iterator[tuple[FakeBoard, FakeBoard]]:
    """fake-0:1:0 and fake-0:2:0, four cores each, of two board models."""
    first, second = FakeBoard(), FakeBoard("fake-0:2:0", board_model="m2")
    with boards(first, second):
        yield first, second


def run(made: Scheduler, key: str = "a") -> None:
    made.run_stage(model(key), 0, FRAME)


def in_worker(made: Scheduler, call: Any) -> Any:
    """What a call gives in a worker of a scheduler."""
    found: list[Any] = []
    done = threading.Event()

    def task() -> None:
        try:
            found.append(call())
        finally:
            done.set()

    assert made.workers.submit(task)
    assert done.wait(10)
    return found[0]


# ---- connecting


def test_a_scheduler_connects_when_the_first_model_runs(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert not made.is_connected
        assert not board.taken
        made.run_stage(model("a"), 0, FRAME)
        assert made.is_connected
        assert board.taken


def test_a_pipeline_without_a_model_never_connects(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert op.seq(op.identity())(5) == 5
        assert list(made.stream([1, 2], op.seq(op.identity()))) == [(1, 1), (2, 2)]
        assert not made.is_connected


def test_it_is_connected_until_it_is_closed(board: FakeBoard) -> None:
    made = Scheduler()
    run(made)
    made.close()
    assert not made.is_connected
    assert not board.taken


@pytest.mark.parametrize("devices", [None, "", "0,1", "fake-0:1:0,1", ["fake-0:1:0", 1], (0, 1)])
def test_a_selector_names_boards_by_index_or_name_and_none_means_all(
    two_boards: tuple[FakeBoard, FakeBoard], devices: Any
) -> None:
    with scheduler.create(devices) as made:
        run(made)
        assert [board.taken for board in two_boards] == [True, True]
        assert made.core_count == 8


def test_a_scheduler_reserves_the_cores_of_its_devices_alone(two_boards: tuple[FakeBoard, FakeBoard]) -> None:
    with scheduler.create("fake-0:2:0") as made:
        run(made)
        assert [board.taken for board in two_boards] == [False, True]
        assert {core.name for core in made.stats().cores} == {f"fake-0:2:0/{at}" for at in range(4)}


@pytest.mark.parametrize(
    ("devices", "match"), [("2", "no device '2'"), ("fake-0:9:0", "no device"), ("0,0", "twice"), (3.5, "a text")]
)
def test_a_selector_that_selects_nothing_is_refused_at_once(
    two_boards: tuple[FakeBoard, FakeBoard], devices: Any, match: str
) -> None:
    with pytest.raises(UnknownDevice, match=match):
        Scheduler(devices)
    with pytest.raises(UnknownDevice, match=match), scheduler.create(devices):
        pass


def test_two_live_schedulers_cannot_claim_the_same_cores(two_boards: tuple[FakeBoard, FakeBoard]) -> None:
    with scheduler.create() as first, scheduler.create("1") as second:
        run(first)
        with pytest.raises(DevicesInUse, match="num_sub_devices > available"):
            run(second)


def test_a_scheduler_that_cannot_have_all_its_boards_takes_none(two_boards: tuple[FakeBoard, FakeBoard]) -> None:
    with scheduler.create("1") as owner, scheduler.create() as greedy:
        run(owner)
        with pytest.raises(DevicesInUse):
            run(greedy)
        assert not two_boards[0].taken
        owner.close()
        run(greedy)


def test_schedulers_of_disjoint_devices_run_at_once_each_in_its_thread(
    two_boards: tuple[FakeBoard, FakeBoard],
) -> None:
    inside = threading.Barrier(2)

    def work(devices: str) -> tuple[int, str]:
        with scheduler.create(devices=devices) as made:
            inside.wait(10)
            for _ in range(50):
                scheduler.current().run_stage(model("a"), 0, FRAME)
            assert in_worker(made, scheduler.current) is made
            return made.stats().frames, made.devices()[0].name

    assert at_once(partial(work, "0"), partial(work, "1")) == [(50, "fake-0:1:0"), (50, "fake-0:2:0")]


# ---- which one is current


def test_current_is_the_scheduler_of_the_block_and_the_default_is_never_made_in_it(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert scheduler.current() is made
        scheduler.current().run_stage(model("a"), 0, FRAME)
    assert scheduler.current() is not made


def test_the_default_is_made_once_and_used_again(board: FakeBoard) -> None:
    assert scheduler.current() is scheduler.current()
    assert len({id(one) for one in at_once(*[scheduler.current] * 16)}) == 1


def test_the_default_is_closed_at_the_end_of_the_interpreter() -> None:
    script = """
import atexit
atexit.register(lambda: print("closed:", made.closed, "connected:", made.is_connected))
from axtool.runtime import scheduler
made = scheduler.current()
made.connected()
made.workers.submit(lambda: None)
print("connected:", made.is_connected)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == ["connected: True", "closed: True connected: False"]
    assert ran.stderr == ""


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


def test_create_binds_the_calling_context_alone(board: FakeBoard) -> None:
    with scheduler.create() as made:
        assert at_once(lambda: scheduler.current() is made) == [False]
        assert contextvars.copy_context().run(scheduler.current) is made


def test_blocks_nest_and_the_outer_one_is_current_again(two_boards: tuple[FakeBoard, FakeBoard]) -> None:
    with scheduler.create("0") as outer:
        with scheduler.create("1") as inner:
            assert scheduler.current() is inner
        assert scheduler.current() is outer
        assert (inner.closed, outer.closed) == (True, False)


def test_a_block_that_fails_closes_its_scheduler_and_lets_the_error_through(board: FakeBoard) -> None:
    found = []

    def block() -> None:
        with scheduler.create() as made:
            found.append(made)
            run(made)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        block()
    assert found[0].closed
    assert not board.taken


def test_a_block_inside_of_a_worker_goes_before_the_owner_of_the_worker(
    two_boards: tuple[FakeBoard, FakeBoard],
) -> None:
    def work() -> list[bool]:
        found = [scheduler.current() is owner]
        with scheduler.create("1") as inner:
            found.append(scheduler.current() is inner)
        return [*found, scheduler.current() is owner]

    with scheduler.create("0") as owner:
        assert in_worker(owner, work) == [True, True, True]


def test_a_block_that_a_generator_leaves_in_another_context_is_closed_all_the_same(board: FakeBoard) -> None:
    def frames() -> Iterator[Scheduler]:
        with scheduler.create() as made:
            yield made

    source = frames()
    made = contextvars.copy_context().run(next, source)
    source.close()
    assert made.closed


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


# ---- workers


def test_the_pool_has_two_workers_per_core_by_default(two_boards: tuple[FakeBoard, FakeBoard]) -> None:
    with scheduler.create() as all_cores, scheduler.create("0", num_workers=3) as chosen:
        assert (all_cores.workers.limit, chosen.workers.limit) == (16, 3)


@pytest.mark.parametrize("num_workers", [0, -5])
def test_num_workers_is_at_least_one(board: FakeBoard, num_workers: int) -> None:
    with scheduler.create(num_workers=num_workers) as made:
        assert made.workers.limit == 1
        assert in_worker(made, lambda: "done") == "done"


def test_num_workers_is_a_whole_number_of_any_kind(board: FakeBoard) -> None:
    with scheduler.create(num_workers=np.int64(3)) as made:  # type: ignore[arg-type]
        assert made.workers.limit == 3


@pytest.mark.parametrize("num_workers", [2.0, "2", True])
def test_num_workers_that_is_no_whole_number_is_refused(board: FakeBoard, num_workers: Any) -> None:
    with pytest.raises(TypeError, match=r"num_workers is a \w+, want a whole number"):
        Scheduler(num_workers=num_workers)


# ---- board settings


def settings_of(board: FakeBoard) -> list[float | None]:
    """The limit of the matrix unit under which each load was made."""
    return [settings.mvm_limitation if settings else None for _, _, settings in board.loads]


def test_the_schedulers_settings_of_a_board_go_before_those_of_the_model(board: FakeBoard) -> None:
    loaded = model("a")
    loaded.device_config = DeviceConfig({"110m": BoardConfig(mvm_limitation=50)})
    with scheduler.create() as made:
        made.run_stage(loaded, 0, FRAME)
    with scheduler.create(device_config=DeviceConfig({"110m": BoardConfig(mvm_limitation=90)})) as made:
        made.run_stage(loaded, 0, FRAME)
    assert settings_of(board) == [50, 90]


def test_the_environment_goes_before_both(board: FakeBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", ",,70")
    with scheduler.create(device_config=DeviceConfig({"110m": BoardConfig(mvm_limitation=90)})) as made:
        run(made)
    assert settings_of(board) == [70]


def test_a_board_that_the_scheduler_does_not_name_keeps_the_models_own_settings(
    two_boards: tuple[FakeBoard, FakeBoard], caplog: pytest.LogCaptureFixture
) -> None:
    loaded = model("a")
    loaded.device_config = DeviceConfig({"m2": BoardConfig(mvm_limitation=50)})
    config = DeviceConfig({"110m": BoardConfig(mvm_limitation=90)})
    with scheduler.create("0", device_config=config) as first, scheduler.create("1", device_config=config) as second:
        first.run_stage(loaded, 0, FRAME)
        with caplog.at_level(logging.WARNING, "axtool"):
            second.run_stage(loaded, 0, FRAME)
    assert [settings_of(board) for board in two_boards] == [[90], [50]]
    assert "device_config names 110m, and the boards of this scheduler are m2" in caplog.text


def test_a_device_config_of_another_type_is_refused(board: FakeBoard) -> None:
    with pytest.raises(TypeError, match="device_config is a dict, want a DeviceConfig"):
        Scheduler(device_config={"110m": 90})  # type: ignore[arg-type]


def test_there_is_no_opencl_context_and_the_error_says_where(board: FakeBoard) -> None:
    made = Scheduler()
    with pytest.raises(UnsupportedError, match=r"fake-0:1:0 \(of a test\): there is no OpenCL context"):
        _ = made.opencl_context
    assert not made.is_connected
    made.close()


# ---- closing


def test_close_ends_the_workers_then_frees_cores_and_models(board: FakeBoard) -> None:
    before = threading.active_count()
    with scheduler.create() as made:
        at_once(*[partial(run, made)] * 8)
        for _ in range(30):
            made.workers.submit(lambda: time.sleep(0.001))
    assert threading.active_count() == before
    assert [core.model for core in made.stats().cores] == [None] * 4
    assert made.stats().workers <= 8
    assert not board.taken


def test_frames_that_run_end_and_frames_that_wait_say_that_it_was_closed(board: FakeBoard) -> None:
    made, results = Scheduler(), []

    def frame() -> None:
        try:
            run(made)
            results.append("ran")
        except SchedulerClosed:
            results.append("closed")

    with Held(board, 4) as held:
        held.start(4, partial(made.workers.submit, frame))
        held.wait_for_a_core(made, frame)
        closing = threading.Thread(target=made.close)
        closing.start()
        while not made.closed:
            time.sleep(0.001)
        with pytest.raises(SchedulerClosed):
            run(made)
    closing.join(10)
    assert sorted(results) == ["closed", "ran", "ran", "ran", "ran"]


def test_tasks_that_no_worker_took_are_called_once_all_the_same(board: FakeBoard) -> None:
    made, called = Scheduler(num_workers=1), []
    gate = threading.Event()
    made.workers.submit(lambda: gate.wait(10))
    for number in range(50):
        made.workers.submit(partial(called.append, number))
    threading.Timer(0.05, gate.set).start()
    made.close()
    assert called == list(range(50))
    assert made.is_connected is False


def test_a_worker_that_never_ends_holds_close_up_for_a_bounded_time(
    board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("axtool.runtime.scheduler.core.PATIENCE_S", 0.2)
    made, gate = Scheduler(num_workers=1), threading.Event()
    run(made)
    made.workers.submit(gate.wait)
    start = time.monotonic()
    made.close()
    assert 0.2 <= time.monotonic() - start < 2
    assert not board.taken
    gate.set()


def test_a_scheduler_may_be_closed_from_its_own_worker(board: FakeBoard) -> None:
    made = Scheduler()
    run(made)
    start = time.monotonic()
    in_worker(made, made.close)
    made.close()
    assert time.monotonic() - start < 3
    assert not board.taken


def test_a_scheduler_that_is_dropped_frees_its_cores_and_warns(board: FakeBoard) -> None:
    def drop() -> None:
        run(Scheduler())
        gc.collect()

    with pytest.warns(ResourceWarning, match="a scheduler on fake-0:1:0 was never closed"):
        drop()
    assert not board.taken


def test_what_closes_a_stream_is_called_before_the_workers_are_waited_for(board: FakeBoard) -> None:
    made, gate = Scheduler(), threading.Event()
    made.closers.add(gate.set)
    made.workers.submit(lambda: gate.wait(10))
    start = time.monotonic()
    made.close()
    assert time.monotonic() - start < 3


def test_an_error_of_what_closes_a_stream_still_frees_the_cores(board: FakeBoard) -> None:
    def fails() -> None:
        raise ValueError("mine")

    made = Scheduler()
    run(made)
    made.closers.add(fails)
    with pytest.raises(ValueError, match="mine"):
        made.close()
    assert not board.taken
    assert made.closed


def test_a_frame_that_runs_while_its_scheduler_closes_says_so_when_the_core_is_gone(board: FakeBoard) -> None:
    made, results = Scheduler(), []

    def until_closed(instance: FakeInstance) -> None:
        while not instance.connection.closed:
            time.sleep(0.001)

    board.work = until_closed
    thread = threading.Thread(target=lambda: results.extend(at_once(partial(run, made))))
    thread.start()
    while not made.is_connected or not made.stats().cores[0].model:
        time.sleep(0.001)
    made.close()
    thread.join(10)
    assert [type(result) for result in results] == [SchedulerClosed]
