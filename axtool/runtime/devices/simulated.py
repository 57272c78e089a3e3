"""A board in this process: its cores compute a plan bit for bit, or give recorded outputs again.

Paced, a frame takes as long as it is modelled to: over the link, on the core, and back. A core takes as many frames
at once as its board says, so that the next one is on its way while one computes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from axtool.errors import UsageError, plural
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import modelled
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.owning import board_lost, taken_off
from axtool.runtime.devices.pacing import Lane
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import DeviceInfo, DeviceLost, DevicesInUse
from axtool.runtime.devices.settings import require_room, require_settings, resident_bytes
from axtool.runtime.devices.simulated_core import Core, Fault
from axtool.runtime.devices.simulated_instance import SimulatedInstance


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
        Raises ValueError.
        """
        if after < 0 or (core is not None and not 0 <= core < len(self._cores)):
            raise ValueError(
                f"{self.info.name} has no core {core}" if after >= 0 else f"after is {after}, want 0 or more"
            )
        broken = self._cores if core is None else [self._cores[core]]
        fault = Fault(broken, after, mid_frame)
        for one in broken:
            one.fault = fault
        if not (after or mid_frame):
            fault.strike()

    def lost(self, core: int | None = None) -> DeviceLost:
        """What a run on a broken board raises, or on a core from which the model was taken."""
        if core is not None and not self._cores[core].dead:
            return taken_off(self.info.name, core)
        return board_lost(self.info.name, core)

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
