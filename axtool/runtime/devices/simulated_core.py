"""One core of a simulated board: what is on it, when it is busy, and when it is to break."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from axtool.runtime.devices.pacing import Lane

if TYPE_CHECKING:
    from axtool.runtime.devices.owning import Fault
    from axtool.runtime.devices.simulated_instance import SimulatedInstance


class Core:
    """One core of a simulated board."""

    def __init__(self, index: int) -> None:
        self.index = index
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
