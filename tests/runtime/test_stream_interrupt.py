"""Ctrl-C wherever it finds a program that streams: it comes out at once, and nothing is left."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.scheduler import Scheduler
from tests.runtime.left_behind import nothing_left

BOUND_S = 4.0  # below the 5 s that leaving would wait for what hangs


def endless(pause_s: float = 0.0) -> Iterator[int]:
    while True:
        time.sleep(pause_s)
        yield 1


def hangs() -> Iterator[int]:
    yield 1
    time.sleep(60)


def slow() -> op.Seq:
    return op.seq(lambda x: time.sleep(0.02))


def quick() -> op.Seq:
    return op.seq(op.identity())


PLACES: dict[str, Callable[[Scheduler], Any]] = {
    "waits for an operator": lambda _: list(slow().stream(endless())),
    "runs an operator itself": lambda _: list(slow().stream(endless(), max_in_flight=1)),
    "pulls the source": lambda _: list(quick().stream(hangs())),
    "runs the callback": lambda _: list(quick().stream(endless(), frame_callback=lambda _: time.sleep(0.02))),
    "is busy": lambda _: [0 for _ in quick().stream(iter(int, 1))],
    "waits for a batch": lambda _: slow().batch(list(range(10**5))),
    "waits for streams as they are available": lambda s: list(
        s.as_available([slow().stream(endless()) for _ in range(3)])
    ),
    "takes turns": lambda s: list(s.round_robin([slow().stream(endless()) for _ in range(3)])),
    "waits behind callbacks": lambda s: s.with_callback(
        [quick().stream(endless(0.001)) for _ in range(3)], lambda *_: None
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_comes_out_at_once_and_nothing_is_left(place: str) -> None:
    main = threading.main_thread()
    if threading.current_thread() is not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        pytest.skip("Ctrl-C does not come to this thread")
    assert main.ident is not None
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        signal.pthread_kill(main.ident, signal.SIGINT)

    timer = threading.Timer(0.15, interrupt)
    with nothing_left():
        with scheduler.create() as made:
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                PLACES[place](made)
        assert time.monotonic() - sent[0] < BOUND_S


def test_an_interrupt_that_an_operator_raises_in_the_pool_comes_out_in_its_place() -> None:
    def work(x: int) -> int:
        if x == 3:
            raise KeyboardInterrupt
        return x

    seen: list[int] = []
    with scheduler.create(), pytest.raises(KeyboardInterrupt):
        seen += (result for _, result in op.seq(work).stream(range(9)))
    assert seen == [0, 1, 2]
