"""A board in this process: its cores compute a plan bit for bit, or give recorded outputs again.

Paced, a frame takes as long as it is modelled to: over the link, on the core, and back. A core takes as many frames
at once as its board says, so that the next one is on its way while one computes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

import numpy as np

from axtool.errors import UsageError, plural
from axtool.ops.storing import DTYPES
from axtool.runtime.device import DeviceSession, buffer_shape
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import modelled
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.pacing import Lane, Wait
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import Buffer, DeviceInfo, DeviceLost, DevicesInUse, FrameReport, private_copies
from axtool.runtime.devices.settings import require_room, require_settings, resident_bytes


class SimulatedDevice:
    """One simulated board. Safe to use from several threads."""

    def __init__(self, board: Board, name: str, *, realtime: bool = False, recording: Recording | None = None) -> None:
        """`realtime` paces the cores; with `recording` they give recorded outputs again instead of computing."""
        self.board, self.realtime, self.recording = board, realtime, recording
        told = ["simulated here"]
        told += ["paced as modelled"] if realtime else []
        told += ["outputs recorded"] if recording is not None else []
        self._info = DeviceInfo(
            name=name,
            board_model=board.board_model,
            board_type=board.board_type,
            cores=board.cores,
            clock_hz=board.clock_hz,
            memory_bytes=board.memory_bytes,
            provenance=", ".join(told),
            board=board.name,
            link_bytes_per_s=board.link.bytes_per_s,
            queue=board.queue,
        )
        self._cores = [Core(index) for index in range(board.cores)]
        self._to_board = Lane()
        self._from_board = Lane() if board.link.duplex else self._to_board
        self._held: dict[SimulatedInstance, int] = {}  # bytes of the board's memory
        self._lock = Lock()

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def available(self) -> int:
        """How many cores nobody has connected to."""
        with self._lock:
            return sum(core.owner is None and not core.dead for core in self._cores)

    def connect(self, cores: int | Sequence[int] | None = None) -> SimulatedConnection:
        """Take so many cores, or these, or all that answer.

        Raises DevicesInUse when some are taken, DeviceLost, UsageError.
        """
        with self._lock:
            if all(core.dead for core in self._cores):
                raise self.lost()
            chosen = self._chosen(cores)
            connection = SimulatedConnection(self, tuple(core.index for core in chosen))
            for core in chosen:
                core.owner = connection
        return connection

    def lose(self, core: int | None = None, *, after: int = 0, mid_frame: bool = True) -> None:
        """Break the board, or one core of it, for good: for tests of what stands above.

        It answers `after` further frames; the next one is lost while it runs (`mid_frame`), or before it begins.
        """
        broken = self._cores if core is None else [self._cores[core]]
        fault = _Fault(broken, after, mid_frame)
        for one in broken:
            one.fault = fault
        if not (after or mid_frame):
            fault.strike()

    def lost(self, core: int | None = None) -> DeviceLost:
        """What a run on a broken board raises."""
        which = self.info.name if core is None else f"core {core} of {self.info.name}"
        return DeviceLost(
            f"{which} does not answer any more", hint="the frame that was on it has no result; run it on another"
        )

    def vanish(self) -> None:
        """Every core is gone, as if the board had been pulled out; whoever is connected finds out."""
        for core in self._cores:
            core.die()

    def hold(self, instance: SimulatedInstance, settings: BoardConfig | None) -> None:
        """Give the model memory of the board. Raises FitError where there is not so much of it."""
        board, model = self.board, instance.model
        if board.window_bytes < board.memory_bytes and (settings is None or settings.ddr_size is None):
            settings = replace(settings or BoardConfig(), ddr_size=board.window_bytes)
        needed = resident_bytes(model.plans)
        with self._lock:
            taken = sum(self._held.values())
            require_room(model.name, needed, taken, board.memory_bytes, settings, self.info.name)
            self._held[instance] = needed

    def forget(self, instance: SimulatedInstance) -> None:
        """Take the memory of the model back."""
        with self._lock:
            self._held.pop(instance, None)

    def free(self, cores: Sequence[int], owner: SimulatedConnection) -> None:
        """Nobody is connected to these cores any more."""
        with self._lock:
            for index in cores:
                if self._cores[index].owner is owner:
                    self._cores[index].owner = None

    def core(self, index: int) -> Core:
        return self._cores[index]

    def link(self, *, back: bool) -> Lane:
        """The direction to the board, or back from it."""
        return self._from_board if back else self._to_board

    def _chosen(self, cores: int | Sequence[int] | None) -> list[Core]:
        free = [core for core in self._cores if core.owner is None and not core.dead]
        if cores is None:
            cores = sum(not core.dead for core in self._cores)
        if isinstance(cores, int):
            if cores < 1:
                raise UsageError(f"want at least 1 core of {self.info.name}, got {cores}", code="bad-option")
            if cores > len(free):
                raise self._in_use(cores, len(free))
            return free[:cores]
        wrong = [index for index in cores if not 0 <= index < len(self._cores)]
        if wrong or not cores or len(set(cores)) != len(cores):
            raise UsageError(
                f"{self.info.name} has the cores 0 to {len(self._cores) - 1}, got {list(cores)}", code="bad-option"
            )
        chosen = [self._cores[index] for index in cores]
        taken = [core for core in chosen if core not in free]
        if taken:
            raise self._in_use(len(chosen), len(chosen) - len(taken))
        return chosen

    def _in_use(self, wanted: int, free: int) -> DevicesInUse:
        dead = sum(core.dead for core in self._cores)
        return DevicesInUse(
            f"num_sub_devices > available ({wanted} > {free}): {self.info.name} has {plural(self.info.cores, 'core')}, "
            f"{free} free" + (f", {dead} broken" if dead else ""),
            hint="close the scheduler or connection that holds the others, or give each of them other devices",
        )


class Core:
    """One core of a simulated board: who has it, what is on it, and when it is busy."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.owner: SimulatedConnection | None = None
        self.instance: SimulatedInstance | None = None
        self.fault: _Fault | None = None
        self.dead = False
        self.lane = Lane()
        self.computing = Lock()

    def die(self) -> None:
        """For good; frames that wait for their modelled end are woken."""
        self.dead = True
        instance = self.instance
        if instance is not None:
            instance.wait.stop()


