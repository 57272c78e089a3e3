"""`create_source`: a path, a camera, a URL or an iterable  ->  a `VideoSource`, which reads ahead in its own thread."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from axtool.errors import EnvironmentFault, UsageError, nearest, plural
from axtool.runtime import geometry
from axtool.runtime.cv.address import Address, Kind, Pace, address_of
from axtool.runtime.cv.feed import END, Feed
from axtool.runtime.cv.pacing import paced
from axtool.runtime.cv.pictures import Given, Pictures
from axtool.runtime.cv.reader import Origin, SourceEvent

log = logging.getLogger("axtool")

BUFFER_SIZE = 30  # frames that are decoded ahead
TIMEOUT_S = 10.0  # for a live source that sends nothing
MOST_TIMEOUT_S = 1_000_000  # eleven days: FFmpeg and the system count time in whole numbers
_CLOSE_S = 2.0  # for a thread that hangs in its source
_ABANDON_S = 0.5  # the same where nobody asked: the collector or the end of the program
_BACKENDS = ("ffmpeg", "opencv")

EventCallback = Callable[[SourceEvent], Any]


class VideoSource:
    """Frames one by one, decoded ahead by a thread of its own; a `Reader`, made by `create_source`.

    A live source drops the oldest frame when its buffer is full and counts it in `dropped`; any other waits. It is
    read once: a file that is to be read again is opened again. Frames are `Image` objects in RGB; those of an iterable
    are what it gave. It closes itself behind its last frame, and when nobody holds it any more.
    """

    def __init__(
        self, origin: Origin, name: str, feed: Feed, pace: Pace, notify: EventCallback, timeout_s: float
    ) -> None:
        self.name, self.live = name, feed.live
        self._origin, self._feed, self._pace, self._notify = origin, feed, pace, notify
        slow_s = float(1 / pace) if isinstance(pace, Fraction) else 0.0
        self._timeout_s = timeout_s + slow_s if feed.live else None
        self._finalizer = weakref.finalize(self, _abandon, feed, origin)

    @property
    def fps(self) -> Fraction | None:
        """Frames a second, exactly: of the pace where one is given, else of the video; None where nothing says it."""
        return self._pace if isinstance(self._pace, Fraction) else self._origin.fps

    @property
    def frame_count(self) -> int | None:
        """How many frames there are, as the file says or from its length and rate; None for a live source."""
        return None if self.live else self._origin.frame_count

    @property
    def dropped(self) -> int:
        """Frames of a live source that nobody took in time."""
        return self._feed.dropped

    @property
    def damaged(self) -> int:
        """Packets that could not be decoded and were left out."""
        return self._origin.damaged

    @property
    def ended(self) -> bool:
        """Whether no frame follows: the last was taken, or the source is closed."""
        return self._feed.closed.is_set() or self._feed.over

    def queue_depth(self) -> int:
        """How many frames are decoded and wait to be taken."""
        return self._feed.depth()

    def listen(self, callback: Callable[[], None] | None) -> None:
        """Have `callback` called whenever the next frame can be taken without waiting, and when there is none: by the
        thread that reads, at once if it is so now. It has to be quick. None ends that.
        """
        self._feed.on_change = callback
        if callback is not None and (self.queue_depth() or self.ended):
            callback()

    def check(self) -> None:
        """Raise UsageError where no frame follows."""
        if self.ended:
            raise UsageError(
                "this source is closed or has given its last frame", where=self.name,
                hint="open it again with create_source", code="source-ended",
            )  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        """The frames from here on. Raises UsageError where none follows."""
        self.check()
        self._start()
        return self

    def __next__(self) -> Any:
        self._start()
        try:
            frame = self._feed.get(self._timeout_s)
        except TimeoutError:
            raise EnvironmentFault(
                f"no frame came for {self._timeout_s:g} s", where=self.name,
                hint="check that it still sends; cv.create_source(timeout_s=...) waits longer", code="source-silent",
            ) from None  # fmt: skip
        if frame is END:
            raise StopIteration
        return frame

    def close(self) -> None:
        """Give back the file, the camera and the thread; who waits for a frame is told that there is none.

        A thread that hangs in its source is waited for 2 s, then left to end by itself.
        """
        if self._finalizer.detach() is None:
            return
        if not self._feed.close(_CLOSE_S):
            log.warning("%s does not answer; it is left to close by itself", self.name)
        if not self._feed.started:
            self._origin.close()

    def __enter__(self) -> VideoSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        rate = f", {float(self.fps):.6g} fps" if self.fps else ""
        count = f", {plural(self.frame_count, 'frame')}" if self.frame_count is not None else ""
        return f"VideoSource({self.name!r}{rate}{count}{', live' if self.live else ''})"

    def _start(self) -> None:
        """Begin to read ahead, the first time that a frame is wanted."""
        if self._feed.started or self._feed.closed.is_set():
            return
        origin, feed, pace, notify, name = self._origin, self._feed, self._pace, self._notify, self.name
        self._feed.start(lambda: _read(origin, feed, pace, notify, name), f"source {name}"[:60])


def create_source(
    input_path: str | Path | Iterable[Any],
    event_callback: EventCallback | None = None,
    buffer_size: int = BUFFER_SIZE,
    backend: Literal["ffmpeg", "opencv"] = "ffmpeg",
    live_source: bool | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> VideoSource:
    """Open a picture, a folder of pictures, a video file, a camera (/dev/video0), a URL or an iterable of frames.

    `video.mp4@30` gives 30 frames a second, `video.mp4@auto` as many as the video; without, frames come as fast as they
    are taken. `live_source` says whether frames are dropped when the buffer of `buffer_size` is full; None finds out:
    cameras and rtsp, rtp, rtmp, srt, udp, tcp and mjpeg addresses do. `event_callback` is called with a `SourceEvent`,
    in the thread that reads. A live source that sends nothing for `timeout_s` seconds is an error.

    Raises UsageError for what is no source, EnvironmentFault for a camera or an address that does not answer,
    ValueError and TypeError for arguments that are none.
    """
    if not isinstance(buffer_size, int) or buffer_size < 1:
        raise ValueError(f"buffer_size is {buffer_size!r}, want at least 1 frame")
    if backend not in _BACKENDS:
        raise ValueError(f"there is no backend '{backend}'; {nearest(str(backend), _BACKENDS)}")
    if event_callback is not None and not callable(event_callback):
        raise TypeError(f"event_callback is {type(event_callback).__name__}, want a function of one SourceEvent")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
        raise TypeError(f"timeout_s is a {type(timeout_s).__name__}, want seconds")
    if not 0 < timeout_s <= MOST_TIMEOUT_S:
        raise ValueError(f"timeout_s is {timeout_s!r}, want more than 0 and at most {MOST_TIMEOUT_S:,} seconds")
    notify = event_callback or _ignore
    if isinstance(input_path, (str, Path)):
        address = address_of(str(input_path))
        origin, live = _open(address, backend, timeout_s)
        name, pace = address.shown, address.pace
        if pace == "auto" and origin.fps is None:
            origin.close()
            raise UsageError("the video does not say its rate", where=name, hint="say @30", code="bad-option")
    else:
        _refuse_no_source(input_path)
        origin, live, name, pace = Given(input_path), False, type(input_path).__name__, None
    live = live if live_source is None else bool(live_source)
    feed = Feed(buffer_size, live=live, on_drop=lambda count: notify(SourceEvent("dropped", name, count)))
    source = VideoSource(origin, name, feed, pace, notify, timeout_s)
    if live:
        source._start()  # what a camera shows now is not to wait in its driver until somebody asks
    return source


def frames_of(source: Any) -> Iterable[Any]:
    """The frames of what a stream is given: a path or a URL is opened; a reader, or whatever gives frames, is itself.

    Raises TypeError for what gives none, UsageError for a path that cannot be read and a source that is at its end.
    """
    if isinstance(source, (str, Path)):
        return create_source(source)
    _refuse_no_source(source)
    if isinstance(source, VideoSource):
        source.check()
    frames: Iterable[Any] = source
    return frames


def _refuse_no_source(source: Any) -> None:
    picture = not isinstance(source, (tuple, list)) and geometry.size_of(source) is not None
    if picture or not isinstance(source, Iterable) or isinstance(source, (bytes, bytearray, dict)):
        raise TypeError(
            f"a stream reads a path, a URL or what gives frames one by one, got {type(source).__name__}; "
            "call the pipeline for a single picture"
        )


def _open(address: Address, backend: str, timeout_s: float) -> tuple[Origin, bool]:
    """(what frames come from, whether they are live)"""
    if address.kind in (Kind.PICTURE, Kind.FOLDER):
        return Pictures(Path(address.place)), False
    if backend == "opencv":
        from axtool.runtime.cv.opencv import Capture

        capture = Capture(address, timeout_s)
        return capture, capture.live
    from axtool.runtime.cv.video import Video

    video = Video(address, timeout_s)
    return video, video.live


def _read(origin: Origin, feed: Feed, pace: Pace, notify: EventCallback, name: str) -> Iterator[Any]:
    """What the thread of a source runs."""
    notify(SourceEvent("opened", name))
    given = damaged = 0
    try:
        with closing(origin.frames()) as frames:
            for timed in frames if pace is None else paced(frames, pace, origin.fps, feed.closed.wait):
                given += 1
                if origin.damaged != damaged:
                    damaged = origin.damaged
                    notify(SourceEvent("damaged", name, damaged))
                yield timed.frame
    except Exception as error:
        notify(SourceEvent("failed", name, given, str(error)))
        raise
    if origin.damaged:
        log.warning("%s: %s left out that could not be decoded", name, plural(origin.damaged, "packet"))
    notify(SourceEvent("ended", name, given))


def _abandon(feed: Feed, origin: Origin) -> None:
    """Close a source that nobody holds any more, or at the end of the program."""
    feed.close(_ABANDON_S)
    if not feed.started:
        origin.close()


def _ignore(_: SourceEvent) -> None:
    """For sources whose events nobody wants."""
