"""The cores of one scheduler and the models on them: which core runs a frame, and which model leaves its core.

A model stays on its cores. A frame goes to an idle core that holds its model; else, while the model holds fewer cores
than its share, to an empty core, or to one that another model holds beyond its own share; else behind the frame of a
core that takes several at once. A model on no core at all takes the idle core that has rested longest. Else the frame
waits, first come first served.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from axtool.errors import AxError
from axtool.runtime import profiler
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, Connection, DeviceInfo, DeviceLost, Instance
from axtool.runtime.scheduler.shares import shares

log = logging.getLogger("axtool")

UNUSED_AFTER_S = 1.0  # a model that has run nothing for so long leaves its cores to one whose frames wait
PASSES = 16  # frames of the model on a core that may pass one of another model: the core switches less often

Settings = Callable[[DeviceInfo, DeviceModel], BoardConfig | None]


class _Core:
    """One core. `place` is the model on it, `running` the frames that it was given."""

    __slots__ = (
        "busy_s", "connection", "frames", "index", "info", "instance", "modelled_s", "name", "place", "rested_at",
        "room", "running", "switch_s", "switches",
    )  # fmt: skip

    def __init__(self, connection: Connection, index: int) -> None:
        self.connection, self.index = connection, index
        self.info = connection.device.info
        self.name = f"{self.info.name}/{index}"
        self.room = self.info.queue  # frames it takes at once
        self.instance: Instance | None = None  # None while the first frame loads it
        self.place: _Place | None = None
        self.running = 0
        self.rested_at = 0.0  # time.monotonic() of the last frame's end
        self.frames, self.switches = 0, 0
        self.busy_s, self.modelled_s, self.switch_s = 0.0, 0.0, 0.0


class _Waiter:
    """A frame that waits for a core; `wake` is released when it has one, or when there never will be one."""

    __slots__ = ("core", "passed", "ticket", "wake")

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.core: _Core | None = None
        self.passed = 0  # frames of another model that went before it
        self.wake = threading.Lock()
        self.wake.acquire()


class _Place:
    """A model in use: on a core, or with a frame that waits for one."""

    __slots__ = ("idle", "limit", "model", "on", "queue")

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self.on: list[_Core] = []  # the cores that hold it, or are being loaded with it
        self.idle: list[_Core] = []  # those of them that run nothing; the last one rested shortest and is taken first
        self.queue: deque[_Waiter] = deque()
        self.limit = 1  # its share


@dataclass(frozen=True)
class CoreStats:
    """What one core did since its scheduler connected: `busy_s` measured, `modelled_s` and `switch_s` the chip's."""

    name: str
    model: str | None
    alive: bool
    frames: int
    busy_s: float
    modelled_s: float
    switches: int
    switch_s: float


