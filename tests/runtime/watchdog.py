"""A bound in time for what may stand still: all stacks are shown, and the test fails instead of waiting for ever."""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_GRACE_S = 30.0  # for the test to end after it was told to


class StoodStill(BaseException):
    """Too much time has passed. No `except Exception` on the way may swallow it."""


@contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """Raises StoodStill in the main thread after so long, every thread's stack on stderr.

    A process that does not even take that signal is ended. Generous by far: a bound for a deadlock, not for speed.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a watchdog watches the main thread")

    def bark(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        raise StoodStill(f"not done after {seconds:g} s: a deadlock, or a bound that does not hold")

    before = signal.signal(signal.SIGALRM, bark)
    faulthandler.dump_traceback_later(seconds + _GRACE_S, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
