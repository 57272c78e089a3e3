"""The seams of sources: `Reader`, what a stream reads; `Origin`, what a buffered source is filled from."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Reader(Protocol):
    """What gives one frame after another to a stream. Anything that can be iterated will do; this is all of it."""

    def __iter__(self) -> Iterator[Any]:
        """The frames from here on."""

    def queue_depth(self) -> int:
        """How many frames are decoded and wait to be taken."""

    def close(self) -> None:
        """Give back files, cameras and threads; who waits for a frame is told that there is none."""


@dataclass(frozen=True)
class SourceEvent:
    """What happened in a source. `kind` is one of

    - `opened`: the first frame is about to be read,
    - `dropped`: a live source gave a frame while the buffer was full; the oldest one is gone, `count` so far,
    - `damaged`: data that cannot be decoded were left out, `count` packets so far,
    - `ended`: the last frame is read, `count` of them,
    - `failed`: the source cannot go on; `text` says why.
    """

    kind: str
    source: str
    count: int = 0
    text: str = ""


@dataclass(frozen=True)
class Timed:
    """A frame, and when it is to be shown: seconds from the begin of the source, None where that is not known."""

    frame: Any
    time_s: Fraction | None = None


class Origin(Protocol):
    """An opened file, camera or address. `frames` is called once and run in one thread; `close` is for one that was
    never run. `fps` is in frames a second; `frame_count` is what the source itself says, None where it says nothing.
    """

    fps: Fraction | None
    frame_count: int | None
    damaged: int

    def frames(self) -> Generator[Timed, None, None]: ...

    def close(self) -> None: ...