class Cores:
    """Cores of one or several boards, shared by the threads of a scheduler."""

    def __init__(self, connections: Iterable[Connection], settings: Settings) -> None:
        self._settings = settings
        self.all = tuple(_Core(connection, index) for connection in connections for index in connection.cores)
        self._alive = set(self.all)
        self._empty = list(self.all[::-1])  # the first core is taken first
        self._places: dict[str, _Place] = {}
        self._tickets = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self._stopped: Callable[[], AxError] | None = None  # makes what a frame raises that comes too late

    def run(
        self, model: DeviceModel, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> Sequence[Buffer]:
        """Run a stage of a model on the core that has or gets it; waits for one.

        A core that dies is left out from then on and the frame runs again on another: it depends on its inputs alone.
        Raises DeviceLost when no core is left, the error of `stop` when that comes first, and what `Connection.load`
        and `Instance.run` raise.
        """
        while True:
            core = self._take(model)
            try:
                instance = core.instance
                if instance is None:
                    instance = self._load(core, model)
                made, report = instance.run(stage, inputs, outputs)
            except DeviceLost as error:
                self._bury(core, error)
                continue
            except BaseException:
                self._give(core)
                raise
            modelled = report.modelled_s
            with self._lock:
                core.frames += stage == 0
                core.busy_s += report.busy_s
                if modelled is not None:
                    core.modelled_s += modelled
                self._give_back(core)
            recorder = profiler.active()
            if recorder is not None:
                recorder.record_core(core.name, model.name, report.start_s, report.busy_s, modelled)
            return made

    def stats(self) -> tuple[CoreStats, ...]:
        """What each core did, in the order of the boards."""
        with self._lock:
            return tuple(
                CoreStats(
                    core.name, core.place.model.name if core.place else None, core in self._alive, core.frames,
                    core.busy_s, core.modelled_s, core.switches, core.switch_s,
                )
                for core in self.all
            )  # fmt: skip

    def stop(self, error: Callable[[], AxError]) -> None:
        """Take no more frames: those that wait for a core, or come later, raise `error()`; those that run may end."""
        with self._lock:
            self._stopped = self._stopped or error
            waiters = self._dismissed()
        for waiter in waiters:
            waiter.wake.release()

    def close(self) -> None:
        """Let go of the models, behind `stop` and when the connections are closed; the counters stay."""
        with self._lock:
            self._places.clear()
            for core in self.all:
                core.instance = core.place = None

    def abandon(self, error: Callable[[], AxError]) -> None:
        """In a forked child: the cores are the parent's, and so is the lock."""
        self._lock, self._stopped = threading.Lock(), error

    # ---- who gets which core

    def _take(self, model: DeviceModel) -> _Core:
        """A core on which the caller runs one frame, until `_give`; its `instance` is None when it is to load first."""
        with self._lock:
            if self._stopped is not None:
                raise self._stopped()
            if not self._alive:
                raise self._none_left()
            place = self._places.get(model.key)
            if place is None:
                place = self._places[model.key] = _Place(model)
                self._share()
            if not self._waiting:
                core = self._found(place, 0)
                if core is not None:
                    return core
            self._tickets += 1
            waiter = _Waiter(self._tickets)
            place.queue.append(waiter)
            self._waiting += 1
            self._serve()
        try:
            waiter.wake.acquire()
        except BaseException:  # Ctrl-C
            self._forget(waiter, place)
            raise
        if waiter.core is None:
            raise self._none_left() if self._stopped is None else self._stopped()
        return waiter.core

    def _found(self, place: _Place, passed: int) -> _Core | None:
        """A core for a frame that `passed` others went before, which is then counted as running on it. Lock held."""
        own = not self._waiting or not self._must_let_pass(place)
        core: _Core | None
        if own and place.idle:
            core = place.idle.pop()
            core.running = 1
            return core
        core = self._empty[-1] if self._empty and len(place.on) < place.limit else self._victim(place, passed, 0.0)
        if core is None and own:
            core = min((one for one in place.on if one.instance and one.running < one.room), key=_load_of, default=None)
            if core is not None:
                core.running += 1
                return core
        core = core or self._victim(place, passed, time.monotonic() - UNUSED_AFTER_S)
        if core is not None:
            self._move(core, place)
            core.running = 1
        return core

    def _victim(self, place: _Place, passed: int, unused_since: float) -> _Core | None:
        """The idle core of another model that rested longest, of those that a frame may take. Lock held."""
        idle = [
            core
            for holder in self._places.values()
            if holder.idle and self._yields(holder, place, unused_since) and (not holder.queue or passed >= PASSES)
            for core in holder.idle
        ]
        return min(idle, key=_rested_at, default=None)

    def _yields(self, holder: _Place, place: _Place, unused_since: float = 0.0) -> bool:
        """Whether `holder` leaves a core to a frame of `place`. With the lock held."""
        if holder is place:
            return False
        if not place.on or (len(place.on) < place.limit and len(holder.on) > holder.limit):
            return True
        unused = not holder.queue and len(holder.idle) == len(holder.on)
        return unused and max(map(_rested_at, holder.on)) < unused_since

    def _must_let_pass(self, place: _Place) -> bool:
        """Whether a frame of another model waits for a core of this one and let enough frames go before. Lock held."""
        return any(
            other.queue and other.queue[0].passed >= PASSES and self._yields(place, other)
            for other in self._places.values()
        )

    def _serve(self) -> None:
        """Give cores to the frames that wait, in their order, as far as there are any. With the lock held."""
        served = True
        while served and self._waiting:
            served = False
            for place in sorted((one for one in self._places.values() if one.queue), key=_first_ticket):
                core = self._found(place, place.queue[0].passed)
                if core is not None:
                    waiter = place.queue.popleft()
                    self._waiting -= 1
                    self._count_pass(waiter.ticket, place)
                    waiter.core = core
                    waiter.wake.release()
                    served = True
                    break

    def _count_pass(self, ticket: int, place: _Place) -> None:
        for other in self._places.values():
            if other.queue and other.queue[0].ticket < ticket and self._yields(place, other):
                other.queue[0].passed += 1

    def _move(self, core: _Core, place: _Place | None) -> None:
        """A core from one model to another, or to none: the next frame on it loads. With the lock held."""
        before, core.place, core.instance = core.place, place, None
        if before is None:
            if core in self._empty:
                self._empty.remove(core)
        else:
            before.on.remove(core)
            if core in before.idle:
                before.idle.remove(core)
            self._drop_unused(before)
        if place is not None:
            place.on.append(core)

    def _drop_unused(self, place: _Place) -> None:
        """A model on no core and without a frame is not in use any more. With the lock held."""
        if not place.on and not place.queue and self._places.get(place.model.key) is place:
            del self._places[place.model.key]
            self._share()

    def _share(self) -> None:
        places = list(self._places.values())
        limits = shares([place.model.core_allocation for place in places], len(self._alive))
        for place, limit in zip(places, limits, strict=True):
            place.limit = limit

    def _give(self, core: _Core) -> None:
        with self._lock:
            self._give_back(core)

    def _give_back(self, core: _Core) -> None:
        """A frame less on a core: another that waits gets it, or it rests. With the lock held."""
        core.running -= 1
        core.rested_at = time.monotonic()
        if not core.running and core.place is not None:  # it has none where it died, or its scheduler was closed
            if core.instance is None:  # its model did not load
                self._move(core, None)
                self._empty.append(core)
            else:
                core.place.idle.append(core)
        if self._waiting:
            self._serve()

    def _forget(self, waiter: _Waiter, place: _Place) -> None:
        """A frame that gave up waiting."""
        with self._lock:
            if waiter.core is not None:
                self._give_back(waiter.core)
            elif waiter in place.queue:
                place.queue.remove(waiter)
                self._waiting -= 1
                self._drop_unused(place)

    def _dismissed(self) -> list[_Waiter]:
        """The frames that wait, which wait no more. With the lock held."""
        waiters = [waiter for place in self._places.values() for waiter in place.queue]
        for place in self._places.values():
            place.queue.clear()
        self._waiting = 0
        return waiters

    # ---- what happens on a core

    def _load(self, core: _Core, model: DeviceModel) -> Instance:
        """Put a model on a core that runs nothing else."""
        start = time.perf_counter()
        instance = core.connection.load(core.index, model, self._settings(core.info, model))
        took, modelled = time.perf_counter() - start, core.connection.switch_s(model)
        recorder = profiler.active()
        if recorder is not None:
            recorder.record_core(core.name, model.name, start, took, modelled, switch=True)
        with self._lock:
            core.instance = instance
            core.switches += 1
            core.switch_s += modelled
            if self._waiting:
                self._serve()  # a core that takes several frames has room now
        return instance

    def _bury(self, core: _Core, error: DeviceLost) -> None:
        """Leave out a core that does not answer. Raises the error of `stop`, or DeviceLost where it was the last."""
        with self._lock:
            core.running -= 1
            if self._stopped is not None:
                raise self._stopped() from error
            first = core in self._alive
            if first:
                self._alive.remove(core)
                self._move(core, None)
                self._share()
            left = len(self._alive)
            if left:
                self._serve()  # its model may have been on no other core
            waiters = [] if left else self._dismissed()
        if first:
            log.warning("%s does not answer and is left out, %d cores remain: %s", core.name, left, error)
        for waiter in waiters:
            waiter.wake.release()
        if not left:
            raise self._none_left() from error

    def _none_left(self) -> DeviceLost:
        return DeviceLost(
            "no core of this scheduler answers any more",
            where=", ".join(dict.fromkeys(core.info.name for core in self.all)),
            hint="close the scheduler, and make one with boards that answer",
        )


def _rested_at(core: _Core) -> float:
    return core.rested_at


def _load_of(core: _Core) -> int:
    return core.running


def _first_ticket(place: _Place) -> int:
    return place.queue[0].ticket
