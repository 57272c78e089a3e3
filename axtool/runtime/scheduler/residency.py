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


class Frame:
    """A frame that wants a core, waits for one, or has it."""

    __slots__ = ("core", "passed", "place", "ticket", "wake", "woken")

    def __init__(self) -> None:
        self.core: Core | None = None
        self.place: Place | None = None
        self.ticket = 0  # its number among those that wait; 0 for one that does not
        self.passed = 0  # frames of another model that went before it
        self.wake: threading.Lock | None = None  # released when it has a core, or when there never will be one
        self.woken = False


class Place:
    """A model in use: on a core, or with a frame that waits for one."""

    __slots__ = ("full", "idle", "in_a_row", "lent", "limit", "model", "on", "queue", "told")

    def __init__(self, model: DeviceModel) -> None:
        self.model = model
        self.on: list[Core] = []  # the cores that hold it, or are being loaded with it
        self.idle: list[Core] = []  # those of them that run nothing; the last one rested shortest and is taken first
        self.queue: deque[Frame] = deque()
        self.limit = 1  # its share
        self.in_a_row = model.batch or IN_A_ROW
        self.lent: frozenset[Core] = frozenset()  # cores that it may take beyond its share, for a batch
        self.full: set[Core] = set()  # cores on which there is no memory for it, while it is on others
        self.told = False  # that there are such


