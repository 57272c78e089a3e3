"""The seam between what schedules and what computes: a `Device` is connected, a core is loaded, an `Instance` runs.

Everything above this page knows boards by these protocols alone. The simulated board (`devices.simulated`)
and the board in another process (`devices.remote`) stand behind them; so would a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from axtool.errors import EnvironmentFault
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.model import DeviceModel

Buffer = NDArray[Any]  # (1, h, w, c) of one input or output: padded numbers of its format


@dataclass(frozen=True)
class DeviceInfo:
    """What a board says of itself. `board_model` is the key of a DeviceConfig, `name` what a selector names."""

    name: str  # metis-0:1:0
    board_model: str  # 110m
    board_type: str  # pcie, m2, …
    cores: int
    clock_hz: float
    memory_bytes: int  # of the board, beside the chip
    provenance: str  # simulated here, simulated in process 123, …
    board: str = ""  # the kind of board, as a file of configs/boards is named
    link_bytes_per_s: float | None = None  # to the board, each way; None where nobody says
    queue: int = 1  # frames that one core takes at once: one computes, the others have their inputs there already

    @property
    def subdevice_count(self) -> int:
        """The cores, by the name that selectors and errors use."""
        return self.cores


@dataclass(frozen=True)
class FrameReport:
    """What one run of one stage took. `modelled_s` is the chip's, and None where nothing models it."""

    busy_s: float  # measured: how long the core was taken, of a paced one with the wait
    modelled_s: float | None
    start_s: float = 0.0  # time.perf_counter() when the core began


class DeviceLost(EnvironmentFault, RuntimeError):
    """A board or one of its cores does not answer any more. What was running on it has no result."""

    code = "device-lost"


class DevicesInUse(EnvironmentFault, RuntimeError):
    """More cores are asked for than are free: `num_sub_devices > available`."""

    code = "device-in-use"


class Instance(Protocol):
    """A model on one core. As many threads at a time as the core takes frames: `DeviceInfo.queue`."""

    def run(
        self, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> tuple[Sequence[Buffer], FrameReport]:
        """Run device stage `stage` of the model: its inputs and outputs in the order of the program.

        Blocks until it is done, without the GIL where it computes. The outputs are the caller's: `outputs` filled, or
        arrays that no later run changes. Raises DeviceLost, ValueError for a buffer of another shape or type.
        """
        ...

    def modelled_s(self, stage: int) -> float | None:
        """Seconds of one frame of a stage on the chip, under the settings of the connection; modelled."""
        ...

    def close(self) -> None:
        """Take the model off the core. Idempotent."""
        ...


class Connection(Protocol):
    """Cores of one board that nobody else may use until `close`."""

    @property
    def device(self) -> Device: ...

    @property
    def cores(self) -> tuple[int, ...]: ...

    def load(self, core: int, model: DeviceModel, settings: BoardConfig | None = None) -> Instance:
        """Put a model on a core, in place of the one before, with the board settings to run it under.

        Raises FitError where the board's memory has no room for it, DeviceLost, and ValueError for a plan that breaks
        its own rules.
        """
        ...

    def switch_s(self, model: DeviceModel) -> float:
        """Modelled seconds that a core needs to take another model: its program and constants over the link."""
        ...

    def close(self) -> None:
        """Free the cores and every instance on them. Idempotent, and safe while an instance runs in another thread:
        that run raises DeviceLost or ends as if nothing had happened.
        """
        ...


class Device(Protocol):
    """One board."""

    @property
    def info(self) -> DeviceInfo: ...

    def available(self) -> int:
        """How many cores nobody has connected to."""
        ...

    def connect(self, cores: int | Sequence[int] | None = None) -> Connection:
        """Take so many cores, or these, or all that answer. Raises DevicesInUse when some are taken, DeviceLost."""
        ...


def private_copies(arrays: Sequence[Buffer], outputs: Sequence[Buffer] | None) -> Sequence[Buffer]:
    """`outputs` filled with the arrays, or copies of them. Raises ValueError for an output of another shape or type."""
    if outputs is None:
        return [array.copy() for array in arrays]
    if len(outputs) != len(arrays):
        raise ValueError(f"the stage has {len(arrays)} outputs, got {len(outputs)} buffers")
    for index, (array, out) in enumerate(zip(arrays, outputs, strict=True)):
        if out.shape != array.shape or out.dtype != array.dtype:
            raise ValueError(f"output {index} is {array.dtype} {array.shape}, got {out.dtype} {out.shape}")
        np.copyto(out, array)
    return outputs