class _Fault:
    """A countdown of frames that cores share."""

    def __init__(self, cores: Sequence[Core], after: int, mid_frame: bool) -> None:
        self._cores, self._left, self._mid_frame = tuple(cores), after, mid_frame
        self._lock = Lock()

    def strikes(self) -> bool:
        """Count a frame that begins: whether it is lost while it runs. Breaks the cores where it is to be refused."""
        with self._lock:
            self._left -= 1
            hit = self._left == -1
        if hit and not self._mid_frame:
            self.strike()
        return hit and self._mid_frame

    def strike(self) -> None:
        for core in self._cores:
            core.die()


class SimulatedConnection:
    """Cores of a simulated board that nobody else may use until `close`."""

    def __init__(self, device: SimulatedDevice, cores: tuple[int, ...]) -> None:
        self.device, self.cores = device, cores
        self._closed = False
        self._lock = Lock()

    def load(self, core: int, model: DeviceModel, settings: BoardConfig | None = None) -> SimulatedInstance:
        """Put a model on a core, in place of the one before, to run under these settings. Paced, it takes `switch_s`.

        Raises FitError where the board's memory has no room for it, DeviceLost, ValueError for a plan that breaks its
        own rules, UsageError for a core of somebody else or settings that the board does not have.
        """
        if core not in self.cores:
            raise UsageError(
                f"core {core} of {self.device.info.name} is not of this connection, which has {list(self.cores)}",
                code="bad-option",
            )
        place = self.device.core(core)
        if self._closed or place.dead:
            raise self.device.lost(core)
        board = self.device.board
        require_settings(settings, self.device.info.name, board.clocks_mhz, board.memory_bytes)
        if place.instance is not None:
            place.instance.close()
        instance = SimulatedInstance(self, place, model, settings)
        try:
            self.device.hold(instance, settings)
            instance.open()
        except BaseException:
            instance.close()
            raise
        with self._lock:
            if self._closed:
                instance.close()
                raise self.device.lost(core)
            place.instance = instance
        if place.dead or not self._switched(instance, model):
            raise self.device.lost(core)
        return instance

    def switch_s(self, model: DeviceModel) -> float:
        """Modelled seconds that a core needs to take another model: its program and constants over the link."""
        board = self.device.board
        return board.switch_s + board.link.transfer_s(modelled.model_bytes(model))

    def close(self) -> None:
        """Free the cores and every instance on them. Idempotent; a frame that runs meanwhile ends as it would."""
        with self._lock:
            self._closed = True
        for index in self.cores:
            place = self.device.core(index)
            instance = place.instance
            if instance is not None and instance.connection is self:
                instance.close()
        self.device.free(self.cores, self)

    def _switched(self, instance: SimulatedInstance, model: DeviceModel) -> bool:
        if not self.device.realtime:
            return True
        board = self.device.board
        now = time.perf_counter()
        _, there = self.device.link(back=False).reserve(now, board.link.transfer_s(modelled.model_bytes(model)))
        return instance.wait.until(there + board.switch_s)


