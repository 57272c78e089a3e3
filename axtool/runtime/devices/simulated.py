"""A board in this process: its cores compute a plan bit for bit, or give recorded outputs again.

Paced, a frame takes as long as it is modelled to: over the link, on the core, and back. A core takes as many frames
at once as its board says, so that the next one is on its way while one computes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock

from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import modelled
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.owning import Fault, Owners, board_lost, described, taken_off
from axtool.runtime.devices.pacing import Lane
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import DeviceInfo, DeviceLost
from axtool.runtime.devices.settings import require_settings
from axtool.runtime.devices.simulated_core import Core
from axtool.runtime.devices.simulated_instance import SimulatedInstance


class SimulatedDevice:
    """One simulated board. Safe to use from several threads."""

    def __init__(self, board: Board, name: str, *, realtime: bool = False, recording: Recording | None = None) -> None:
        """`realtime` paces the cores; with `recording` they give recorded outputs again instead of computing."""
        self.board, self.realtime, self.recording = board, realtime, recording
        told = ["simulated here"]
        told += ["paced as modelled"] if realtime else []
        told += ["outputs recorded"] if recording is not None else []
        self._info = described(board, name, *told)
        self.owners = Owners(board, name)
        self._cores = [Core(index) for index in range(board.cores)]
        self._to_board = Lane()
        self._from_board = Lane() if board.link.duplex else self._to_board

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def available(self) -> int:
        """How many cores nobody has connected to."""
        return self.owners.free()

    def connect(self, cores: int | Sequence[int] | None = None) -> SimulatedConnection:
        """Take so many cores, or these, or all that answer.

        Raises DevicesInUse when some are taken, DeviceLost, UsageError.
        """
        connection = SimulatedConnection(self)
        connection.cores = self.owners.take(cores, connection)
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
        fault = Fault(lambda: self._break(broken), after, mid_frame=mid_frame)
        for one in broken:
            one.fault = fault

    def lost(self, core: int | None = None) -> DeviceLost:
        """What a run on a broken board raises, or on a core from which the model was taken."""
        if core is not None and not self._cores[core].dead:
            return taken_off(self.info.name, core)
        return board_lost(self.info.name, core)

    def vanish(self) -> None:
        """Every core is gone, as if the board had been pulled out; whoever is connected finds out."""
        self._break(self._cores)

    def core(self, index: int) -> Core:
        return self._cores[index]

    def link(self, *, back: bool) -> Lane:
        """The direction to the board, or back from it."""
        return self._from_board if back else self._to_board

    def _break(self, cores: Sequence[Core]) -> None:
        for core in cores:
            self.owners.bury(core.index)
            core.die()


class SimulatedConnection:
    """Cores of a simulated board that nobody else may use until `close`."""

    cores: tuple[int, ...] = ()

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device
        self._closed = False
        self._lock = Lock()

    def load(self, core: int, model: DeviceModel, settings: BoardConfig | None = None) -> SimulatedInstance:
        """Put a model on a core, in place of the one before, to run under these settings. Paced, it takes `switch_s`.

        Raises FitError where the board's memory has no room for it, DeviceLost, ValueError for a plan that breaks its
        own rules, UsageError for a core of somebody else or settings that the board does not have.
        """
        self.device.owners.refuse_other(core, self.cores)
        place = self.device.core(core)
        if self._closed or place.dead:
            raise self.device.lost(core)
        board = self.device.board
        require_settings(settings, self.device.info.name, board.clocks_mhz, board.memory_bytes)
        if place.instance is not None:
            place.instance.close()
        instance = SimulatedInstance(self, place, model, settings)
        try:
            self.device.owners.hold(instance, model, settings)
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
        self.device.owners.give_back(self)

    def _switched(self, instance: SimulatedInstance, model: DeviceModel) -> bool:
        if not self.device.realtime:
            return True
        board = self.device.board
        now = time.perf_counter()
        _, there = self.device.link(back=False).reserve(now, board.link.transfer_s(modelled.model_bytes(model)))
        return instance.wait.until(there + board.switch_s)
