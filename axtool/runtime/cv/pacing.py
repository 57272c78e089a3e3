"""Frames as fast as they can be read  ->  frames at a pace, as a camera would give them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction

from axtool.runtime.cv.address import Pace
from axtool.runtime.cv.reader import Timed

_LONGEST_GAP_S = 10  # between two frames of a video; a jump of its clock is not slept through


def paced(frames: Iterator[Timed], pace: Pace, fps: Fraction | None, wait: Callable[[float], bool]) -> Iterator[Timed]:
    """Each frame not before its time: `pace` frames a second, or the times of the frames for "auto".

    Times are counted from the first frame, so that late frames do not make the next ones later. `wait(seconds)` says
    whether to stop.
    """
    period = Fraction(1) / pace if isinstance(pace, Fraction) else Fraction(1) / fps if fps else Fraction(0)
    start, due, last = time.monotonic(), Fraction(0), None
    for index, timed in enumerate(frames):
        if index:
            due += _gap(last, timed.time_s, period) if pace == "auto" else period
            ahead = float(due) - (time.monotonic() - start)
            if ahead > 0 and wait(ahead):
                return
        else:
            start = time.monotonic()
        last = timed.time_s
        yield timed


def _gap(last: Fraction | None, now: Fraction | None, period: Fraction) -> Fraction:
    """Seconds between two frames by their times, or a period where these make no sense."""
    gap = now - last if now is not None and last is not None else None
    return gap if gap is not None and 0 <= gap <= _LONGEST_GAP_S else period
