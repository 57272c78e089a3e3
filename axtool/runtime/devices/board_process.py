"""The process of a board, seen from here: started, asked, watched, and gone when it should be.

A process that ends shows at once, as the end of its sockets. One that lives and does not answer (stopped, or in a loop
that holds everything) is found by pings and given up: nothing here waits for ever.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock, Thread

from axtool.errors import EnvironmentFault
from axtool.processes import without_interrupts
from axtool.runtime.devices.wire import Kind, Message, pair, receive, send

START_S = 60.0  # for a fresh interpreter on a machine that has a lot to do
WAIT_S = 1.0  # from one look at a silent process to the next
SILENT_LOOKS = 10  # without an answer, one each WAIT_S: then the process is given up
END_S = 2.0  # for the process to end by itself

_START = "import sys; sys.path[:] = {path!r}; from axtool.runtime.devices.server import main; main(sys.argv[1:])"


class BoardGone(Exception):
    """The process is no longer there, or no longer answers; the text says which."""


class BoardProcess:
    """A running board. Safe to use from several threads."""

    def __init__(self, name: str, links: str = "") -> None:
        """Start it and wait until it answers. `links`: duplex or simplex where frames are paced.

        Raises EnvironmentFault where it cannot be started.
        """
        self._control, theirs = pair()
        try:
            self._process = _started(name, theirs, links)
        except OSError as error:
            self._control.close()
            raise EnvironmentFault(
                f"the process of board {name} cannot be started: {error.strerror}",
                hint="`runs: here` in the board's file needs none", code="no-board-process",
            ) from error  # fmt: skip
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        self.number = self._process.pid
        self._owner = os.getpid()
        self._lock = Lock()  # of the control socket
        self._ending = Lock()
        self._end = weakref.finalize(self, _end, self._control, self._lock, self._process, self._owner)
        self._silent = 0
        self._heard = time.monotonic()
        self._gone = ""
        self._control.settimeout(START_S)
        try:
            receive(self._control)
        except (EOFError, OSError) as error:
            self.end()
            silent = isinstance(error, TimeoutError)
            how = f"did not answer within {START_S:g} s" if silent else f"ended with code {self._process.returncode}"
            raise EnvironmentFault(
                f"the process of board {name} {how}, before it was ready",
                hint="what it wrote to the error output says why; `runs: here` in the board's file needs no process",
                code="no-board-process",
            ) from error
        except BaseException:
            self.end()
            raise
        self._control.settimeout(WAIT_S)

    def open_channels(self, core: int, count: int) -> list[Channel]:
        """So many channels to a core. Raises BoardGone, EnvironmentFault."""
        ours, theirs = [], []
        try:
            for _ in range(count):
                mine, other = pair()
                ours.append(mine)
                theirs.append(other)
            self.tell(Message(Kind.OPEN, stage=core), [end.fileno() for end in theirs])
        except BaseException:
            for end in ours:
                end.close()
            raise
        finally:
            for end in theirs:
                end.close()
        return [Channel(self, end) for end in ours]

    def tell(self, message: Message, files: Sequence[int] = ()) -> None:
        """Send on the control socket; nothing is answered. Raises BoardGone."""
        try:
            with self._lock:
                send(self._control, message, tuple(files))
        except OSError as error:
            raise self.gone() from error

    def look(self) -> None:
        """Called by whoever has waited WAIT_S for an answer. Raises BoardGone when the process must be given up."""
        with self._lock:
            if self._gone:
                raise BoardGone(self._gone)
            if time.monotonic() - self._heard < WAIT_S:
                return  # somebody else has just looked
            try:
                send(self._control, Message(Kind.PING))
                receive(self._control)
                self._silent = 0
            except TimeoutError:
                self._silent += 1
            except (EOFError, OSError):
                self._silent = SILENT_LOOKS
            self._heard = time.monotonic()
            given_up = self._silent >= SILENT_LOOKS
        if given_up:
            raise self.gone()

    def gone(self) -> BoardGone:
        """End the process for good, if it has not ended. The error to raise says how it went."""
        with self._ending:
            if not self._gone:
                if self._ended_within(END_S):
                    code = self._process.returncode or 0
                    how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
                else:
                    how = f"has not answered for {SILENT_LOOKS * WAIT_S:g} s"
                    self.kill()
                self._gone = f"process {self.number} {how}"
        self.end()
        return BoardGone(self._gone)

    def is_ours(self) -> bool:
        """Whether this is the process that started it, and no forked child of that."""
        return os.getpid() == self._owner

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether it is gone, or has been given up. The sockets of a process end a moment before it does."""
        return bool(self._gone) or (self.is_ours() and self._ended_within(wait_s))

    def kill(self) -> None:
        """At once, as when a board is pulled out."""
        if self.is_ours():
            self._process.kill()

    def end(self) -> None:
        """Bounded by a few seconds. Idempotent. In a forked child it does nothing: the process is the parent's."""
        self._end()

    def _ended_within(self, wait_s: float) -> bool:
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class Channel:
    """Questions to one core and their answers, one at a time: by whoever holds `lock`."""

    def __init__(self, process: BoardProcess, end: socket.socket) -> None:
        self._process, self._socket = process, end
        self._number = 0
        self.lock = Lock()
        end.settimeout(WAIT_S)

    def ask(self, message: Message, files: Sequence[int] = ()) -> Message:
        """The answer. The caller holds `lock`. Raises BoardGone where none comes.

        A question whose asker was interrupted is answered, too; the next asker drops that answer.
        """
        self._number += 1
        try:
            send(self._socket, replace(message, number=self._number), tuple(files))
            while True:
                try:
                    answer = receive(self._socket)
                except TimeoutError:
                    self._process.look()
                    continue
                if answer.number == self._number:
                    return answer
        except (EOFError, OSError) as error:
            raise BoardGone("the connection to the core is closed") from error

    def hang_up(self) -> None:
        """Nothing is answered any more, and whoever waits for an answer finds out at once."""
        if self._process.is_ours():  # a forked child's copy that is shut down is shut down for the parent
            with suppress(OSError):  # the other side was first
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and give the socket back when nobody uses it. The caller does not hold `lock`."""
        if self._process.is_ours():
            self.hang_up()
            with self.lock:
                self._socket.close()


def _started(name: str, control: socket.socket, links: str) -> subprocess.Popen[bytes]:
    """A fresh interpreter with the modules of this one; a forked one would inherit locks that nobody holds.

    A thread starts it: what Ctrl-C raises, it raises in the main thread, and never between a new process and the only
    place that knows its number. Raises OSError.
    """
    code = _START.format(path=[os.path.abspath(entry) for entry in sys.path])
    words = [str(control.fileno()), str(os.getpid()), links, f"axtool board {name}"]
    made: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []

    def start() -> None:
        try:
            with without_interrupts():
                made.append(
                    subprocess.Popen(
                        [sys.executable, "-I", "-c", code, *words],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=[control.fileno()],
                        start_new_session=True,
                    )
                )
        except OSError as error:
            failed.append(error)

    starting = Thread(target=start, name=f"axtool starts board {name}", daemon=True)
    try:
        starting.start()
        starting.join()
    except BaseException:
        starting.join()
        for process in made:
            process.kill()
            process.wait()
        raise
    if failed:
        raise failed[0]
    return made[0]


def _end(control: socket.socket, using: Lock, process: subprocess.Popen[bytes], owner: int) -> None:
    """The process ends with the socket; one that does not is killed."""
    if os.getpid() != owner:
        control.close()
        return
    with suppress(OSError):  # it has ended
        control.shutdown(socket.SHUT_RDWR)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with using:  # the number of a closed socket may be another file's the next moment
        control.close()
