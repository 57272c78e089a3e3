"""A board in a process of its own: `devices.seam` over sockets and shared memory, beside the simulated board here.

What crosses is what a driver would send: rows of commands and memory images when a core takes a model, then a mailbox
and a stage number for each frame. The process starts with the first connection and ends with the last one. A board
whose process has ended by itself is lost for good.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from threading import Lock

import numpy as np

from axtool.errors import UnsupportedError
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import modelled
from axtool.runtime.devices.board_process import END_S, BoardGone, BoardProcess, Channel
from axtool.runtime.devices.boards import Board
from axtool.runtime.devices.layout import Bytes, Layout, Pace, buffers, letters, pack
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.owning import Fault, Owners, board_lost, described, taken_off
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import Buffer, DeviceInfo, DeviceLost, FrameReport, private_copies
from axtool.runtime.devices.settings import require_settings
from axtool.runtime.devices.stage_buffers import StageBuffers
from axtool.runtime.devices.wire import Kind, Message, new_memory

_numbers = count(1)  # of models on cores


class RemoteDevice:
    """One board. Safe to use from several threads."""

    def __init__(self, board: Board, name: str, *, realtime: bool = False, recording: Recording | None = None) -> None:
        """`realtime` paces the cores; with `recording` they give recorded outputs again instead of computing."""
        self.board, self.name, self.realtime, self.recording = board, name, realtime, recording
        self.owners = Owners(board, name)
        self.faults: dict[int, Fault] = {}
        self._how = ""  # the board was lost
        self._process: BoardProcess | None = None
        self._connections: set[RemoteConnection] = set()
        self._owner = os.getpid()
        self._lock = Lock()

    @property
    def info(self) -> DeviceInfo:
        process = self._process
        told = ["simulated in a process of its own" if process is None else f"simulated in process {process.number}"]
        told += ["paced as modelled"] if self.realtime else []
        told += ["outputs recorded"] if self.recording is not None else []
        return described(self.board, self.name, *told)

    @property
    def process_number(self) -> int | None:
        """Of the process that is the board, while somebody is connected to it."""
        process = self._process
        return None if process is None else process.number

    def available(self) -> int:
        """How many cores nobody has connected to."""
        process = self._process
        if process is not None and process.has_ended():
            self.lose_all(str(process.gone()))
        return self.owners.free()

    def connect(self, cores: int | Sequence[int] | None = None) -> RemoteConnection:
        """Take so many cores, or these, or all that answer; the first to do so starts the process.

        Raises DevicesInUse when some are taken, DeviceLost, UsageError, EnvironmentFault where no process can start.
        """
        connection = RemoteConnection(self)
        connection.cores = self.owners.take(cores, connection)
        try:
            with self._lock:
                if self._process is None:
                    links = ("duplex" if self.board.link.duplex else "simplex") if self.realtime else ""
                    self._process = BoardProcess(self.name, links)
                self._connections.add(connection)
                connection.open(self._process)
        except BoardGone as error:
            self.lose_all(str(error))
            self.release(connection)
            raise self.lost() from error
        except BaseException:
            self.release(connection)
            raise
        return connection

    def release(self, connection: RemoteConnection) -> None:
        """Its cores are free; the process of a board that nobody has any more ends. Idempotent."""
        self.owners.give_back(connection)
        with self._lock:
            self._connections.discard(connection)
            process = self._process
            if process is None or self._connections:
                return
            self._process = None
        process.end()

    def lose(self, core: int | None = None, *, after: int = 0, mid_frame: bool = True) -> None:
        """Break the board, or one core of it, for good: for tests of what stands above.

        It answers `after` further frames; the next one is lost while it runs (`mid_frame`), or before it begins.
        """
        fault = Fault(self.vanish if core is None else lambda: self._cut(core), after, mid_frame=mid_frame)
        self.faults.update(dict.fromkeys(range(self.board.cores) if core is None else (core,), fault))

    def vanish(self) -> None:
        """The process is killed, as if the board had been pulled out; whoever is connected finds out."""
        self.owners.bury()
        process = self._process
        if process is not None:
            process.kill()
            process.end()

    def lose_all(self, how: str) -> None:
        """The process is gone: no core of it will be given to anybody again."""
        self._how = self._how or how
        self.owners.bury()

    def lost(self, core: int | None = None) -> DeviceLost:
        """What a run on a broken board raises, or on a core from which the model was taken."""
        if core is not None and not self.owners.is_dead(core):
            return taken_off(self.name, core)
        return board_lost(self.name, core, self._how)

    def _cut(self, core: int) -> None:
        self.owners.bury(core)
        for connection in list(self._connections):
            connection.cut(core)


class RemoteConnection:
    """Cores of a board in another process that nobody else may use until `close`."""

    def __init__(self, device: RemoteDevice) -> None:
        self.device = device
        self.cores: tuple[int, ...] = ()
        self._process: BoardProcess | None = None
        self._channels: dict[int, list[Channel]] = {}
        self._instances: dict[int, RemoteInstance] = {}
        self._closed = False
        self._lock = Lock()

    def open(self, process: BoardProcess) -> None:
        """Channels to every core. Raises BoardGone, EnvironmentFault."""
        self._process = process
        try:
            for core in self.cores:
                self._channels[core] = process.open_channels(core, self.device.board.queue)
        except BaseException:
            self._shut()
            raise

    def load(self, core: int, model: DeviceModel, settings: BoardConfig | None = None) -> RemoteInstance:
        """Put a model on a core, in place of the one before, to run under these settings. Paced, it takes `switch_s`.

        Raises FitError where the board's memory has no room for it, DeviceLost, ValueError for a plan that breaks its
        own rules, UsageError for a core of somebody else or settings that the board does not have, UnsupportedError for
        a custom op, EnvironmentFault where there is no memory to share.
        """
        device = self.device
        device.owners.refuse_other(core, self.cores)
        if self._closed or device.owners.is_dead(core):
            raise device.lost(core)
        require_settings(settings, device.name, device.board.clocks_mhz, device.board.memory_bytes)
        _refuse_custom_ops(model, device.name)
        before = self._instances.pop(core, None)
        if before is not None:
            before.close()
        instance = RemoteInstance(self, core, model, settings)
        try:
            device.owners.hold(instance, model, settings)
            instance.open(self._channels[core])
            with self._lock:
                if self._closed:
                    raise device.lost(core)
                self._instances[core] = instance
        except BaseException:
            instance.close()
            raise
        return instance

    def switch_s(self, model: DeviceModel) -> float:
        """Modelled seconds that a core needs to take another model: its program and constants over the link."""
        board = self.device.board
        return board.switch_s + board.link.transfer_s(modelled.model_bytes(model))

    def close(self) -> None:
        """Free the cores and every instance on them. Idempotent; a frame that runs meanwhile raises DeviceLost."""
        process = self._process
        if process is None or not process.is_ours():
            return  # of a parent: what is done to its sockets here is done to it
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for instance in list(self._instances.values()):
            instance.close()
        self._shut()
        self.device.release(self)

    def drop(self, core: int, number: int) -> None:
        """Take a model off a core, if it is still there."""
        process = self._process
        if process is None or not process.is_ours():
            return
        try:
            process.tell(Message(Kind.DROP, stage=core, model=number))
        except BoardGone as error:
            if not self._closed:  # else its process may have ended because nobody has the board any more
                self.device.lose_all(str(error))

    def cut(self, core: int) -> None:
        """A core of this connection is gone; whoever waits for it finds out."""
        for channel in self._channels.get(core, ()):
            channel.hang_up()

    def gone(self, core: int, error: BoardGone) -> DeviceLost:
        """What is to be raised where a core did not answer. The board is lost with its process, else the core is."""
        device, process = self.device, self._process
        if not self._closed and process is not None and not device.owners.is_dead(core):
            if process.has_ended(END_S):
                device.lose_all(str(process.gone()))
            else:
                device.owners.bury(core)
        return device.lost(core)

    def _shut(self) -> None:
        for channels in self._channels.values():
            for channel in channels:
                channel.close()


class RemoteInstance:
    """A model on a core of a board in another process. As many threads as the core takes frames may run it at once."""

    def __init__(
        self, connection: RemoteConnection, core: int, model: DeviceModel, settings: BoardConfig | None
    ) -> None:
        self.connection, self.core, self.model = connection, core, model
        self._device, self._settings = connection.device, settings
        self._number = next(_numbers)
        self._slots: list[_Slot] = []
        self._wanted = [StageBuffers(plan) for plan in model.plans]
        self._modelled: list[float | None] = [None] * len(model.plans)
        self._closed = False

    def open(self, channels: Sequence[Channel]) -> None:
        """Hand the model over, in memory that both see."""
        device = self._device
        if device.recording is not None:
            device.recording.prepare(self.model)
        packed = pack(self.model, len(channels), [self._pace(stage) for stage in range(len(self.model.plans))])
        memory, file = new_memory("axtool board", packed.size)
        try:
            body = packed.write(np.frombuffer(memory, np.uint8))
            self._slots = [
                _Slot(channel, self.model, packed.layout, body, begin)
                for channel, begin in zip(channels, packed.layout.mailboxes, strict=True)
            ]
            del memory, body  # `close` lets go of it: an error that somebody keeps has this call in its traceback
            link_s = device.board.link.transfer_s(modelled.model_bytes(self.model))
            load = Message(Kind.LOAD, model=self._number, start=link_s, seconds=device.board.switch_s)
            with channels[0].lock:
                self._ask(channels[0], load, [file])
        finally:
            os.close(file)

    def run(
        self, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> tuple[Sequence[Buffer], FrameReport]:
        """One frame of a stage: buffers (1, h, w, c) in the order of the program in and out.

        The outputs are the caller's, of a recording read-only. Raises DeviceLost, ValueError for a buffer of another
        shape or type.
        """
        device, wanted = self._device, self._wanted[stage]
        fault = device.faults.get(self.core)
        lost = fault is not None and fault.strikes()
        if self._closed or device.owners.is_dead(self.core):
            raise device.lost(self.core)
        wanted.check(inputs)
        slots = self._slots
        if not slots:
            raise device.lost(self.core)
        slot = next((one for one in slots if not one.channel.lock.locked()), slots[0])
        try:
            with slot.channel.lock:  # and nothing before: an interrupt shall find it taken and given back, or not taken
                if self._closed:
                    raise device.lost(self.core)
                if lost and fault is not None:
                    fault.strike()
                made, answer = self._made(slot, stage, inputs, outputs)
        finally:
            del slot, slots  # an error that somebody keeps has this call in its traceback, and would hold the memory
        return made, FrameReport(busy_s=answer.seconds, modelled_s=self._modelled[stage], start_s=answer.start)

    def modelled_s(self, stage: int) -> float | None:
        """Seconds of one frame of a stage on the chip, under the settings of the connection; modelled."""
        if self._modelled[stage] is None:
            self._modelled[stage] = modelled.frame_s(self.model, stage, self._device.board, self._settings)
        return self._modelled[stage]

    def close(self) -> None:
        """Take the model off the core; a frame that runs ends as it would. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._device.owners.forget(self)
        self.connection.drop(self.core, self._number)
        self._slots = []  # and with them the memory, whoever still holds this

    def _made(
        self, slot: _Slot, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None
    ) -> tuple[Sequence[Buffer], Message]:
        """The outputs of a frame, and the answer of the board. The slot's channel is locked."""
        recording, wanted = self._device.recording, self._wanted[stage]
        frame = Message(Kind.FRAME, stage=stage, model=self._number)
        if recording is not None:
            kept = recording.outputs(self.model, stage, inputs)
            answer = self._ask(slot.channel, replace(frame, kind=Kind.PACE))
            return kept if outputs is None else private_copies(kept, outputs), answer
        try:
            slot.write(stage, inputs)
            answer = self._ask(slot.channel, frame)
            return private_copies(slot.outputs[stage], wanted.outputs() if outputs is None else outputs), answer
        finally:
            del slot  # as in `run`

    def _ask(self, channel: Channel, message: Message, files: Sequence[int] = ()) -> Message:
        try:
            answer = channel.ask(message, files)
        except BoardGone as error:
            raise self.connection.gone(self.core, error) from error
        if answer.kind == Kind.WRONG:
            raise ValueError(answer.text)
        if answer.kind == Kind.NO_MEMORY:
            raise MemoryError(answer.text)
        if answer.kind == Kind.FAILED:
            raise RuntimeError(f"the process of {self._device.name} failed: {answer.text}")
        if answer.kind == Kind.GONE:
            raise self._device.lost(self.core)
        return answer

    def _pace(self, stage: int) -> Pace:
        """What a frame is modelled to take on the core and on the link; a board that is not paced ignores it."""
        link, wanted = self._device.board.link, self._wanted[stage]
        return Pace(self.modelled_s(stage) or 0.0, link.transfer_s(wanted.bytes_in), link.transfer_s(wanted.bytes_out))


class _Slot:
    """A channel and its mailbox: where one frame is written and read."""

    def __init__(self, channel: Channel, model: DeviceModel, layout: Layout, body: Bytes, begin: int) -> None:
        self.channel = channel
        pairs = list(zip(model.plans, layout.stages, strict=True))
        self._inputs = [buffers(p, p.program.inputs, letters(body, begin, stage.inputs)) for p, stage in pairs]
        self.outputs = [buffers(p, p.program.outputs, letters(body, begin, stage.outputs)) for p, stage in pairs]

    def write(self, stage: int, inputs: Sequence[Buffer]) -> None:
        for letter, array in zip(self._inputs[stage], inputs, strict=True):
            np.copyto(letter, array)


def _refuse_custom_ops(model: DeviceModel, board: str) -> None:
    """Raise UnsupportedError for a layer whose function is known to this process alone."""
    for plan in model.plans:
        for layer in plan.program.layers:
            if layer.op == "custom":
                raise UnsupportedError(
                    f"'{model.name}' has a custom op ({layer.name}), whose function is in this process and not in that "
                    "of the board",
                    where=board, hint="use a board with `runs: here`", code="custom-op-elsewhere",
                )  # fmt: skip
