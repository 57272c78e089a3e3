"""The frames of a source through a pipeline: (frame, result) of each, in the order of the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from axtool.runtime import profiler
from axtool.runtime.cv import frames_of
from axtool.runtime.op.combinators import as_operator
from axtool.runtime.op.operator import Operator
from axtool.runtime.scheduler.drive import Work, in_the_pool, in_this_thread
from axtool.runtime.scheduler.flow import waits_here
from axtool.runtime.scheduler.owner import Owner
from axtool.runtime.scheduler.route import Claim, Step, route_of, split

IN_FLIGHT = 4  # frames of one core that are begun and not yet handed out

Results = Generator[tuple[Any, Any], None, None]
_END = object()


def stream(
    owner: Owner,
    source: Any,
    pipeline: Operator,
    *,
    frame_callback: Callable[[Any], object] | None = None,
    split_at: str | None = None,
    max_in_flight: int | None = None,
    queue_depths: list[int] | None = None,
) -> Results:
    """What `Scheduler.stream` says. What is wrong with the arguments is raised at once, not with the first frame."""
    if owner.closed:
        raise owner.closed_error()
    if frame_callback is not None and not callable(frame_callback):
        raise TypeError(f"frame_callback is a {type(frame_callback).__name__}, want a function of a frame, or None")
    if queue_depths is not None and not hasattr(queue_depths, "append"):
        raise TypeError(f"queue_depths is a {type(queue_depths).__name__}, want a list to append to, or None")
    window = in_flight(owner, max_in_flight)
    whole = tail = as_operator(pipeline)
    prefix: tuple[Step, ...] = ()
    if split_at is not None:
        first, tail = split(whole, split_at)
        prefix = route_of(first).steps
    work = Work(route_of(tail), prefix, frame_callback)
    claim = Claim(route_of(whole).private)
    claim.check()
    pull = _Pull(frames_of(source), source, queue_depths)
    return _streamed(owner, pull, work, claim, 1 if waits_here(owner) else window)


def in_flight(owner: Owner, max_in_flight: int | None) -> int:
    """How many frames may be begun and not handed out. Raises ValueError for none, TypeError for no whole number."""
    if max_in_flight is None:
        return IN_FLIGHT * max(1, owner.core_count)
    if isinstance(max_in_flight, bool) or not isinstance(max_in_flight, int):
        raise TypeError(f"max_in_flight is a {type(max_in_flight).__name__}, want a whole number, or None")
    if max_in_flight < 1:
        raise ValueError(f"max_in_flight is {max_in_flight}, want at least 1")
    return max_in_flight


def _streamed(owner: Owner, pull: _Pull, work: Work, claim: Claim, window: int) -> Results:
    with ExitStack() as stack:
        stack.enter_context(claim)
        stack.callback(pull.close)
        here = window == 1 or waits_here(owner)
        done = in_this_thread(owner, pull, work) if here else in_the_pool(owner, pull, work, window)
        stack.callback(done.close)
        for frame in done:
            yield frame.given[0], frame.result()
            del frame


class _Pull:
    """The source, one frame at a time, timed for whoever looks. What the stream opened, it closes."""

    def __init__(self, frames: Iterable[Any], source: Any, depths: list[int] | None) -> None:
        self._frames, self._source, self._depths = frames, source, depths
        self._depth: Callable[[], int] | None = getattr(frames, "queue_depth", None)
        self._listen: Callable[[Callable[[], None] | None], None] | None = getattr(frames, "listen", None)
        self._iterator: Iterator[Any] | None = None

    def pull(self) -> tuple[Any, ...] | None:
        """The next frame, None at the end."""
        if self._iterator is None:
            self._iterator = iter(self._frames)
        watched = profiler.active()
        start = 0.0 if watched is None else time.perf_counter()
        value = next(self._iterator, _END)
        if value is _END:
            return None
        if watched is not None:
            watched.record_stage("source_pull", time.perf_counter() - start)
        if self._depths is not None and self._depth is not None:
            self._depths.append(self._depth())
        return (value,)

    def would_block(self) -> bool:
        """Whether the source says that it has no frame yet. Only one that says when it has is believed."""
        if self._listen is None or self._depth is None or self._depth() > 0:
            return False
        return not getattr(self._frames, "ended", False)

    def listen(self, callback: Callable[[], None] | None) -> bool:
        """Have the source call when it has a frame, or none follows; False where it cannot."""
        if self._listen is None or self._depth is None:
            return False
        self._listen(callback)
        return True

    def close(self) -> None:
        """End what reads the source, and the source too where the stream opened it."""
        for opened in (self._iterator, self._frames):
            close = getattr(opened, "close", None)
            if opened is not self._source and callable(close):
                close()
