"""Words of a command line  ->  the sources of a stream, watched: when each frame was pulled, and how many.

Pictures that are named one by one are one source; each video, folder, camera and address is one of its own.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from axtool.errors import UsageError, plural
from axtool.inputs.images import is_image_name
from axtool.runtime import cv
from axtool.runtime.cv.address import Kind, address_of
from axtool.runtime.image import Image
from axtool.runtime.streams.words import VIDEOS

ARRAYS = (".npy", ".npz")


@dataclass
class Watched:
    """A source that says when its frames were pulled and ends behind `limit` of them. A `cv.Reader`.

    `kind` is 'pictures', 'video', 'camera' or 'network'; `short` a name for files; `place` what opens it again. A
    source that is `paced` gives its frames when it is time, others as fast as they are taken.
    """

    reader: cv.VideoSource
    kind: str
    short: str
    place: str
    limit: int | None = None
    paced: bool = False

    def __post_init__(self) -> None:
        self.pulled: deque[float] = deque()  # time.perf_counter() of each frame whose result is not out yet
        self.count = 0
        self.size: tuple[int, int] | None = None  # (width, height) of the last frame

    def __iter__(self) -> Iterator[Any]:
        frames = iter(self.reader)
        while self.limit is None or self.count < self.limit:
            frame = next(frames, None)
            if frame is None:
                return
            self.count += 1
            if isinstance(frame, Image):
                self.size = (frame.width, frame.height)
            self.pulled.append(time.perf_counter())
            yield frame

    @property
    def total(self) -> int | None:
        """How many frames will come, where that is known."""
        counts = [count for count in (self.reader.frame_count, self.limit) if count is not None]
        return None if self.reader.frame_count is None and not self.limit else min(counts)

    @property
    def fps(self) -> Fraction | None:
        return self.reader.fps

    def queue_depth(self) -> int:
        """Frames that are decoded and wait."""
        return self.reader.queue_depth()

    def listen(self, callback: Callable[[], None] | None) -> None:
        """Call back when a frame is ready, as the reader does."""
        self.reader.listen(callback)

    def close(self) -> None:
        """Give back what is open."""
        self.reader.close()


@dataclass(frozen=True)
class _Pictures:
    """Picture files in the order in which they were named."""

    files: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Image]:
        return (Image.from_file(file) for file in self.files)


def opened(items: Sequence[str], *, frames: int | None = None) -> list[Watched]:
    """Every source, opened, each to give at most so many `frames`. Raises UsageError for what is none, and
    EnvironmentFault for a camera or an address that does not answer; what is open by then is closed.
    """
    if not items:
        raise UsageError(
            "no input is given", hint="give a video, a folder, a camera, an address or pictures", code="missing-input"
        )
    found: list[Watched] = []
    listed = False
    pictures = [Path(item) for item in items if is_image_name(Path(item)) and not item.startswith("/dev/")]
    try:
        for item in items:
            if Path(item).suffix.lower() in ARRAYS:
                raise UsageError(
                    "arrays are run once, not as a stream", where=item,
                    hint="leave out the options of streams, or give a picture, a folder or a video",
                    code="not-a-stream",
                )  # fmt: skip
            named, equals, place = item.partition("=")
            if equals and "://" not in named and Path(place).exists() and not Path(item).exists():
                raise UsageError(
                    "inputs of a stream have no names", where=item, hint=f"say {place}: it feeds the one input",
                    code="not-a-stream",
                )  # fmt: skip
            if Path(item) in pictures and len(pictures) > 1:
                if not listed:
                    found.append(_listed(pictures, frames))
                listed = True
                continue
            address = address_of(item)
            reader = cv.create_source(item)
            kind = "pictures" if address.kind in (Kind.PICTURE, Kind.FOLDER) else str(address.kind)
            paced = reader.live or address.pace is not None
            found.append(Watched(reader, kind, _short(address.place, address.kind), address.place, frames, paced))
    except BaseException:
        for source in found:
            source.close()
        raise
    return found


def _listed(pictures: Sequence[Path], frames: int | None) -> Watched:
    for path in pictures:
        if not path.is_file():
            raise UsageError("no such file", where=str(path), hint="check the path", code="file-not-found")
    reader = cv.create_source(_Pictures(tuple(pictures)))
    reader.name = plural(len(pictures), "picture")
    return Watched(reader, "pictures", "pictures", str(pictures[0]), frames)


def _short(place: str, kind: Kind) -> str:
    """A name for files: of a path its stem, of an address its host and the end of its path, without .mp4."""
    if kind is Kind.NETWORK:
        rest = place.partition("://")[2].rpartition("@")[2].partition("?")[0]
        if Path(rest).suffix.lower() in VIDEOS:
            rest = rest[: -len(Path(rest).suffix)]
        return re.sub(r"[^\w.-]+", "-", rest).strip("-.") or "stream"
    path = Path(place)
    return (path.resolve().name if path.is_dir() else path.stem) or "stream"
