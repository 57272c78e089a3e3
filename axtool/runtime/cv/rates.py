"""A frame rate as people and libraries write it  ->  the exact fraction that is meant."""

from __future__ import annotations

import math
from fractions import Fraction

MOST_FPS = 1000  # a rate above is a slip of the pen

_NTSC = Fraction(1000, 1001)  # of a whole number: the rates of television in colour
_CLOSE = 0.005  # 23.98 is meant to be 24000/1001
_FINEST = 1001  # denominator of a rate that is given as a float


def exact_rate(fps: int | float | Fraction) -> Fraction:
    """Frames a second as a fraction: 29.97 is 30000/1001. Raises ValueError for what is no rate of a video."""
    if isinstance(fps, bool) or not isinstance(fps, (int, float, Fraction)) or not math.isfinite(fps):
        raise ValueError(f"fps is {fps!r}, want frames a second")
    if not 0 < fps <= MOST_FPS:
        raise ValueError(f"fps is {fps!r}, want more than 0 and at most {MOST_FPS}")
    rate = Fraction(fps)
    if isinstance(fps, float):
        television = round(fps / _NTSC) * _NTSC
        close = not fps.is_integer() and abs(television - rate) < _CLOSE
        rate = television if close else rate.limit_denominator(_FINEST)
    if not rate > 0 or max(rate.numerator, rate.denominator) >= 1 << 31:  # what files have room for
        raise ValueError(f"fps is {fps!r}, which no video file can hold")
    return rate
