"""`Feed`: a thread that reads ahead into a bounded buffer. A live source drops the oldest frame, a file waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar, Final

from axtool.runtime.image import Image

MOST_BYTES = 1 << 30  # of the frames in all buffers: thirty of each of 64 cameras would be 12 GB
END: Final = object()  # what `get` gives behind the last frame


class Feed:
    """The frames between the thread that decodes and the one that takes them.

    `size` frames are held at most, or what is this one's share of `MOST_BYTES` beside the others that are read now, but
    one always. The thread knows the feed and not the
    source, so that a source that nobody holds any more can end it. `on_change` is called without a lock whenever a
    frame is there to take, and when none will follow.
    """

    _reading: ClassVar[int] = 0  # feeds whose threads run
    _counting: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, size: int, *, live: bool, on_drop: Callable[[int], None] | None = None) -> None:
        self.size, self.live, self.dropped = size, live, 0
        self.closed = threading.Event()
        self._on_drop = on_drop
        self.on_change: Callable[[], None] | None = None
        self._changed = threading.Condition()
        self._frames: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._error: BaseException | None = None
        self._starting = threading.RLock()  # a signal handler may close what is being started
        self._thread: threading.Thread | None = None

    def start(self, frames: Callable[[], Iterator[Any]], name: str) -> None:
        """Begin to read ahead, the first time that it is asked for, unless the feed is closed."""
        with self._starting:
            if self._thread is None and not self.closed.is_set():
                thread = threading.Thread(target=self._fill, args=(frames,), name=name, daemon=True)
                thread.start()
                self._thread = thread

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def over(self) -> bool:
        """Whether there is nothing left to take, nor will be."""
        with self._changed:
            return self._ended and not self._frames and self._error is None

    def depth(self) -> int:
        """Frames that wait to be taken."""
        return len(self._frames)

    def get(self, timeout_s: float | None = None) -> Any:
        """The oldest frame, or END. Raises what the source raised, once, behind its frames; TimeoutError where none
        comes in time.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not self._frames:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                if self._ended or self.closed.is_set():
                    return END
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._changed.wait(left)
            frame, size = self._frames.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return frame

    def close(self, patience_s: float) -> bool:
        """End the thread and drop what is buffered. False where the thread still hangs in its source after that time;
        it ends by itself when the source answers.
        """
        with self._starting:
            self.closed.set()  # from here on no thread is started
        with self._changed:
            self._frames.clear()
            self._bytes, self._error = 0, None
            self._changed.notify_all()
        self._tell()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(patience_s)
        return not thread.is_alive()

    def _fill(self, frames: Callable[[], Iterator[Any]]) -> None:
        error: BaseException | None = None
        with Feed._counting:
            Feed._reading += 1
        try:
            taken = frames()
            try:
                for frame in taken:
                    if not self._put(frame):
                        break
            finally:
                if isinstance(taken, Generator):
                    taken.close()  # files and cameras are given back here, not when the collector comes by
        except BaseException as caught:
            error = caught
        with Feed._counting:
            Feed._reading -= 1
        with self._changed:
            self._ended = True
            self._error = None if self.closed.is_set() else error
            self._changed.notify_all()
        self._tell()

    def _put(self, frame: Any) -> bool:
        """Whether another frame is wanted."""
        size = _bytes_of(frame)
        dropped = 0
        with self._changed:
            while not self.closed.is_set() and self._full(size):
                if self.live:
                    self._bytes -= self._frames.popleft()[1]
                    self.dropped += 1
                    dropped = self.dropped
                else:
                    self._changed.wait()
            if self.closed.is_set():
                return False
            self._frames.append((frame, size))
            self._bytes += size
            self._changed.notify_all()
        if dropped and self._on_drop is not None:
            self._on_drop(dropped)
        self._tell()
        return True

    def _tell(self) -> None:
        if (told := self.on_change) is not None:
            told()

    def _full(self, size: int) -> bool:
        share = MOST_BYTES // max(1, Feed._reading)
        return bool(self._frames) and (len(self._frames) >= self.size or self._bytes + size > share)


def _bytes_of(frame: Any) -> int:
    pixels = frame.to_numpy() if isinstance(frame, Image) else frame
    size = getattr(pixels, "nbytes", 0)
    return size if isinstance(size, int) else 0
