"""A model on a core of a simulated board: frames are computed or replayed, and paced where the board is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from axtool.runtime.device import DeviceSession
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import modelled
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.pacing import Wait
from axtool.runtime.devices.seam import Buffer, FrameReport, private_copies
from axtool.runtime.devices.simulated_core import Core
from axtool.runtime.devices.stage_buffers import StageBuffers
from axtool.types import Plan

if TYPE_CHECKING:
    from axtool.runtime.devices.simulated import SimulatedConnection


class SimulatedInstance:
    """A model on a core of a simulated board. As many threads as the core takes frames may run it at once."""

    def __init__(
        self, connection: SimulatedConnection, core: Core, model: DeviceModel, settings: BoardConfig | None
    ) -> None:
        self.connection, self.core, self.model = connection, core, model
        self.wait = Wait()
        self._settings, self._device = settings, connection.device
        self._stages = [_Stage(plan) for plan in model.plans]
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
        work.buffers.check(inputs)
        arrived = time.perf_counter()
        with core.computing:
            start = time.perf_counter()
            made = self._made(stage, work, inputs, outputs)
            busy = time.perf_counter() - start
            if self._closed:
                self._forget_stages()
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
        self._device.owners.forget(self)
        if self.core.computing.acquire(blocking=False):  # else what computes right now does it when it is done
            self._forget_stages()
            self.core.computing.release()

    def _forget_stages(self) -> None:
        """Let go of the engines and their memory. The lock of the core's computing is held."""
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
        return private_copies(work.run(inputs), work.buffers.outputs() if outputs is None else outputs)

    def _paced(self, work: _Stage, arrived: float, busy: float, frame_s: float, *, broken: bool) -> tuple[float, float]:
        """Wait until the outputs would be here; when the core began, and how long it was taken."""
        link = self._device.board.link
        _, there = self._device.link(back=False).reserve(arrived, link.transfer_s(work.buffers.bytes_in))
        start, end = self.core.lane.reserve(there, max(frame_s, busy))
        _, here = self._device.link(back=True).reserve(end, link.transfer_s(work.buffers.bytes_out))
        self.wait.until((start + end) / 2 if broken else here)
        return start, end - start


class _Stage:
    """A device stage as a core holds it: what its buffers are, and an engine where the core computes."""

    def __init__(self, plan: Plan) -> None:
        self.buffers = StageBuffers(plan)
        self._program = plan.program
        self.session: DeviceSession | None = None

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Views of the core's memory, in the order of the program."""
        assert self.session is not None
        made = self.session.run_buffers(dict(zip(self._program.inputs, inputs, strict=True)))
        return [made[name] for name in self._program.outputs]
