"""Schedulers under attack: made, used, closed and forked at the same time, interrupted, and failing in every place."""

from __future__ import annotations

import copy
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from axtool.runtime.devices.owning import Owners
from axtool.runtime.devices.seam import DeviceLost, DevicesInUse
from axtool.runtime.scheduler import Scheduler, SchedulerClosed
from axtool.runtime.scheduler.residency import Residency
from tests.runtime.left_behind import nothing_left
from tests.runtime.many_threads import quick_switches
from tests.runtime.scheduler_boards import FRAME, FakeBoard, FakeInstance, at_once, boards, model, nothing_forgotten
from tests.runtime.watchdog import watchdog


@pytest.fixture
def board() -> Iterator[FakeBoard]:
    made = FakeBoard(queue=2)
    with boards(made), quick_switches():
        yield made


def repeated(times: int, call: Callable[[], Any], *allowed: type[BaseException]) -> int:
    """How many of so many calls went well; the others raised what is allowed."""
    well = 0
    for _ in range(times):
        try:
            call()
            well += 1
        except allowed:
            time.sleep(0)
    return well


def test_a_default_that_threads_use_while_others_close_it_is_never_in_its_own_way(board: FakeBoard) -> None:
    """Who makes the next default waits until the cores of the one before are free: no DevicesInUse."""
    use = partial(repeated, 200, lambda: scheduler.current().run_stage(model("a"), 0, FRAME), SchedulerClosed)
    close = partial(repeated, 20, lambda: scheduler.current().close())
    results = at_once(use, use, use, use, close, close)
    assert all(isinstance(result, int) for result in results), results
    scheduler.current().close()
    assert not board.taken


def test_blocks_in_many_threads_take_turns_or_say_who_owns_the_cores(board: FakeBoard) -> None:
    def block() -> None:
        with scheduler.create() as made:
            made.run_stage(model("a"), 0, FRAME)
            assert scheduler.current() is made

    results = at_once(*[partial(repeated, 40, block, DevicesInUse)] * 12)
    assert all(isinstance(result, int) for result in results), results
    assert sum(results) > 0
    assert not board.taken


def test_blocks_and_the_default_at_once_end_in_a_result_or_a_reason(board: FakeBoard) -> None:
    def block() -> None:
        with scheduler.create() as made:
            made.run_stage(model("a"), 0, FRAME)

    def default() -> None:
        scheduler.current().run_stage(model("b"), 0, FRAME)
        scheduler.current().close()

    blocks = [partial(repeated, 40, block, RuntimeError)] * 4  # DevicesInUse is one
    defaults = [partial(repeated, 40, default, DevicesInUse, SchedulerClosed)] * 4
    results = at_once(*blocks, *defaults)
    assert all(isinstance(result, int) for result in results), results
    scheduler.current().close()
    assert not board.taken


@pytest.mark.parametrize("seed", range(6))
def test_a_scheduler_that_is_closed_while_it_works_loses_no_thread_and_no_core(board: FakeBoard, seed: int) -> None:
    rng = random.Random(seed)
    board.work = lambda instance: time.sleep(rng.random() * 0.001)
    with nothing_left():
        made = Scheduler()
        run = partial(repeated, 100, lambda: made.run_stage(model(rng.choice("abcdef")), 0, FRAME), SchedulerClosed)
        submit = partial(repeated, 100, lambda: made.workers.submit(lambda: scheduler.current()), SchedulerClosed)

        def close() -> None:
            time.sleep(rng.random() * 0.05)
            made.close()

        results = at_once(run, run, run, run, run, run, submit, submit, close, close, made.stats)
        assert not [result for result in results if isinstance(result, BaseException)]
        assert not board.taken