class SimulatedInstance:
    """A model on a core of a simulated board. As many threads as the core takes frames may run it at once."""

    def __init__(
        self, connection: SimulatedConnection, core: Core, model: DeviceModel, settings: BoardConfig | None
    ) -> None:
        self.connection, self.core, self.model = connection, core, model
        self.wait = Wait()
        self._settings, self._device = settings, connection.device
        self._stages = [_Stage(model, index) for index in range(len(model.plans))]
        self._modelled: list[float | None] = [None] * len(model.plans)
        self._closed = False

    def open(self) -> None:
        """Get ready: the engines where this core computes, the modelled times where it is paced."""
        if self._device.recording is not None:
            self._device.recording.prepare(self.model)
        for index, stage in enumerate(self._stages):
            if self._device.recording is None:
                stage.session = self.model.session(index)
            self.modelled_s(index)

    def run(
        self, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> tuple[Sequence[Buffer], FrameReport]:
        """One frame of a stage: buffers (1, h, w, c) in the order of the program in and out.

        The outputs are the caller's, of a recording read-only. Raises DeviceLost, ValueError for a buffer of another
        shape or type.
        """
        core, work = self.core, self._stages[stage]
        fault = core.fault
        lost = fault is not None and fault.strikes()
        if core.dead or self._closed:
            raise self._device.lost(core.index)
        work.check(inputs)
        arrived = time.perf_counter()
        with core.computing:
            start = time.perf_counter()
            made = self._made(stage, work, inputs, outputs)
            busy = time.perf_counter() - start
        if self._device.realtime:
            start, busy = self._paced(work, arrived, busy, self._modelled[stage] or 0.0, broken=lost)
        if lost and fault is not None:
            fault.strike()
        if core.dead:
            raise self._device.lost(core.index)
        return made, FrameReport(busy_s=busy, modelled_s=self._modelled[stage], start_s=start)

    def modelled_s(self, stage: int) -> float | None:
        """Seconds of one frame of a stage on the chip, under the settings of the connection; modelled."""
        if self._modelled[stage] is None:
            self._modelled[stage] = modelled.frame_s(self.model, stage, self._device.board, self._settings)
        return self._modelled[stage]

    def close(self) -> None:
        """Take the model off the core. Idempotent."""
        self._closed = True
        if self.core.instance is self:
            self.core.instance = None
        self._device.forget(self)
        with self.core.computing:  # what computes right now still needs its memory
            for stage in self._stages:
                stage.session = None

    def _made(
        self, index: int, work: _Stage, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None
    ) -> Sequence[Buffer]:
        recording = self._device.recording
        if recording is not None:
            kept = recording.outputs(self.model, index, inputs)
            return kept if outputs is None else private_copies(kept, outputs)
        if work.session is None:
            raise self._device.lost(self.core.index)
        return private_copies(work.run(inputs), outputs)

    def _paced(self, work: _Stage, arrived: float, busy: float, frame_s: float, *, broken: bool) -> tuple[float, float]:
        """Wait until the outputs would be here; when the core began, and how long it was taken."""
        link = self._device.board.link
        _, there = self._device.link(back=False).reserve(arrived, link.transfer_s(work.bytes_in))
        start, end = self.core.lane.reserve(there, max(frame_s, busy))
        _, here = self._device.link(back=True).reserve(end, link.transfer_s(work.bytes_out))
        self.wait.until((start + end) / 2 if broken else here)
        return start, end - start


class _Stage:
    """A device stage as a core holds it: what its buffers are, and an engine where the core computes."""

    def __init__(self, model: DeviceModel, index: int) -> None:
        plan = model.plans[index]
        self.program = plan.program
        self.session: DeviceSession | None = None
        self._inputs = [
            (name, buffer_shape(plan, name), np.dtype(DTYPES[self.program.tensors[name].format.kind]))
            for name in self.program.inputs
        ]
        self.bytes_in = sum(int(np.prod(shape)) * dtype.itemsize for _, shape, dtype in self._inputs)
        self.bytes_out = sum(
            int(np.prod(buffer_shape(plan, name))) * self.program.tensors[name].number_bytes
            for name in self.program.outputs
        )

    def check(self, inputs: Sequence[Buffer]) -> None:
        """Raise ValueError unless the buffers are those of the stage."""
        if len(inputs) != len(self._inputs):
            raise ValueError(f"the stage has {plural(len(self._inputs), 'input')}, got {plural(len(inputs), 'buffer')}")
        for (name, shape, dtype), array in zip(self._inputs, inputs, strict=True):
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"'{name}' is {dtype} {shape}, got {array.dtype} {array.shape}")

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Views of the core's memory, in the order of the program."""
        assert self.session is not None
        made = self.session.run_buffers(dict(zip(self.program.inputs, inputs, strict=True)))
        return [made[name] for name in self.program.outputs]
