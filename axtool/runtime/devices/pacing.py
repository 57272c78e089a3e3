"""Modelled durations  ->  when something begins and ends on a wall clock, and a wait until then that can be broken off.

Every core, and each direction of a board's link, is a `Lane` that serves one thing at a time. Ends follow from the
lanes and not from when a thread wakes up, so that late wakes of threads never add up.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from threading import TIMEOUT_MAX, Lock

NEVER = 0.0  # seconds below which a wait is not worth a system call
_KEPT = 64  # spans of a lane that are not worth forgetting


class Lane:
    """Spans of `time.perf_counter` seconds that never overlap; a new one takes the first gap that it fits."""

    def __init__(self) -> None:
        self._starts: list[float] = []  # of what is not over yet, in order
        self._ends: list[float] = []
        self._lock = Lock()

    def reserve(self, earliest: float, duration: float) -> tuple[float, float]:
        """(start, end) of the first span of so many seconds that begins at `earliest` or later."""
        with self._lock:
            if len(self._ends) >= _KEPT:
                self._forget(time.perf_counter() - 1.0)
            at = bisect_right(self._ends, earliest)
            start = earliest
            while at < len(self._starts) and self._starts[at] < start + duration:
                start = max(start, self._ends[at])
                at += 1
            self._starts.insert(at, start)
            self._ends.insert(at, start + duration)
        return start, start + duration

    def _forget(self, before: float) -> None:
        """Drop what was over by then: nothing begins so long ago."""
        at = bisect_right(self._ends, before)
        del self._starts[:at], self._ends[:at]


class Wait:
    """A pause of one or several threads that another thread may end for good."""

    def __init__(self) -> None:
        self._held = Lock()
        self._held.acquire()
        self._broken = False
        self._stopping = Lock()

    def until(self, moment: float) -> bool:
        """Sleep until `time.perf_counter()` is `moment`; False as soon as `stop` has been called."""
        while not self._broken:
            left = moment - time.perf_counter()
            if left <= NEVER:
                return True
            if self._held.acquire(timeout=min(left, TIMEOUT_MAX)):
                self._held.release()  # the next that waits shall wake, too
        return False

    def stop(self) -> None:
        """Wake everybody who waits, now and later. Idempotent."""
        with self._stopping:
            if not self._broken:
                self._broken = True
                self._held.release()