class Residency:
    """The cores of a scheduler and the models in use. Not for two threads at once.

    A signal may raise an error between any two calls in here, as Ctrl-C does in the main thread. Certain is then the
    model of each core (`Core.place`, `instance`) and the core of each frame; `rebuild` makes the rest of that.
    """

    def __init__(self, cores: Iterable[Core]) -> None:
        self.alive = list(cores)
        self.empty = self.alive[::-1]  # the first core is taken first
        self.places: dict[str, Place] = {}
        self.frames: set[Frame] = set()  # those that wait or run
        self.waiting = 0  # frames
        self._tickets = 0

    def begin(self, frame: Frame, model: DeviceModel) -> bool:
        """A frame that wants a core: whether it has one; if not, it is to wait until it is woken."""
        self.frames.add(frame)
        frame.place = place = self.place_of(model)
        if not self.waiting and self._find(place, frame):
            return True
        wake = threading.Lock()
        wake.acquire()
        self._tickets += 1
        frame.wake, frame.ticket = wake, self._tickets
        place.queue.append(frame)
        self.waiting += 1
        self.serve()
        return frame.core is not None

    def end(self, frame: Frame) -> None:
        """A frame less on its core: another that waits gets it, or it rests."""
        core = frame.core
        assert core is not None
        core.rested_at = time.monotonic()
        self.frames.remove(frame)
        core.running -= 1
        if not core.running and core.place is not None:  # it has none where it died, or its scheduler was closed
            core.place.idle.append(core)
        if self.waiting:
            self.serve()

    def leave(self, frame: Frame) -> None:
        """A frame that failed, wherever it was."""
        self.frames.discard(frame)
        self.rebuild()

    def refuse(self, frame: Frame) -> int:
        """A frame whose model found no memory on its core; on how many other cores the model is.

        The model keeps away from that core until another one leaves a core, or until it is on none itself.
        """
        core, place = frame.core, frame.place
        others = [one for one in self.alive if one is not core and place is not None and one.place is place]
        if place is not None and core is not None:
            if others:
                place.full.add(core)
            else:
                place.full.clear()
        self.leave(frame)
        return len(others)

    def serve(self) -> None:
        """Give cores to the frames that wait, in their order, as far as there are any."""
        served = True
        while served and self.waiting:
            served = False
            for place in sorted((one for one in self.places.values() if one.queue), key=_first_ticket):
                frame = place.queue[0]
                if self._find(place, frame):
                    place.queue.popleft()
                    self.waiting -= 1
                    self._count_pass(frame.ticket, place)
                    _wake(frame)
                    served = True
                    break

    def rebuild(self) -> None:
        """Everything anew from the cores and the frames, then cores for those that wait."""
        places = dict(self.places)
        for place in places.values():
            place.on, place.idle, place.queue = [], [], deque()
        running: dict[Core, int] = {}
        waiting: list[Frame] = []
        for frame in self.frames:
            if frame.core is None:
                waiting.append(frame)
            else:
                running[frame.core] = running.get(frame.core, 0) + 1
                if frame.wake is not None and not frame.woken:
                    _wake(frame)
        self.empty = []
        for core in sorted(self.alive, key=_rested_at):
            core.running = running.get(core, 0)
            if not core.running and core.instance is None:
                core.place = None  # its model did not load
            if core.place is None:
                self.empty.append(core)
            else:
                places[core.place.model.key] = core.place
                core.place.on.append(core)
                if not core.running:
                    core.place.idle.append(core)
        self.empty.sort(key=self.alive.index, reverse=True)
        for frame in sorted(waiting, key=_ticket):
            assert frame.place is not None
            places[frame.place.model.key] = frame.place
            frame.place.queue.append(frame)
        self.waiting = len(waiting)
        self.places = {key: place for key, place in places.items() if place.on or place.queue or place.lent}
        self._share()
        self.serve()

    def place_of(self, model: DeviceModel) -> Place:
        """The place of a model, which is in use from now on."""
        place = self.places.get(model.key)
        if place is None:
            place = self.places[model.key] = Place(model)
            self._share()
        return place

    def end_loan(self, place: Place) -> None:
        """Cores that were lent to a model count as its share again, or as more than that."""
        place.lent = frozenset()
        self._drop_unused(place)

    def bury(self, core: Core) -> bool:
        """A core that is not there any more; False when that was known."""
        if core not in self.alive:
            return False
        core.place = core.instance = None
        self.alive.remove(core)
        return True

    def dismiss(self) -> None:
        """The frames that wait are woken without a core."""
        for frame in tuple(self.frames):
            if frame.core is None and frame.wake is not None and not frame.woken:
                _wake(frame)
            if frame.core is None:
                self.frames.remove(frame)
        for place in self.places.values():
            place.queue.clear()
        self.waiting = 0

    def _find(self, place: Place, frame: Frame) -> bool:
        """Give a frame a core, if there is one for it."""
        core: Core | None
        own = not self.waiting or not self._must_let_pass(place)
        if own and place.idle:
            core = place.idle[-1]
            frame.core, core.running = core, 1
            del place.idle[-1]
            return True
        core = self._empty_for(place) or self._victim(place, frame.passed)
        if core is None and own:
            core = _with_room(place.on)
            if core is not None:
                frame.core = core
                core.running += 1
                return True
        core = core or self._victim(place, frame.passed, time.monotonic() - UNUSED_AFTER_S)
        if core is None:
            return False
        self._move(core, place)
        frame.core, core.running = core, 1
        return True

    def _move(self, core: Core, place: Place) -> None:
        """A core from one model, or from none, to another: the next frame on it loads."""
        if core.instance is not None:  # memory of its board is free
            for other in self.places.values():
                other.full.clear()
        before, core.place, core.instance = core.place, place, None
        place.on.append(core)
        if before is None:
            self.empty.remove(core)
        else:
            before.on.remove(core)
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
            if core not in place.full and (core in place.lent or self._yields(holder, place, unused_since))
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

    def _empty_for(self, place: Place) -> Core | None:
        within = len(place.on) < place.limit
        if not within and not place.lent:
            return None
        return next(
            (one for one in reversed(self.empty) if one not in place.full and (within or one in place.lent)), None
        )

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


def _wake(frame: Frame) -> None:
    assert frame.wake is not None
    frame.woken = True
    frame.wake.release()


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


def _ticket(frame: Frame) -> int:
    return frame.ticket


def _first_ticket(place: Place) -> int:
    return place.queue[0].ticket