@pytest.mark.parametrize("seed", range(4))
def test_cores_that_die_while_many_models_run_lose_no_frame_as_long_as_one_is_left(board: FakeBoard, seed: int) -> None:
    rng = random.Random(seed)
    victims = set(rng.sample(range(4), 3))
    countdown = {core: rng.randint(5, 60) for core in victims}
    lock = threading.Lock()

    def work(instance: FakeInstance) -> None:
        with lock:
            if instance.core in victims:
                countdown[instance.core] -= 1
                if countdown[instance.core] < 0:
                    raise DeviceLost(f"core {instance.core}")

    board.work = work
    made = Scheduler()
    results = at_once(*[partial(repeated, 60, partial(made.run_stage, model(key), 0, FRAME)) for key in "aabbccdd"])
    assert results == [60] * 8
    assert {at for at, core in enumerate(made.stats().cores) if core.alive} >= set(range(4)) - victims
    made.close()


@pytest.mark.parametrize("error", [OSError("link"), KeyboardInterrupt(), DeviceLost("board"), MemoryError()])
def test_an_error_while_the_second_board_is_connected_gives_the_first_one_back(error: BaseException) -> None:
    class Unwilling(FakeBoard):
        def connect(self, cores: Any = None) -> Any:
            raise error

    first, second = FakeBoard(), Unwilling("fake-0:2:0")
    with boards(first, second):
        made = Scheduler()
        with pytest.raises(type(error)):
            made.run_stage(model("a"), 0, FRAME)
        assert (first.taken, made.is_connected) == (False, False)
        made.close()


@pytest.mark.parametrize("error", [OSError("link"), KeyboardInterrupt(), MemoryError(), SystemExit(1)])
@pytest.mark.parametrize("place", ["load", "run"])
def test_an_error_of_a_load_or_a_frame_gives_the_core_back(board: FakeBoard, error: BaseException, place: str) -> None:
    def fails(what: object) -> None:
        raise error

    with scheduler.create() as made:
        for _ in range(20):
            board.fits, board.work = (fails, lambda _: None) if place == "load" else (lambda _: None, fails)
            with pytest.raises(type(error)):
                made.run_stage(model("a"), 0, FRAME)
        board.fits = board.work = lambda _: None
        assert at_once(*[partial(repeated, 20, partial(made.run_stage, model("a"), 0, FRAME))] * 8) == [20] * 8


class Interrupted(BaseException):
    """What a signal of this test raises, wherever the main thread is."""


@contextmanager
def interrupts(rng: random.Random, least_s: float, most_s: float) -> Iterator[Callable[[], None]]:
    """What it gives begins a countdown, at whose end the main thread is interrupted."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_REAL, rng.uniform(least_s, most_s)) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_main_thread_that_is_interrupted_anywhere_keeps_no_core_and_holds_nobody_up(board: FakeBoard) -> None:
    """Four threads compete for the cores with the main thread, which signals interrupt every few microseconds."""
    stop = threading.Event()
    rng = random.Random(1)
    done, count = [0] * 4, 0

    def others(at: int) -> None:
        while not stop.is_set():
            made.run_stage(model("ab"[at % 2]), 0, FRAME)
            done[at] += 1

    made = Scheduler()
    threads = [threading.Thread(target=others, args=(at,), daemon=True) for at in range(4)]
    with interrupts(rng, 2e-5, 4e-4) as begin:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                begin()
                while time.monotonic() < end:
                    made.run_stage(model(rng.choice("abc")), 0, FRAME)
            except Interrupted:
                count += 1
    before = list(done)
    time.sleep(0.3)
    assert all(now > then for now, then in zip(done, before, strict=True)), "a thread waits for ever"
    stop.set()
    for thread in threads:
        thread.join(10)
    assert count > 50
    nothing_forgotten(made)
    made.close()


# ---- forks


def in_child(call: Callable[[], object]) -> int:
    """The exit code of a forked child: 0 where the call ends and gives something true."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if call() else 3
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_a_forked_child_makes_a_default_of_its_own(digits: Path) -> None:
    pipeline = op.load(digits)
    image = np.random.default_rng(0).random((1, 3, 160, 160), np.float32)
    with machine.simulated():
        before = pipeline(image)
        parents = scheduler.current()

        def child() -> bool:
            same = all(np.array_equal(a, b) for a, b in zip(pipeline(image), before, strict=True))
            return same and scheduler.current() is not parents and scheduler.current().is_connected

        assert in_child(child) == 0
        assert scheduler.current() is parents
        assert parents.is_connected
        pipeline(image)
        scheduler.current().close()


