"""What a process holds before a block and after it: threads, files, shared memory, cores. Nothing may be left."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SHARED = Path("/dev/shm")
FILES = Path("/proc/self/fd")


@dataclass(frozen=True)
class Held:
    """A snapshot. `cores` are those of this process's boards that somebody is connected to."""

    threads: frozenset[threading.Thread]
    files: frozenset[str]
    shared: frozenset[str]
    cores: int

    @classmethod
    def now(cls) -> Held:
        """What this process holds."""
        return cls(frozenset(threading.enumerate()), _open_files(), _segments(), cores_taken())

    def beyond(self, before: Held) -> list[str]:
        """What there is more than before, in words."""
        threads = [f"thread {thread.name}" for thread in self.threads - before.threads]
        shared = [f"shared memory {name}" for name in self.shared - before.shared]
        files = [f"open file {name}" for name in sorted(self.files - before.files)]
        cores = [f"{self.cores - before.cores} cores taken"] if self.cores > before.cores else []
        return threads + shared + files + cores


@contextmanager
def nothing_left(patience_s: float = 10.0) -> Iterator[None]:
    """Raises AssertionError naming what the block has left behind `patience_s` after its end, whatever it raised."""
    before = Held.now()
    try:
        yield
    finally:
        end = time.monotonic() + patience_s
        while (left := Held.now().beyond(before)) and time.monotonic() < end:
            gc.collect()  # a cycle may be all that keeps it
            time.sleep(0.01)
        assert not left, f"left behind: {', '.join(left)}\n{_stacks(before)}"


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cores_taken() -> int:
    """Cores of the boards that this process sees that a connection has."""
    from axtool.runtime.devices import machine

    return sum(board.info.cores - board.available() for board in machine.devices())


def _open_files() -> frozenset[str]:
    """The number of each file descriptor and what is behind it."""
    found = set()
    if FILES.is_dir():
        for entry in FILES.iterdir():
            with suppress(OSError):  # the one that lists the folder is closed again
                found.add(f"{entry.name}: {os.readlink(entry)}")
    return frozenset(found)


def _segments() -> frozenset[str]:
    """The segments that this process made: their names carry its number, those of others do not concern it."""
    if not SHARED.is_dir():
        return frozenset()
    return frozenset(entry.name for entry in SHARED.iterdir() if f"-{os.getpid()}-" in entry.name)


def _stacks(before: Held) -> str:
    """Where the threads that are left stand."""
    frames = sys._current_frames()
    left = [thread for thread in threading.enumerate() if thread not in before.threads]
    return "\n".join(
        f"{thread.name}:\n{''.join(traceback.format_stack(frames[thread.ident]))}"
        for thread in left
        if thread.ident in frames
    )
