"""Sums of squares  ->  a signal-to-noise ratio in dB, and what of it JSON has a word for."""

from __future__ import annotations

import math


def decibels(signal: float, noise: float) -> float:
    """SQNR in dB; +inf where the result is exact, -inf where the reference is zero and the result is not."""
    if noise == 0:
        return math.inf
    return -math.inf if signal == 0 else 10 * math.log10(signal / noise)


def finite(value: float) -> float | None:
    """The number, or None where JSON has no word for it."""
    return value if math.isfinite(value) else None
