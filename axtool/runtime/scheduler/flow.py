"""Frames through the steps of a pipeline: each in a thread of a pool, several at a time, results in order.

A frame that comes to a span of steps before its turn leaves its thread to others, and goes on when the frame before
has left the span. So no thread of the pool ever waits for a frame, and pools of any size make progress.
"""

from __future__ import annotations

import logging
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from axtool.errors import AxError
from axtool.runtime import geometry, profiler
from axtool.runtime.op.combinators import arguments
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.scheduler.owner import PATIENCE_S, Owner
from axtool.runtime.scheduler.route import Span, Step

_OWNERS: ContextVar[tuple[int, ...]] = ContextVar("owners", default=())  # pools that wait for what runs here, by id

log = logging.getLogger("axtool")


class Frame:
    """One frame on its way. `done` is locked until it has a result or an error; its context holds its geometry."""

    __slots__ = ("at", "context", "done", "error", "finished", "given", "index", "running", "values")

    def __init__(self, index: int, given: tuple[Any, ...], context: Context) -> None:
        self.index, self.given, self.context = index, given, context
        self.values, self.at = given, 0
        self.error: BaseException | None = None
        self.running = self.finished = False
        self.done = allocate_lock()
        self.done.acquire()
        context.run(_begin, index, given)

    def result(self) -> Any:
        """What the last step returned. Raises what went wrong instead, once."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this call, which would hold it for ever
        return self.values[0] if len(self.values) == 1 else Unpacked(self.values)


def _begin(index: int, given: tuple[Any, ...]) -> None:
    geometry.begin(given[0] if given else None)
    if profiler.active() is not None:
        profiler.number_frame(index)


class FrameFailed(AxError, RuntimeError):
    """A frame of a stream failed by what the user can mend: its exit code, code and hint are those of the cause."""

    def __init__(self, text: str, cause: AxError) -> None:
        super().__init__(text, hint=cause.hint, code=cause.code, details=cause.details)
        self.exit = cause.exit


class _Turnstile:
    """Whose turn a span is, and who has come before it.

    Without a lock: a dictionary gives a frame that waits to exactly one of the thread that brought it and the thread
    that makes it its turn.
    """

    __slots__ = ("turn", "waiting")

    def __init__(self) -> None:
        self.turn = 0
        self.waiting: dict[int, Frame] = {}

    def admits(self, frame: Frame) -> bool:
        """Whether the frame may go on in this thread; if not, it is kept, and `passed` gives it out."""
        self.waiting[frame.index] = frame
        return self.turn == frame.index and self.waiting.pop(frame.index, None) is not None

    def passed(self, frame: Frame) -> Frame | None:
        """The next frame's turn; that frame where it has come already."""
        self.turn = frame.index + 1
        return self.waiting.pop(frame.index + 1, None)


