"""The board's side of `devices.remote`: a process that owns cores, runs what is loaded on them, and knows no names.

It is started with a control socket. Each core that somebody is connected to has channels, each of which carries one
frame at a time and has a thread: one computes, the others have their inputs there already. The process ends with the
control socket or with its parent, whatever computes; interrupts of the terminal are for the parent.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Sequence
from threading import Lock, Thread

import numpy as np

from axtool.runtime.devices.layout import Bytes, Layout, Pace, Range, StageLayout, letters, unpack, within
from axtool.runtime.devices.pacing import Lane
from axtool.runtime.devices.wire import Kind, Message, open_memory, receive_with_files, send
from axtool.sim.engine import Engine, open_engine

PARENT_S = 1.0  # how often the parent is looked for: a forked copy of its socket may outlive it


def main(words: Sequence[str]) -> None:
    """`words`: descriptor of the control socket, process number of the parent, the links that pace frames ('' none)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    links = {"": None, "duplex": Links(duplex=True), "simplex": Links(duplex=False)}[words[2]]
    serve(socket.socket(fileno=int(words[0])), int(words[1]), links)


def serve(control: socket.socket, parent: int, links: Links | None) -> None:
    """Answer until the other side is gone, then end the process."""
    cores: dict[int, Core] = {}
    control.settimeout(PARENT_S)
    try:
        send(control, Message(Kind.PING))
        while True:
            try:
                message, files = receive_with_files(control)
            except TimeoutError:
                if os.getppid() != parent:
                    break
                continue
            if message.kind == Kind.PING:
                send(control, message)
                continue
            core = cores.setdefault(message.stage, Core(links))
            if message.kind == Kind.OPEN:
                core.serve_on([socket.socket(fileno=file) for file in files])
            elif message.kind == Kind.DROP:
                core.drop(message.model)
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)  # threads that compute are not waited for


class Links:
    """Both directions between the host and the board: one transfer at a time in each, or in all."""

    def __init__(self, *, duplex: bool) -> None:
        self.to_board = Lane()
        self.back = Lane() if duplex else self.to_board


class Core:
    """One core: the model that is on it, and the threads of its channels."""

    def __init__(self, links: Links | None) -> None:
        self._links, self._lane = links, Lane()
        self._model: Loaded | None = None
        self._computing = Lock()

    def serve_on(self, channels: Sequence[socket.socket]) -> None:
        """Answer on these channels, the first of which speaks of the first mailbox, until they are closed."""
        for mailbox, channel in enumerate(channels):
            Thread(target=self._serve, args=(channel, mailbox), name=f"axtool channel {mailbox}", daemon=True).start()

    def drop(self, number: int) -> None:
        """Take a model off, if it is the one that is there. What computes still has its memory."""
        model = self._model
        if model is not None and model.number == number:
            self._model = None

    def _serve(self, channel: socket.socket, mailbox: int) -> None:
        try:
            while True:
                message, files = receive_with_files(channel)
                send(channel, self._answer(message, files, mailbox))
        except (EOFError, OSError):
            pass
        finally:
            channel.close()  # whatever went wrong here: the host sees the end, and does not wait

    def _answer(self, message: Message, files: Sequence[int], mailbox: int) -> Message:
        def told(kind: Kind, error: Exception) -> Message:
            return Message(kind, number=message.number, text=str(error))

        try:
            if message.kind == Kind.LOAD:
                return self._load(message, *files)
            model = self._model
            if model is None or model.number != message.model:
                return Message(Kind.GONE, number=message.number)
            return self._frame(message, model, mailbox)
        except ValueError as error:
            return told(Kind.WRONG, error)
        except MemoryError as error:
            return told(Kind.NO_MEMORY, error)
        except Exception as error:
            return told(Kind.FAILED, RuntimeError(f"{type(error).__name__}: {error}"))

    def _load(self, message: Message, file: int) -> Message:
        """`start` of the message is the modelled seconds on the link, `seconds` those on the core behind them."""
        begun = time.perf_counter()
        model = Loaded(message.model, *unpack(np.frombuffer(open_memory(file), np.uint8)))
        with self._computing:
            self._model = model
        if self._links is not None:
            _, there = self._links.to_board.reserve(begun, message.start)
            sleep_until(there + message.seconds)
        return Message(Kind.DONE, number=message.number, start=begun, seconds=time.perf_counter() - begun)

    def _frame(self, message: Message, model: Loaded, mailbox: int) -> Message:
        arrived = time.perf_counter()
        start, busy = arrived, 0.0
        if message.kind == Kind.FRAME:
            with self._computing:
                start = time.perf_counter()
                model.run(message.stage, mailbox)
                busy = time.perf_counter() - start
        if self._links is not None:
            start, busy = self._paced(model.layout.stages[message.stage].pace, arrived, busy)
        return Message(Kind.DONE, number=message.number, start=start, seconds=busy)

    def _paced(self, pace: Pace, arrived: float, computed_s: float) -> tuple[float, float]:
        """Wait until the host would have the outputs; when the core began, and how long it was taken."""
        assert self._links is not None
        _, there = self._links.to_board.reserve(arrived, pace.in_s)
        start, end = self._lane.reserve(there, max(pace.core_s, computed_s))
        _, back = self._links.back.reserve(end, pace.out_s)
        sleep_until(back)
        return start, end - start


class Loaded:
    """A model in memory that the host wrote: an engine over its own images for each stage."""

    def __init__(self, number: int, layout: Layout, body: Bytes) -> None:
        """Raises ValueError for commands that no engine may run."""
        self.number, self.layout = number, layout
        self._stages = [Stage(layout, stage, body) for stage in layout.stages]

    def run(self, stage: int, mailbox: int) -> None:
        """The inputs of a mailbox  ->  its outputs. One thread at a time."""
        self._stages[stage].run(mailbox)


class Stage:
    """An engine, the images that it runs over, and where the letters of each mailbox go."""

    def __init__(self, layout: Layout, stage: StageLayout, body: Bytes) -> None:
        layers, layer_offsets, commands, command_offsets = (within(body, rows).view(np.int64) for rows in stage.rows)
        self._images = {name: within(body, where) for name, where in stage.images.items()}
        self._engine: Engine = open_engine(
            layout.engine, layers, layer_offsets, commands, command_offsets,
            {name: where.size for name, where in stage.images.items()}, threads=layout.threads, isa=layout.isa,
        )  # fmt: skip
        self._engine.freeze(self._images["ext"], self._images["ocm"])
        ports = (stage.inputs, stage.outputs)
        inside = [[within(self._images[port.memory], Range(port.offset, port.size)) for port in some] for some in ports]
        boxes = [[letters(body, begin, some) for some in ports] for begin in layout.mailboxes]
        self._in = [list(zip(inside[0], box[0], strict=True)) for box in boxes]
        self._out = [list(zip(inside[1], box[1], strict=True)) for box in boxes]

    def run(self, mailbox: int) -> None:
        for place, letter in self._in[mailbox]:
            place[...] = letter
        self._engine.run(self._images["ext"], self._images["ocm"], None)
        for place, letter in self._out[mailbox]:
            letter[...] = place


def sleep_until(moment: float) -> None:
    """Return when `time.perf_counter()` is `moment` or later."""
    while (left := moment - time.perf_counter()) > 0:
        time.sleep(left)
