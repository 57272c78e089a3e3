"""The cores of one scheduler, shared by its threads: frames in, each run on a core that holds its model.

`residency` says which core that is; here are the lock, the waiting, the loading, and cores that die.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from axtool.errors import AxError, FitError, plural
from axtool.runtime import profiler
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, Connection, DeviceInfo, DeviceLost, Instance
from axtool.runtime.scheduler.residency import Core, Frame, Residency

log = logging.getLogger("axtool")

Settings = Callable[[DeviceInfo, DeviceModel], BoardConfig | None]


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


@dataclass(frozen=True)
class CoreView:
    """What a live core is to a model that might be put on it. Seconds are modelled."""

    index: int
    holds: str | None  # the key of the model on it
    idle: bool
    switch_s: float  # to put the model on it: 0 where it holds it
    back_s: float  # to put back what it holds
    frame_s: float | None  # of all device stages of the model; None while no core holds it, or where nothing models it


class Cores:
    """Cores of one or several boards. Safe to use from several threads."""

    def __init__(self, connections: Iterable[Connection], settings: Settings) -> None:
        self._settings = settings
        self.all = tuple(Core(connection, index) for connection in connections for index in connection.cores)
        self._residency = Residency(self.all)
        self._lock = threading.Lock()
        self._stopped: Callable[[], AxError] | None = None  # makes what a frame raises that comes too late

    def run(
        self, model: DeviceModel, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> Sequence[Buffer]:
        """Run a stage of a model on the core that has or gets it; waits for one.

        A core that dies is left out from then on and the frame runs again on another: it depends on its inputs alone.
        So it does where there is no memory for the model on a further core. Raises DeviceLost when no core is left,
        the error of `stop` when that comes first, FitError where the model is on no core at all, and what else
        `Connection.load` and `Instance.run` raise.
        """
        while True:
            frame = Frame()
            try:
                try:
                    core = self._take(frame, model)
                    instance = core.instance
                    if instance is None:
                        instance = self._load(core, model)
                    made, report = instance.run(stage, inputs, outputs)
                    modelled = report.modelled_s
                    with self._lock:
                        core.frames += stage == 0
                        core.busy_s += report.busy_s
                        if modelled is not None:
                            core.modelled_s += modelled
                        self._residency.end(frame)
                except DeviceLost as error:
                    self._bury(frame, error)
                    continue
                except FitError as error:
                    if not self._refused(frame, model, error):
                        raise
                    continue
            except BaseException:  # Ctrl-C too, wherever it came
                with self._lock:
                    self._residency.leave(frame)
                raise
            recorder = profiler.active()
            if recorder is not None:
                recorder.record_core(core.name, model.name, report.start_s, report.busy_s, modelled)
            return made

    def view(self, model: DeviceModel) -> tuple[CoreView, ...]:
        """The live cores as a model sees them, to judge on how many of them a batch is worth its switches."""
        with self._lock:
            held = [
                (self.all.index(core), core, core.place, not core.running, core.instance)
                for core in self._residency.alive
            ]
        on = [instance for _, _, place, _, instance in held if place and place.model.key == model.key and instance]
        frame_s = _frame_s(on[0], model) if on else None
        return tuple(
            CoreView(
                index,
                place.model.key if place else None,
                idle,
                0.0 if place and place.model.key == model.key else core.connection.switch_s(model),
                0.0 if place is None else core.connection.switch_s(place.model),
                frame_s,
            )
            for index, core, place, idle, _ in held
        )

    @contextmanager
    def lent(self, model: DeviceModel, indices: Collection[int]) -> Iterator[bool]:
        """Inside, the model may take these cores beyond its share, as soon as they rest.

        False, and nothing is lent, when some are lent to the model already.
        """
        first, loan = False, frozenset(self.all[index] for index in indices)
        try:
            with self._lock:
                place = self._residency.place_of(model)
                if not place.lent:
                    first, place.lent = True, loan
            yield first
        finally:
            if first:
                with self._lock:
                    self._residency.end_loan(place)

    def stats(self) -> tuple[CoreStats, ...]:
        """What each core did, in the order of the boards."""
        with self._lock:
            alive = set(self._residency.alive)
            return tuple(
                CoreStats(
                    core.name, core.place.model.name if core.place else None, core in alive, core.frames,
                    core.busy_s, core.modelled_s, core.switches, core.switch_s,
                )
                for core in self.all
            )  # fmt: skip

    def stop(self, error: Callable[[], AxError]) -> None:
        """Take no more frames: those that wait for a core, or come later, raise `error()`; those that run may end."""
        try:
            with self._lock:
                self._stopped = self._stopped or error
                self._residency.dismiss()
        except BaseException:  # Ctrl-C: nobody is left waiting
            with self._lock:
                self._stopped = self._stopped or error
                self._residency.dismiss()
            raise

    def close(self) -> None:
        """Let go of the models, behind `stop` and when the connections are closed; the counters stay."""
        with self._lock:
            self._residency.places.clear()
            for core in self.all:
                core.instance = core.place = None

    def abandon(self, error: Callable[[], AxError]) -> None:
        """In a forked child: the cores are the parent's, and so is the lock."""
        self._lock, self._stopped = threading.Lock(), error

    def _take(self, frame: Frame, model: DeviceModel) -> Core:
        """The core on which a frame runs; its `instance` is None when the caller is to load the model."""
        with self._lock:
            self._check_usable()
            waits = not self._residency.begin(frame, model)
        if waits:
            assert frame.wake is not None
            frame.wake.acquire()
            if frame.core is None:
                self._check_usable()
                raise self._none_left()
        assert frame.core is not None
        return frame.core

    def _check_usable(self) -> None:
        if self._stopped is not None:
            raise self._stopped()
        if not self._residency.alive:
            raise self._none_left()

    def _load(self, core: Core, model: DeviceModel) -> Instance:
        """Put a model on a core that runs nothing else."""
        start = time.perf_counter()
        instance = core.connection.load(core.index, model, self._settings(core.info, model))
        took, modelled = time.perf_counter() - start, core.connection.switch_s(model)
        recorder = profiler.active()
        if recorder is not None:
            recorder.record_core(core.name, model.name, start, took, modelled, switch=True)
        with self._lock:
            core.switches += 1
            core.switch_s += modelled
            if self._stopped is None:
                core.instance = instance
                self._residency.serve()  # a core that takes several frames has room now
        return instance

    def _refused(self, frame: Frame, model: DeviceModel, error: FitError) -> bool:
        """Keep a model away from a core on which there is no memory for it; whether it is on others."""
        left, told = 0, True
        try:
            with self._lock:
                left, place = self._residency.refuse(frame), frame.place
                if left and place is not None:
                    told, place.told = place.told, True
        except BaseException:  # Ctrl-C
            with self._lock:
                self._residency.leave(frame)
            raise
        if not told:
            log.warning("%s runs on %s, there is no memory for it on more: %s", model.name, plural(left, "core"), error)
        return left > 0

    def _bury(self, frame: Frame, error: DeviceLost) -> None:
        """Leave out a core that does not answer. Raises the error of `stop`, or DeviceLost where it was the last."""
        core, residency = frame.core, self._residency
        with self._lock:
            first = core is not None and self._stopped is None and residency.bury(core)
            residency.leave(frame)
            left = len(residency.alive)
            if not left:
                residency.dismiss()
        if self._stopped is not None:
            raise self._stopped() from error
        if first and core is not None:
            remain = plural(left, "core remains", "cores remain")
            log.warning("%s is left out, %s: %s", core.name, remain, error)
        if not left:
            raise self._none_left() from error

    def _none_left(self) -> DeviceLost:
        return DeviceLost(
            "no core of this scheduler answers any more",
            where=", ".join(dict.fromkeys(core.info.name for core in self.all)),
            hint="close the scheduler, and make one with boards that answer",
        )


def _frame_s(instance: Instance, model: DeviceModel) -> float | None:
    stages = [instance.modelled_s(stage) for stage in range(len(model.plans))]
    known = [seconds for seconds in stages if seconds is not None]
    return sum(known) if len(known) == len(stages) else None
