"""One core of a simulated board: who has it, what is on it, when it is busy, and when it is to break."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from axtool.runtime.devices.pacing import Lane

if TYPE_CHECKING:
    from axtool.runtime.devices.simulated import SimulatedConnection
    from axtool.runtime.devices.simulated_instance import SimulatedInstance


class Core:
    """One core of a simulated board: who has it, what is on it, and when it is busy."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.owner: SimulatedConnection | None = None
        self.instance: SimulatedInstance | None = None
        self.fault: Fault | None = None
        self.dead = False
        self.lane = Lane()
        self.computing = Lock()

    def die(self) -> None:
        """For good; frames that wait for their modelled end are woken."""
        self.dead = True
        instance = self.instance
        if instance is not None:
            instance.wait.stop()


class Fault:
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
