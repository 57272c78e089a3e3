"""What a device is given of a compiled model: its device stages, and how the host asks for them to be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np

from axtool.runtime.device import DeviceSession
from axtool.runtime.device_config import DeviceConfig
from axtool.sim.images import encode_plan
from axtool.types import Plan


@dataclass(eq=False)
class DeviceModel:
    """The device stages of one artefact. Two loads of the same file with the same options have the same `key`.

    `core_allocation`: None shares the cores equally, a number is that many of them, '50%' a share of what is left.
    `batch`: how many frames of it a core runs in a row while frames of another model wait for the core; None leaves it
    to the scheduler. It never changes the bits.
    """

    key: str
    name: str  # for messages: the file
    plans: tuple[Plan, ...]
    target: Mapping[str, Any]
    engine: str = "native"
    threads: int = 1
    isa: str = "auto"
    core_allocation: int | str | None = None
    batch: int | None = None
    device_config: DeviceConfig | None = None
    _spare: dict[int, DeviceSession] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def check(self) -> None:
        """Open every plan once, so that one that no engine may run is refused where the file is loaded.

        What was opened goes to the first core that wants it. Raises ValueError.
        """
        for stage in range(len(self.plans)):
            if stage not in self._spare:
                self._spare[stage] = self._opened(stage)

    def session(self, stage: int) -> DeviceSession:
        """A simulated core's own view of a stage: memory images and an engine, for one thread at a time."""
        with self._lock:
            ready = self._spare.pop(stage, None)
        return ready or self._opened(stage)

    def _opened(self, stage: int) -> DeviceSession:
        return DeviceSession(self.plans[stage], engine=self.engine, threads=self.threads, isa=self.isa)


def key_of(plans: Sequence[Plan], target: Mapping[str, Any], options: object) -> str:
    """A digest of what a core is given: programs, addresses, constants, the chip they are timed by, and the options."""
    digest = sha256(repr((sorted(target.items(), key=str), options)).encode())
    for plan in plans:
        program = plan.program
        borders = [program.tensors[name] for name in (*program.inputs, *program.outputs)]
        digest.update(repr((plan.slots, sorted(plan.sizes.items()), plan.without, borders)).encode())
        for rows in encode_plan(plan):
            digest.update(np.ascontiguousarray(rows).data)
        for name, array in program.constants.items():
            digest.update(repr((name, array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
