"""Frames that are all known beforehand through a pipeline: their results, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Any

from axtool.runtime import geometry
from axtool.runtime.op.combinators import as_operator
from axtool.runtime.op.operator import Operator
from axtool.runtime.scheduler.drive import Work, in_the_pool, in_this_thread
from axtool.runtime.scheduler.flow import waits_here
from axtool.runtime.scheduler.owner import Owner
from axtool.runtime.scheduler.route import route_of
from axtool.runtime.scheduler.spread import spread
from axtool.runtime.scheduler.stream import in_flight


def batch(owner: Owner, pipeline: Operator, inputs: Sequence[Any]) -> list[Any]:
    """What `Scheduler.batch` says. Each input is one argument of the pipeline for all frames: a list of values, or an
    array of them along its first axis; single pictures are the frames themselves.
    """
    if owner.closed:
        raise owner.closed_error()
    whole = as_operator(pipeline)
    work = Work(route_of(whole))
    feed = _Listed(_frames(inputs))
    if not len(feed):
        return []
    window = min(in_flight(owner, None), len(feed))
    here = window == 1 or waits_here(owner)
    with closing(in_this_thread(owner, feed, work) if here else in_the_pool(owner, feed, work, window)) as done:
        results = [next(done).result()]  # its model is on a core now, which says what a frame of it takes
        with nullcontext() if here else spread(owner, whole, len(feed) - 1):
            results += (frame.result() for frame in done)
        return results


class _Listed:
    """Frames that are all here."""

    def __init__(self, frames: Sequence[tuple[Any, ...]]) -> None:
        self._frames = frames
        self._next: Iterator[tuple[Any, ...]] = iter(frames)

    def __len__(self) -> int:
        return len(self._frames)

    def pull(self) -> tuple[Any, ...] | None:
        """The next frame, None at the end."""
        return next(self._next, None)

    def would_block(self) -> bool:
        """Never: all are here."""
        return False

    def listen(self, callback: Callable[[], None] | None) -> bool:
        """There is nothing to wait for."""
        return False


def _frames(inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The arguments of each frame. Raises ValueError where there are more of one than of another, TypeError for what
    is no list of values.
    """
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, (tuple, list)):
        raise TypeError(f"batch wants a tuple with one list or array for each argument, got {type(inputs).__name__}")
    if not inputs:
        return []
    pictures = all(_is_picture(value) for value in inputs)
    columns = [inputs] if pictures else [_column(value) for value in inputs]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(f"batch: the arguments have {', '.join(map(str, counts))} frames; want as many of each")
    return list(zip(*columns, strict=True))


def _column(value: Any) -> Any:
    """The values of one argument for all frames. Raises TypeError for what is no list of them."""
    if _is_picture(value) or not (isinstance(value, (list, tuple)) or getattr(value, "shape", None)):
        raise TypeError(
            "batch wants the values of an argument for all frames, as a list or as one array along its first axis; "
            f"got {'one picture' if _is_picture(value) else type(value).__name__}"
        )
    return value


def _is_picture(value: Any) -> bool:
    return not isinstance(value, (tuple, list)) and geometry.size_of(value) is not None
