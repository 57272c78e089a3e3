"""Which model is on which core, and which frame gets one: the rules, without threads. `Cores` holds a lock around it.

A model stays on its cores. A frame goes to an idle core that holds its model; else, while the model holds fewer cores
than its share, to an empty core, or to one that another model holds beyond its own share; else behind the frame of a
core that takes several at once. A model on no core at all takes the idle core that has rested longest. Else the frame
waits, first come first served.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Connection, Instance
from axtool.runtime.scheduler.shares import shares

UNUSED_AFTER_S = 1.0  # a model that has run nothing for so long leaves its cores to one whose frames wait
IN_A_ROW = 16  # frames of a model that a core runs while one of another model waits for it: see DeviceModel.batch


class Core:
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
        self.place: Place | None = None
        self.running = 0
        self.rested_at = 0.0  # time.monotonic() of the last frame's end
        self.frames, self.switches = 0, 0
        self.busy_s, self.modelled_s, self.switch_s = 0.0, 0.0, 0.0


class Waiter:
    """A frame that waits for a core; `wake` is released when it has one, or when there never will be one."""

    __slots__ = ("core", "passed", "ticket", "wake")

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.core: Core | None = None
        self.passed = 0  # frames of another model that went before it
        self.wake = threading.Lock()
        self.wake.acquire()


class Place:
    """A model in use: on a core, or with a frame that waits for one."""

    __slots__ = ("idle", "in_a_row", "lent", "limit", "model", "on", "queue")

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self.on: list[Core] = []  # the cores that hold it, or are being loaded with it
        self.idle: list[Core] = []  # those of them that run nothing; the last one rested shortest and is taken first
        self.queue: deque[Waiter] = deque()
        self.limit = 1  # its share
        self.in_a_row = model.batch or IN_A_ROW
        self.lent: frozenset[Core] = frozenset()  # cores that it may take beyond its share, for a batch


class Residency:
    """The cores of a scheduler and the models in use. Not for two threads at once."""

    def __init__(self, cores: Iterable[Core]) -> None:
        self.alive = list(cores)
        self.empty = self.alive[::-1]  # the first core is taken first
        self.places: dict[str, Place] = {}
        self.waiting = 0  # frames
        self._tickets = 0

    def place_of(self, model: DeviceModel) -> Place:
        """The place of a model, which is in use from now on."""
        place = self.places.get(model.key)
        if place is None:
            place = self.places[model.key] = Place(model)
            self._share()
        return place

    def found(self, place: Place, passed: int = 0) -> Core | None:
        """A core for a frame that `passed` others went before, which is then counted as running on it."""
        core: Core | None
        own = not self.waiting or not self._must_let_pass(place)
        if own and place.idle:
            core = place.idle.pop()
            core.running = 1
            return core
        core = self.empty[-1] if self.empty and self._may_take(self.empty[-1], place) else self._victim(place, passed)
        if core is None and own:
            core = _with_room(place.on)
            if core is not None:
                core.running += 1
                return core
        core = core or self._victim(place, passed, time.monotonic() - UNUSED_AFTER_S)
        if core is not None:
            self.move(core, place)
            core.running = 1
        return core

    def wait(self, place: Place) -> Waiter:
        """A frame more that waits, behind all others."""
        self._tickets += 1
        waiter = Waiter(self._tickets)
        place.queue.append(waiter)
        self.waiting += 1
        return waiter

    def serve(self) -> None:
        """Give cores to the frames that wait, in their order, as far as there are any."""
        served = True
        while served and self.waiting:
            served = False
            for place in sorted((one for one in self.places.values() if one.queue), key=_first_ticket):
                core = self.found(place, place.queue[0].passed)
                if core is not None:
                    waiter = place.queue.popleft()
                    self.waiting -= 1
                    self._count_pass(waiter.ticket, place)
                    waiter.core = core
                    waiter.wake.release()
                    served = True
                    break

    def give_back(self, core: Core) -> None:
        """A frame less on a core: another that waits gets it, or it rests."""
        core.running -= 1
        core.rested_at = time.monotonic()
        if not core.running and core.place is not None:  # it has none where it died, or its scheduler was closed
            if core.instance is None:  # its model did not load
                self.move(core, None)
                self.empty.append(core)
            else:
                core.place.idle.append(core)
        if self.waiting:
            self.serve()

    def forget(self, waiter: Waiter, place: Place) -> None:
        """A frame that gave up waiting."""
        if waiter.core is not None:
            self.give_back(waiter.core)
        elif waiter in place.queue:
            place.queue.remove(waiter)
            self.waiting -= 1
            self._drop_unused(place)

    def end_loan(self, place: Place) -> None:
        """Cores that were lent to a model count as its share again, or as more than that."""
        place.lent = frozenset()
        self._drop_unused(place)

    def bury(self, core: Core) -> None:
        """A core that is not there any more."""
        self.alive.remove(core)
        self.move(core, None)
        self._share()
        if self.alive:
            self.serve()  # its model may have been on no other core

    def dismiss(self) -> list[Waiter]:
        """The frames that wait, which wait no more."""
        waiters = [waiter for place in self.places.values() for waiter in place.queue]
        for place in self.places.values():
            place.queue.clear()
        self.waiting = 0
        return waiters

    def move(self, core: Core, place: Place | None) -> None:
        """A core from one model to another, or to none: the next frame on it loads."""
        before, core.place, core.instance = core.place, place, None
        if place is not None:
            place.on.append(core)
        if core in self.empty:
            self.empty.remove(core)
        if before is not None:
            before.on.remove(core)
            if core in before.idle:
                before.idle.remove(core)
            self._drop_unused(before)

    def _victim(self, place: Place, passed: int, unused_since: float = 0.0) -> Core | None:
        """The idle core of another model that rested longest, of those that a frame may take."""
        if len(self.places) == 1:
            return None
        idle = [
            core
            for holder in self.places.values()
            if holder is not place and (not holder.queue or passed >= holder.in_a_row)
            for core in holder.idle
            if core in place.lent or self._yields(holder, place, unused_since)
        ]
        return min(idle, key=_rested_at, default=None)

    def _yields(self, holder: Place, place: Place, unused_since: float = 0.0) -> bool:
        """Whether `holder` leaves a core to a frame of `place`."""
        if holder is place:
            return False
        if not place.on or (len(place.on) < place.limit and len(holder.on) > holder.limit):
            return True
        unused = not holder.queue and len(holder.idle) == len(holder.on)
        return unused and max(map(_rested_at, holder.on)) < unused_since

    def _may_take(self, empty: Core, place: Place) -> bool:
        return len(place.on) < place.limit or empty in place.lent

    def _must_let_pass(self, place: Place) -> bool:
        """Whether a frame of another model waits for a core of this one and let enough frames go before."""
        return any(
            other.queue and other.queue[0].passed >= place.in_a_row and self._yields(place, other)
            for other in self.places.values()
        )

    def _count_pass(self, ticket: int, place: Place) -> None:
        for other in self.places.values():
            if other.queue and other.queue[0].ticket < ticket and self._yields(place, other):
                other.queue[0].passed += 1

    def _drop_unused(self, place: Place) -> None:
        """A model on no core and without a frame is not in use any more."""
        if not place.on and not place.queue and not place.lent and self.places.get(place.model.key) is place:
            del self.places[place.model.key]
            self._share()

    def _share(self) -> None:
        places = list(self.places.values())
        limits = shares([place.model.core_allocation for place in places], len(self.alive))
        for place, limit in zip(places, limits, strict=True):
            place.limit = limit


def _with_room(cores: Iterable[Core]) -> Core | None:
    """The core that takes a frame more and will come to it first: it has the fewest, and the longest ago."""
    best: Core | None = None
    for core in cores:  # a plain loop: it runs for every frame of busy cores, with the lock of all of them held
        takes = core.running < core.room and core.instance is not None
        if takes and (best is None or (core.running, core.rested_at) < (best.running, best.rested_at)):
            best = core
    return best


def _rested_at(core: Core) -> float:
    return core.rested_at


def _first_ticket(place: Place) -> int:
    return place.queue[0].ticket