class Flow:
    """Frames 0, 1, … through steps, in a pool. Behind a frame that failed no step is begun any more."""

    def __init__(self, owner: Owner, steps: Sequence[Step], spans: Sequence[Span]) -> None:
        self._submit, self._owner = owner.workers.submit, owner
        enter: dict[int, _Turnstile] = {}
        leave: dict[int, _Turnstile] = {}
        for first, last in spans:
            enter[first] = leave[last] = _Turnstile()
        self._steps = tuple((step, enter.get(at), leave.get(at)) for at, step in enumerate(steps))
        self._ready: deque[Frame] = deque()  # whose next step may be begun: those that are further first
        self._pending: deque[Frame] = deque()  # begun and not handed out, in order
        self._bell = allocate_lock()
        self.rings = False  # whether a frame that is done does so
        self._left = False
        self._limit = float("inf")  # the index of the first frame that failed, so far
        owner.closers.add(self.abandon)

    def __len__(self) -> int:
        """How many frames are begun and not handed out."""
        return len(self._pending)

    @property
    def failed(self) -> bool:
        """Whether a frame has failed, so that no further one will be handed out."""
        return self._limit < float("inf")

    def begin(self, frame: Frame) -> None:
        """Let a thread of the pool run a frame. Frames come in order; one that has failed already only waits for it."""
        self._pending.append(frame)
        if frame.error is not None:
            self._finish(frame)
        else:
            self._ready.append(frame)
            self._go_on()

    def ready(self) -> bool:
        """Whether the oldest frame can be had without waiting."""
        return bool(self._pending) and not self._pending[0].done.locked()

    def wait(self, seconds: float) -> None:
        """Until a frame is done or `ring` is called, or was since the last time; no longer than so many seconds."""
        self._bell.acquire(timeout=seconds)

    def ring(self) -> None:
        """Wake who waits for something to change. Any thread may."""
        with suppress(RuntimeError):  # it has rung already
            self._bell.release()

    def oldest(self) -> Frame:
        """The oldest frame, when it is done. Raises what says that the scheduler was closed."""
        self._pending[0].done.acquire()
        frame = self._pending.popleft()
        if not frame.finished:
            raise self._owner.closed_error()
        return frame

    def abandon(self) -> None:
        """Begin nothing any more, and let go of whoever waits for a frame."""
        self._left = True
        self._ready.clear()
        for frame in list(self._pending):
            _release(frame)
        self.ring()

    def leave(self) -> None:
        """Drop the frames that no thread is running, and wait for the others for `PATIENCE_S` at most."""
        self._owner.closers.discard(self.abandon)
        self._left = True
        self._ready.clear()
        until = time.monotonic() + PATIENCE_S
        for frame in self._pending:
            if frame.running and not frame.done.acquire(timeout=max(0.0, until - time.monotonic())):
                log.warning("frame %d of a stream that was left still runs after %.0f s", frame.index, PATIENCE_S)
        self._pending.clear()

    def _go_on(self) -> None:
        if not self._submit(self._work):
            self.abandon()

    def _work(self) -> None:
        """What a thread of the pool does: the frame that is furthest, to its end or to a span before its turn."""
        try:
            frame = self._ready.popleft()
        except IndexError:  # dropped
            return
        while True:
            frame.running = True
            if self._left or frame.index > self._limit:
                break
            stopped_by = frame.context.run(self._advance, frame)
            if stopped_by is None:
                break
            frame.running = False
            if not stopped_by.admits(frame):
                return
        self._finish(frame)

    def _advance(self, frame: Frame) -> _Turnstile | None:
        """The steps of a frame, in its context; the turnstile before which it stopped, None at its end."""
        steps, index, watched = self._steps, frame.index, profiler.active()
        for at in range(frame.at, len(steps)):
            step, enter, leave = steps[at]
            if enter is not None and enter.turn != index:
                frame.at = at
                return enter
            try:
                frame.values = arguments(step(*frame.values) if watched is None else _watched(step, frame.values))
            except BaseException as error:  # SystemExit, for one: it ends the program where the results are read
                frame.error = named(error, step, index)
                return None
            if leave is not None and (follower := leave.passed(frame)) is not None:
                self._ready.appendleft(follower)
                self._go_on()
            if self._left or index > self._limit:
                return None
        frame.finished = True
        return None

    def _finish(self, frame: Frame) -> None:
        frame.finished |= frame.error is not None
        if frame.error is not None and frame.index < self._limit:
            self._limit = frame.index
        frame.running = False  # so that nobody waits for it who was interrupted behind taking `done`
        _release(frame)
        if self.rings:
            self.ring()


def advance_here(steps: Sequence[Step], frame: Frame) -> None:
    """The steps of a frame in the calling thread. KeyboardInterrupt is raised; any other error is kept in the frame."""
    frame.context.run(_advance_here, steps, frame)


def _advance_here(steps: Sequence[Step], frame: Frame) -> None:
    watched = profiler.active()
    for step in steps:
        try:
            frame.values = arguments(step(*frame.values) if watched is None else _watched(step, frame.values))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            frame.error = named(error, step, frame.index)
            return


def _watched(step: Step, values: Sequence[Any]) -> Any:
    return profiler.called(step, values) if isinstance(step, Operator) else step(*values)


def named(error: BaseException, step: Step, index: int) -> BaseException:
    """The error of an operator as a RuntimeError that names the frame; what ends a program stays what it is."""
    if not isinstance(error, Exception):
        return error
    name = profiler.label(step) if isinstance(step, Operator) else type(step).__name__
    text = f"frame {index}: {name}: {type(error).__name__}: {error}"
    made = FrameFailed(text, error) if isinstance(error, AxError) else RuntimeError(text)
    made.__cause__ = error
    return made


def waits_here(owner: Owner) -> bool:
    """Whether a thread of the owner's pool waits for what the caller does, so that it must not wait for the pool."""
    return id(owner) in _OWNERS.get() or owner.workers.inside()


def frame_context(owner: Owner) -> Context:
    """The context that those of frames in the owner's pool are copies of."""
    context = owner.context()
    context.run(_OWNERS.set, (*_OWNERS.get(), id(owner)))
    return context


def _release(frame: Frame) -> None:
    with suppress(RuntimeError):  # the scheduler was closed in the same moment
        frame.done.release()