def test_a_schedulers_child_says_whose_it_is_and_leaves_it_alone(board: FakeBoard) -> None:
    with scheduler.create() as made:
        made.run_stage(model("a"), 0, FRAME)
        made.workers.submit(lambda: None)

        def child() -> bool:
            made.close()
            try:
                made.run_stage(model("a"), 0, FRAME)
            except SchedulerClosed as error:
                return f"belongs to process {os.getppid()}" in str(error) and scheduler.current() is not made
            return False

        assert in_child(child) == 0
        assert not made.closed
        made.run_stage(model("a"), 0, FRAME)


@pytest.mark.parametrize("seed", range(3))
def test_forks_while_threads_run_frames_never_hang(board: FakeBoard, seed: int) -> None:
    stop = threading.Event()
    made = Scheduler()

    def frames() -> None:
        while not stop.is_set():
            made.run_stage(model("ab"[seed % 2]), 0, FRAME)
            made.workers.submit(lambda: None)

    threads = [threading.Thread(target=frames, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: (made.close(), made.closed)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        made.close()


# ---- calls out of the middle of the scheduler


def test_a_signal_handler_may_close_the_scheduler_that_it_interrupts(board: FakeBoard) -> None:
    """Also where the main thread holds a lock of it: the handler does not wait for what cannot go on meanwhile."""
    rng, rounds = random.Random(3), 0

    def use(made: Scheduler) -> None:
        while True:
            made.run_stage(model(rng.choice("abc")), 0, FRAME)
            list(made.stream(range(3), op.seq(op.identity())))

    before = signal.signal(signal.SIGUSR1, lambda *_: made.close())
    main = threading.get_ident()
    end = time.monotonic() + 2
    try:
        with watchdog(60):
            while time.monotonic() < end:
                made = Scheduler(num_workers=2)
                timer = threading.Timer(rng.uniform(0, 3e-3), signal.pthread_kill, (main, signal.SIGUSR1))
                timer.start()
                with pytest.raises(SchedulerClosed):
                    use(made)
                made.close()
                assert not board.taken
                timer.join()
                rounds += 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert rounds > 20


def test_a_signal_in_a_locked_step_of_the_scheduler_does_not_hold_it_up(
    board: FakeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, end = Scheduler(), Residency.end

    def interrupted(residency: Residency, frame: Any) -> None:
        signal.raise_signal(signal.SIGUSR1)  # its handler is called here, with the lock of the cores held
        end(residency, frame)

    monkeypatch.setattr(Residency, "end", interrupted)
    before = signal.signal(signal.SIGUSR1, lambda *_: made.close())
    try:
        with watchdog(20):
            made.run_stage(model("a"), 0, FRAME)
            made.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not board.taken


def test_the_collector_may_find_a_lost_scheduler_while_another_takes_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cores go back to a board whose lock this thread holds in that moment."""
    lost: list[Any] = []
    chosen = Owners._chosen

    def collecting(owners: Owners, cores: Any) -> Any:
        lost.clear()
        return chosen(owners, cores)

    with machine.simulated("metis-pcie,metis-pcie"):
        lost.append(Scheduler("0"))
        lost[0].connected()
        monkeypatch.setattr(Owners, "_chosen", collecting)
        # one lock for both boards makes sure of it: the first is given back while the second is taken
        first, second = machine.devices()
        second.owners._lock = first.owners._lock  # type: ignore[attr-defined]
        made = Scheduler("1")
        with watchdog(20), pytest.warns(ResourceWarning, match="never closed"):
            made.connected()
        made.close()
        end = time.monotonic() + 10
        while first.available() < 4 and time.monotonic() < end:
            time.sleep(0.01)
        assert first.available() == second.available() == 4


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_scheduler_is_not_copied_whose_copy_would_give_back_its_cores(board: FakeBoard, copied: Any) -> None:
    made = Scheduler()
    made.run_stage(model("a"), 0, FRAME)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(made)
    assert board.taken
    made.close()
