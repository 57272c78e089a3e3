"""What crosses between this process and a board in another one: small messages, and memory that both see.

Every message is a datagram of a Unix socket: it arrives whole, once and in order, and the end of either process shows
as the end of the socket. Memory is a file without a name, so that nothing is left of it when both are gone, however
they went.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
import struct
import sys
from dataclasses import dataclass
from enum import IntEnum

from axtool.errors import EnvironmentFault

LONGEST = 4096  # bytes of a datagram; texts are cut to what fits
MOST_FILES = 64  # descriptors that one message carries; the kernel takes 253
_HEAD = struct.Struct("<BxxxIQQdd")  # kind, stage, number, model, start, seconds


class Kind(IntEnum):
    """What a message asks or answers."""

    PING = 1  # either way, on the control socket: is the board there
    OPEN = 2  # on the control socket: core `stage` answers on the files, its channels, until they are closed
    LOAD = 3  # on a channel: the file is the memory of `model`, which the core takes in place of what it has
    DROP = 4  # on the control socket: `model` goes from core `stage`, if that has it still
    FRAME = 5  # on a channel: run `stage` of `model` over the channel's mailbox
    PACE = 6  # on a channel: take as long as a FRAME would, without computing
    DONE = 7  # answers: `start` is when the core began, `seconds` how long it was taken
    GONE = 8  # answers: the core has no such model any more
    WRONG = 9  # answers: a ValueError with this text
    NO_MEMORY = 10  # answers: a MemoryError
    FAILED = 11  # answers: any other exception, with its type in the text


@dataclass(frozen=True, slots=True)
class Message:
    """One datagram. `number` counts the questions of a channel; an answer has that of its question."""

    kind: Kind
    stage: int = 0
    number: int = 0
    model: int = 0
    start: float = 0.0  # time.perf_counter() of the machine, which its processes share
    seconds: float = 0.0
    text: str = ""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a socket of datagrams. Raises EnvironmentFault where the system has none."""
    if not hasattr(socket, "SOCK_SEQPACKET") or not hasattr(os, "memfd_create"):
        raise EnvironmentFault(
            f"boards in a process of their own need Linux, this is {sys.platform}",
            hint="set `runs: here` in the board's file", code="no-board-process",
        )  # fmt: skip
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise _no_room("a socket to a board's process", error) from error


def send(to: socket.socket, message: Message, files: tuple[int, ...] = ()) -> None:
    """Send a message; the other side gets descriptors of its own for the files. Raises OSError where it is gone."""
    head = _HEAD.pack(message.kind, message.stage, message.number, message.model, message.start, message.seconds)
    data = head + message.text.encode("utf-8", "replace")[: LONGEST - _HEAD.size] if message.text else head
    if files:
        socket.send_fds(to, [data], files, socket.MSG_NOSIGNAL)
    else:
        to.send(data, socket.MSG_NOSIGNAL)


def receive(source: socket.socket) -> Message:
    """The next message, of those without files. Raises EOFError or OSError where the other side is gone."""
    return _message(source.recv(LONGEST))


def receive_with_files(source: socket.socket) -> tuple[Message, list[int]]:
    """The next message, and the descriptors that it brings: they are the receiver's to close."""
    data, files, _, _ = socket.recv_fds(source, LONGEST, MOST_FILES)
    return _message(data), files


def _message(data: bytes) -> Message:
    if not data:
        raise EOFError("the other process has closed the socket")
    kind, stage, number, model, start, seconds = _HEAD.unpack_from(data)
    text = data[_HEAD.size :].decode("utf-8", "replace") if len(data) > _HEAD.size else ""
    return Message(Kind(kind), stage, number, model, start, seconds, text)


def new_memory(name: str, size: int) -> tuple[mmap.mmap, int]:
    """Zeros that another process can see, and their descriptor. Raises EnvironmentFault where there is no room."""
    what = f"{size:,} bytes that a board's process shares"
    try:
        file = os.memfd_create(name, os.MFD_CLOEXEC)
    except OSError as error:
        raise _no_room(what, error) from error
    try:
        os.posix_fallocate(file, 0, size)  # a full memory is said here, and is no SIGBUS at some later write
        return mmap.mmap(file, size), file
    except OSError as error:
        os.close(file)
        raise _no_room(what, error) from error


def open_memory(file: int) -> mmap.mmap:
    """The memory behind a descriptor, which is closed: the memory lives as long as somebody looks at it."""
    try:
        return mmap.mmap(file, os.fstat(file).st_size)
    finally:
        os.close(file)


def _no_room(what: str, error: OSError) -> EnvironmentFault:
    files = error.errno in (errno.EMFILE, errno.ENFILE)
    return EnvironmentFault(
        f"no room for {what}: {error.strerror}",
        hint="let the process open more files (ulimit -n), or use fewer cores"
        if files
        else "free memory, or use fewer cores or smaller models",
        code="too-many-files" if files else "no-memory",
    )
