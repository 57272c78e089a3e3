"""Boards and models for tests of the scheduler that compute nothing: a frame's outputs are its inputs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, Device, DeviceInfo, DeviceLost, DevicesInUse, FrameReport
from axtool.runtime.scheduler import Scheduler

FRAME = [np.zeros((1, 2, 2, 4), np.int8)]


def model(key: str, allocation: int | str | None = None, batch: int | None = None) -> DeviceModel:
    """A model that a FakeBoard can run."""
    return DeviceModel(key, f"{key}.axm", (), {}, core_allocation=allocation, batch=batch)


class FakeBoard:
    """A board whose cores hand their inputs back; `work` is called in each frame and may raise, wait or count."""

    def __init__(self, name: str = "fake-0:1:0", cores: int = 4, queue: int = 1, board_model: str = "110m") -> None:
        self.info = DeviceInfo(name, board_model, "pcie", cores, 8e8, 1 << 30, provenance="of a test", queue=queue)
        self.work: Callable[[FakeInstance], None] = lambda instance: None
        self.loads: list[tuple[int, str, BoardConfig | None]] = []
        self.fits: Callable[[DeviceModel], None] = lambda model: None
        self.taken = False
        self.connections = 0
        self.most: dict[int, int] = dict.fromkeys(range(cores), 0)  # frames at once, of each core

    def available(self) -> int:
        return 0 if self.taken else self.info.cores

    def connect(self, cores: int | Sequence[int] | None = None) -> FakeConnection:
        if self.taken:
            raise DevicesInUse(f"num_sub_devices > available ({self.info.cores} > 0)")
        self.connections += 1
        return FakeConnection(self)

    @property
    def device(self) -> Device:
        return self


class FakeConnection:
    def __init__(self, board: FakeBoard) -> None:
        self.board, self.closed = board, False
        self.cores = tuple(range(board.info.cores))
        board.taken = True

    @property
    def device(self) -> Device:
        return self.board

    def load(self, core: int, model: DeviceModel, settings: BoardConfig | None = None) -> FakeInstance:
        if self.closed:
            raise DeviceLost("closed")
        self.board.fits(model)
        self.board.loads.append((core, model.key, settings))
        return FakeInstance(self, core, model)

    def switch_s(self, model: DeviceModel) -> float:
        return 0.001

    def close(self) -> None:
        if not self.closed:
            self.closed, self.board.taken = True, False

    def __del__(self) -> None:
        self.close()


class FakeInstance:
    def __init__(self, connection: FakeConnection, core: int, model: DeviceModel) -> None:
        self.connection, self.core, self.model = connection, core, model
        self._running = 0
        self._lock = threading.Lock()

    def run(
        self, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> tuple[Sequence[Buffer], FrameReport]:
        board = self.connection.board
        with self._lock:
            self._running += 1
            board.most[self.core] = max(board.most[self.core], self._running)
        try:
            board.work(self)
        finally:
            with self._lock:
                self._running -= 1
        if self.connection.closed:
            raise DeviceLost("closed while it ran")
        return inputs, FrameReport(0.0, 0.002)

    def modelled_s(self, stage: int) -> float | None:
        return 0.002

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def boards(*made: FakeBoard) -> Iterator[None]:
    """These boards are those that the process has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "devices", lambda: made)
        yield


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gives or raises, each in a thread of its own, all begun together; 20 s for all of them."""
    results: list[Any] = [None] * len(calls)
    gate = threading.Barrier(len(calls))

    def run(at: int) -> None:
        gate.wait()
        try:
            results[at] = calls[at]()
        except BaseException as error:
            results[at] = error

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


class Held:
    """Inside, frames stay on their cores: `start` begins some and waits until `count` of them run; then all may end."""

    def __init__(self, board: FakeBoard, count: int) -> None:
        self.board, self.count = board, count
        self._running = threading.Semaphore(0)
        self._open = threading.Event()
        self._threads: list[threading.Thread] = []
        self.then: Callable[[FakeInstance], None] = lambda instance: None  # what a frame does when it may end

    def __enter__(self) -> Held:
        self.board.work = self._wait
        return self

    def start(self, number: int, call: Callable[[], Any]) -> None:
        """`number` threads that call; returns when `count` frames are on cores."""
        for _ in range(number):
            self._begin(call)
        for _ in range(self.count):
            assert self._running.acquire(timeout=10), "fewer frames run at once"

    def fill(self, call: Callable[[], Any], number: int) -> None:
        """`number` threads more whose frames run."""
        for _ in range(number):
            self._begin(call)
            assert self._running.acquire(timeout=10), "the frame does not run"

    def wait_for_a_core(self, scheduler: Scheduler, call: Callable[[], Any]) -> None:
        """One thread more, whose frame waits."""
        waiting = scheduler.connected()._residency.waiting
        self._begin(call)
        end = time.monotonic() + 10
        while scheduler.connected()._residency.waiting == waiting:
            assert time.monotonic() < end, "the frame does not wait"
            time.sleep(0.0005)

    def __exit__(self, *error: object) -> None:
        self._open.set()
        for thread in self._threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self._threads), "a frame hangs"
        if self.board.work == self._wait:
            self.board.work = lambda instance: None

    def _begin(self, call: Callable[[], Any]) -> None:
        self._threads.append(threading.Thread(target=call, daemon=True))
        self._threads[-1].start()

    def _wait(self, instance: FakeInstance) -> None:
        self._running.release()
        self._open.wait(10)
        self.then(instance)


def nothing_forgotten(scheduler: Scheduler) -> None:
    """Assert that no frame waits or runs, that each live core rests in one list, and that nothing is out of step."""
    residency = scheduler.connected()._residency
    assert (residency.waiting, len(residency.frames)) == (0, 0)
    assert [core.running for core in residency.alive] == [0] * len(residency.alive)

    def lists() -> list[object]:
        places = residency.places.values()
        return [
            sorted(core.index for core in residency.empty),
            sorted((place.model.key, place.limit, sorted(core.index for core in place.on)) for place in places),
            sorted((place.model.key, sorted(core.index for core in place.idle)) for place in places),
        ]

    before = lists()
    resting = [*residency.empty, *(core for place in residency.places.values() for core in place.idle)]
    assert sorted(core.name for core in resting) == sorted(core.name for core in residency.alive)
    residency.rebuild()
    assert lists() == before
