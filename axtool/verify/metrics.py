"""How far two sets of tensors are apart: streaming sums over samples, so that a data set never sits in memory.

SQNR is 10·log10(Σ reference² / Σ (reference − result)²) in dB. A figure over a whole tensor can hide a part that is
all zero, so the worst slice along the channel axis is kept beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_CHANNELS = 4096


def decibels(signal: float, noise: float) -> float:
    """SQNR in dB; +inf where the result is exact, -inf where the reference is zero and the result is not."""
    if noise == 0:
        return math.inf
    return -math.inf if signal == 0 else 10 * math.log10(signal / noise)


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis that holds channels: 1 of (n, c, h, w), the shorter one of (n, a, b), the last of (n, c)."""
    if len(shape) < 2:
        return None
    axis = 1 if len(shape) != 3 or shape[1] <= shape[2] else 2
    return axis if 1 < shape[axis] <= MAX_CHANNELS else None


@dataclass
class Comparison:
    """Sums over the samples of one output. `add` a reference and a result; read the figures at any time."""

    name: str
    samples: int = 0
    signal: float = 0.0
    noise: float = 0.0
    dot: float = 0.0
    power: float = 0.0
    max_error: float = 0.0
    max_reference: float = 0.0
    mismatched: int = 0  # places where only one of the two is finite, or an integer differs
    top1_agree: int = 0
    top1_total: int = 0
    channels: dict[int, tuple[float, float]] = field(default_factory=dict)
    moving: dict[int, tuple[bool, bool]] = field(default_factory=dict)  # does the reference, the result, ever vary
    seen: dict[int, tuple[float, float]] = field(default_factory=dict)  # the first value of each

    def add(self, reference: NDArray[Any], result: NDArray[Any]) -> None:
        """One sample. Raises ValueError when the shapes differ."""
        if reference.shape != result.shape:
            raise ValueError(f"{self.name}: shape {result.shape}, want {reference.shape}")
        self.samples += 1
        ref, got = reference.astype(np.float64), result.astype(np.float64)
        both = np.isfinite(ref) & np.isfinite(got)
        same = (ref == got) | (np.isnan(ref) & np.isnan(got))
        self.mismatched += int((~both & ~same).sum())
        ref, got = np.where(both, ref, 0.0), np.where(both, got, 0.0)
        error = ref - got
        self.signal += float((ref * ref).sum())
        self.noise += float((error * error).sum())
        self.dot += float((ref * got).sum())
        self.power += float((got * got).sum())
        if ref.size:
            self.max_error = max(self.max_error, float(np.abs(error).max()))
            self.max_reference = max(self.max_reference, float(np.abs(ref).max()))
        self._add_channels(ref, error)
        self._watch_channels(ref, got)
        if ref.ndim == 2 and ref.shape[1] > 1:
            self.top1_total += ref.shape[0]
            self.top1_agree += int((ref.argmax(1) == got.argmax(1)).sum())

    def _add_channels(self, ref: NDArray[np.float64], error: NDArray[np.float64]) -> None:
        axis = channel_axis(ref.shape)
        if axis is None:
            return
        rest = tuple(i for i in range(ref.ndim) if i != axis)
        signal, noise = (ref * ref).sum(rest), (error * error).sum(rest)
        for index in range(ref.shape[axis]):
            s, n = self.channels.get(index, (0.0, 0.0))
            self.channels[index] = (s + float(signal[index]), n + float(noise[index]))

    def _watch_channels(self, ref: NDArray[np.float64], got: NDArray[np.float64]) -> None:
        axis = channel_axis(ref.shape)
        if axis is None or not ref.size:
            return
        a = np.moveaxis(ref, axis, 0).reshape(ref.shape[axis], -1)
        b = np.moveaxis(got, axis, 0).reshape(ref.shape[axis], -1)
        for index in range(len(a)):
            first = self.seen.setdefault(index, (float(a[index, 0]), float(b[index, 0])))
            moved = self.moving.get(index, (False, False))
            self.moving[index] = (
                moved[0] or bool((a[index] != first[0]).any()),
                moved[1] or bool((b[index] != first[1]).any()),
            )

    @property
    def dead_channels(self) -> list[int]:
        """Channels that carry signal in the reference and one single value in the result."""
        return [index for index, (wanted, got) in self.moving.items() if wanted and not got]

    @property
    def sqnr_db(self) -> float:
        return decibels(self.signal, self.noise)

    @property
    def cosine(self) -> float:
        """1 for two zero tensors, 0 when only one of them is zero."""
        scale = math.sqrt(self.signal) * math.sqrt(self.power)
        if scale == 0:
            return 1.0 if self.signal == self.power else 0.0
        return self.dot / scale

    @property
    def worst_channel(self) -> tuple[int, float] | None:
        """(index, SQNR in dB) of the channel with the lowest SQNR; channels without signal are left out."""
        figures = [(decibels(s, n), i) for i, (s, n) in self.channels.items() if s > 0]
        if not figures:
            return None
        figure, index = min(figures)
        return index, figure

    def to_dict(self) -> dict[str, Any]:
        """Plain values with units in the names; an infinite SQNR is null with `exact` true."""
        worst = self.worst_channel
        return {
            "output": self.name,
            "samples": self.samples,
            "exact": self.noise == 0 and self.mismatched == 0,
            "sqnr_db": finite(self.sqnr_db),
            "cosine": round(self.cosine, 9),
            "max_abs_error": self.max_error,
            "max_abs_reference": self.max_reference,
            "non_finite_mismatches": self.mismatched,
            "worst_channel": None if worst is None else worst[0],
            "worst_channel_sqnr_db": None if worst is None else finite(worst[1]),
            "dead_channels": self.dead_channels,
            "top1_agreement": self.top1_agree / self.top1_total if self.top1_total else None,
        }


def finite(value: float) -> float | None:
    """The number, or None where JSON has no word for it."""
    return value if math.isfinite(value) else None
