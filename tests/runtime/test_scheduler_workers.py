"""The worker threads of a scheduler: every task is called once, in order, and no thread is left."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from functools import partial

import pytest

from axtool.runtime.scheduler.workers import Workers
from tests.runtime.many_threads import quick_switches
from tests.runtime.scheduler_boards import at_once


def made(limit: int = 4) -> Workers:
    return Workers(limit, "test worker", lambda: None)


def threads() -> int:
    return sum(thread.name.startswith("test worker") for thread in threading.enumerate())


def test_threads_are_made_when_tasks_wait_and_never_more_than_the_limit() -> None:
    workers, gate, running = made(3), threading.Event(), threading.Semaphore(0)
    assert threads() == 0

    def task() -> None:
        running.release()
        gate.wait(10)

    for number in range(1, 7):
        workers.submit(task)
        if number <= 3:
            assert running.acquire(timeout=5)
        assert threads() == min(number, 3)
    gate.set()
    assert workers.close(5)
    assert threads() == 0


def test_one_worker_calls_tasks_in_the_order_in_which_they_came() -> None:
    workers, called = made(1), []
    for number in range(500):
        workers.submit(partial(called.append, number))
    workers.close(5)
    assert called == list(range(500))


def test_a_worker_knows_that_it_is_one() -> None:
    workers, others, found = made(), made(), []
    workers.submit(lambda: found.append((workers.inside(), others.inside())))
    workers.close(5)
    others.close(5)
    assert found == [(True, False)]
    assert not workers.inside()


def test_a_task_that_lets_an_error_out_is_logged_and_the_worker_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    workers, called = made(1), []

    def fails(error: BaseException) -> None:
        raise error

    for error in (ValueError("mine"), SystemExit(3), GeneratorExit()):
        workers.submit(partial(fails, error))
    workers.submit(partial(called.append, 1))
    with caplog.at_level(logging.ERROR, "axtool"):
        workers.close(5)
    assert called == [1]
    assert caplog.text.count("a task of test worker let an error out") == 3


def test_closed_workers_take_nothing() -> None:
    workers, called = made(), []
    workers.close(5)
    assert workers.submit(partial(called.append, 1)) is False
    assert workers.close(5)
    assert called == []


def test_without_a_thread_the_system_says_so_and_with_one_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, called = made(4), []
    workers.submit(lambda: time.sleep(0.05))

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    for number in range(5):
        workers.submit(partial(called.append, number))
    workers.close(5)
    assert called == list(range(5))
    empty = made(4)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        empty.submit(partial(called.append, 9))
    assert (empty.close(5), called) == (True, list(range(5)))


@pytest.mark.parametrize("seed", range(6))
def test_tasks_from_many_threads_are_each_called_once_whenever_it_closes(seed: int) -> None:
    rng = random.Random(seed)
    with quick_switches():
        workers, lock, calls, taken = made(rng.randint(1, 6)), threading.Lock(), [], []

        def call(number: int) -> None:
            with lock:
                calls.append(number)
            if number % 7 == 0:
                time.sleep(0.0002)

        def submit(first: int) -> None:
            for number in range(first, first + 300):
                if workers.submit(partial(call, number)):
                    with lock:
                        taken.append(number)

        def close() -> bool:
            time.sleep(rng.random() * 0.01)
            return workers.close(10)

        results = at_once(*(partial(submit, at * 300) for at in range(5)), close)
        assert results[-1] is True
        workers.close(10)
        assert sorted(calls) == sorted(taken)
        assert threads() == 0


def test_a_child_of_a_fork_has_no_workers_to_wait_for() -> None:
    workers, gate = made(2), threading.Event()
    workers.submit(lambda: gate.wait(10))
    child = os.fork()
    if not child:
        workers.abandon()
        os._exit(0 if workers.close(1) and not workers.submit(print) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.set()
    assert workers.close(5)
