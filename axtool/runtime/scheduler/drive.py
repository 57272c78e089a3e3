"""What the thread that asks for results does: pull, prepare, hand to the pool, hand out in order.

It never pulls while the oldest result is ready, and a source that has nothing yet does not hold results back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

from axtool.runtime.scheduler.flow import Flow, Frame, advance_here, frame_context
from axtool.runtime.scheduler.owner import Owner
from axtool.runtime.scheduler.route import Route, Step

LOOK_S = 0.1  # how long a source that has nothing is believed to say so itself when it has something

Frames = Generator[Frame, None, None]


class Feed(Protocol):
    """Where the frames come from."""

    def pull(self) -> tuple[Any, ...] | None:
        """The arguments of the next frame; None behind the last one. What it raises ends the stream."""
        ...

    def would_block(self) -> bool:
        """Whether it is known that `pull` would wait for a frame."""
        ...

    def listen(self, callback: Callable[[], None] | None) -> bool:
        """Have `callback` called when `pull` would not wait any more, until None is given; False where it never is."""
        ...


@dataclass(frozen=True, eq=False)
class Work:
    """What is done to each frame: the prefix and the callback in the driving thread, the route where it runs."""

    route: Route
    prefix: tuple[Step, ...] = ()
    callback: Callable[[Any], object] | None = None

    def prepare(self, frame: Frame) -> None:
        """The prefix and the callback. What goes wrong is kept in the frame, but for Ctrl-C."""
        if self.prefix:
            advance_here(self.prefix, frame)
        if self.callback is None or frame.error is not None:
            return
        try:
            self.callback(frame.result())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the caller's own: it comes behind the results of the frames before
            frame.error = error


def in_this_thread(owner: Owner, feed: Feed, work: Work) -> Frames:
    """One frame after another in the calling thread."""
    here, index = owner.context(), 0
    while (given := feed.pull()) is not None:
        if owner.closed:
            raise owner.closed_error()
        frame = Frame(index, given, here.copy())
        work.prepare(frame)
        if frame.error is None:
            advance_here(work.route.steps, frame)
        yield frame
        del frame
        index += 1


def in_the_pool(owner: Owner, feed: Feed, work: Work, window: int) -> Frames:
    """Up to `window` frames at a time in the owner's pool, in order. An error of the feed comes behind its frames."""
    here, index = frame_context(owner), 0
    flow = Flow(owner, work.route.steps, work.route.spans)
    more, failed = True, None
    try:
        flow.rings = feed.listen(flow.ring)
        while True:
            room = more and len(flow) < window and not flow.failed
            if flow.ready():
                yield flow.oldest()
            elif room and not (len(flow) and feed.would_block()):
                try:
                    given = feed.pull()
                    frame = None if given is None else Frame(index, given, here.copy())
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    frame, failed = None, error
                if frame is None:
                    more = False
                    continue
                index += 1
                work.prepare(frame)
                flow.begin(frame)
                del frame, given
            elif not len(flow):
                break
            elif not room:
                yield flow.oldest()
            else:
                flow.wait(LOOK_S)
    finally:
        feed.listen(None)
        flow.leave()
    if failed is not None:
        try:
            raise failed
        finally:
            del failed  # its traceback holds this generator, which would hold it for ever
