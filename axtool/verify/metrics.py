"""How far two sets of tensors are apart: streaming sums over samples, so that a data set never sits in memory.

SQNR is 10·log10(Σ reference² / Σ (reference − result)²) in dB. A figure over a whole tensor can hide a part that is
all zero, so the worst channel and, for a tensor that a Concat made, the worst of its parts are kept beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.graph.parts import Part
from axtool.quant.decibels import decibels, finite

MAX_CHANNELS = 4096
DEAD_VALUES = 16  # of a channel, before it can be called dead
DEAD_SPREAD = 2.0**-12  # of the largest magnitude of the tensor: less is no signal that int8 could carry

Floats = NDArray[np.float64]


def channel_axis(shape: tuple[int, ...], known: int | None = None) -> int | None:
    """The axis that holds channels, `known` where the graph says it; None without one, or with a single channel.

    Else 1 of (n, c), the shorter one of (n, a, b), and of rank 4 the last one where it is shorter than axis 1, except
    on square maps: (1, 255, 13, 13) has 255 channels.
    """
    if len(shape) < 2:
        return None
    axis = 1
    if known is not None and known < len(shape):
        axis = known
    elif len(shape) == 3 and shape[1] > shape[2]:
        axis = 2
    elif len(shape) == 4 and shape[1] > shape[3] != shape[2]:
        axis = 3
    return axis if 1 < shape[axis] <= MAX_CHANNELS else None


class Channels:
    """Signal, noise and spread of each channel, over the samples."""

    def __init__(self, count: int) -> None:
        self.signal, self.noise = np.zeros(count), np.zeros(count)
        self.values = 0
        self.low, self.high = np.full((2, count), np.inf), np.full((2, count), -np.inf)  # reference, result

    def add(self, reference: Floats, result: Floats) -> None:
        """Arrays (channels, values)."""
        self.signal += (reference**2).sum(1)
        self.noise += ((reference - result) ** 2).sum(1)
        self.values += reference.shape[1]
        for row, values in enumerate((reference, result)):
            self.low[row] = np.minimum(self.low[row], values.min(1))
            self.high[row] = np.maximum(self.high[row], values.max(1))

    def dead(self, peak: float) -> list[int]:
        """Channels that carry signal in the reference and one single value in the result."""
        if self.values < DEAD_VALUES:
            return []
        spread = self.high - self.low
        return [int(i) for i in np.flatnonzero((spread[1] == 0) & (spread[0] > DEAD_SPREAD * peak))]

    def worst(self) -> tuple[int, float] | None:
        """(index, SQNR in dB) of the lowest; channels without signal are left out."""
        figures = [(decibels(s, n), i) for i, (s, n) in enumerate(zip(self.signal, self.noise, strict=True)) if s > 0]
        if not figures:
            return None
        figure, index = min(figures)
        return index, figure


@dataclass
class Comparison:
    """Sums over the samples of one output. `add` a reference and a result; read the figures at any time."""

    name: str
    parts: Sequence[Part] = ()
    axis: int | None = None  # of the channels, where the graph says it
    samples: int = 0
    signal: float = 0.0
    noise: float = 0.0
    dot: float = 0.0
    power: float = 0.0
    max_error: float = 0.0
    max_reference: float = 0.0
    mismatched: int = 0  # places where only one of the two is finite
    top1_agree: int = 0
    top1_total: int = 0
    channels: Channels | None = None
    part_sums: dict[int, tuple[float, float]] = field(default_factory=dict)  # (signal, noise) by index of `parts`

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
        if not ref.size:
            return
        error = ref - got
        self.signal += float((ref * ref).sum())
        self.noise += float((error * error).sum())
        self.dot += float((ref * got).sum())
        self.power += float((got * got).sum())
        self.max_error = max(self.max_error, float(np.abs(error).max()))
        self.max_reference = max(self.max_reference, float(np.abs(ref).max()))
        self._add_channels(ref, got)
        self._add_parts(ref, error)
        if ref.ndim == 2 and ref.shape[1] > 1:
            self.top1_total += ref.shape[0]
            self.top1_agree += int((ref.argmax(1) == got.argmax(1)).sum())

    def _add_channels(self, ref: Floats, got: Floats) -> None:
        axis = channel_axis(ref.shape, self.axis)
        if axis is None:
            return
        count = ref.shape[axis]
        if self.channels is None:
            self.channels = Channels(count)
        self.channels.add(*(np.moveaxis(a, axis, 0).reshape(count, -1) for a in (ref, got)))

    def _add_parts(self, ref: Floats, error: Floats) -> None:
        for index, part in enumerate(self.parts):
            box = (slice(None),) * part.axis + (slice(part.start, part.stop),)
            signal, noise = self.part_sums.get(index, (0.0, 0.0))
            self.part_sums[index] = (signal + float((ref[box] ** 2).sum()), noise + float((error[box] ** 2).sum()))

    @property
    def dead_channels(self) -> list[int]:
        """Channels that carry signal in the reference and one single value in the result."""
        return [] if self.channels is None else self.channels.dead(self.max_reference)

    @property
    def sqnr_db(self) -> float:
        return decibels(self.signal, self.noise)

    @property
    def exact(self) -> bool:
        """Whether the result is the reference, value by value."""
        return self.noise == 0 and self.mismatched == 0

    @property
    def cosine(self) -> float:
        """1 for two zero tensors, 0 when only one of them is zero."""
        scale = math.sqrt(self.signal) * math.sqrt(self.power)
        if scale == 0:
            return 1.0 if self.signal == self.power else 0.0
        return max(-1.0, min(1.0, self.dot / scale))

    @property
    def worst_channel(self) -> tuple[int, float] | None:
        """(index, SQNR in dB) of the channel with the lowest SQNR; channels without signal are left out."""
        return None if self.channels is None else self.channels.worst()

    @property
    def worst_part(self) -> tuple[Part, float] | None:
        """The part of a Concat with the lowest SQNR; parts without signal are left out."""
        figures = [(decibels(s, n), i) for i, (s, n) in self.part_sums.items() if s > 0]
        if not figures:
            return None
        figure, index = min(figures)
        return self.parts[index], figure

    def to_dict(self) -> dict[str, Any]:
        """Plain values with units in the names; an SQNR that is infinite is null, `exact` says which way."""
        channel, part = self.worst_channel, self.worst_part
        return {
            "output": self.name,
            "samples": self.samples,
            "exact": self.exact,
            "sqnr_db": finite(self.sqnr_db),
            "cosine": round(self.cosine, 9),
            "max_abs_error": self.max_error,
            "max_abs_reference": self.max_reference,
            "non_finite_mismatches": self.mismatched,
            "worst_channel": None if channel is None else channel[0],
            "worst_channel_sqnr_db": None if channel is None else finite(channel[1]),
            "worst_slice": None if part is None else part_dict(*part),
            "dead_channels": self.dead_channels,
            "top1_agreement": self.top1_agree / self.top1_total if self.top1_total else None,
        }


def part_dict(part: Part, figure: float) -> dict[str, Any]:
    """Plain values of a part and its SQNR."""
    return {
        "input": part.name, "axis": part.axis, "start": part.start, "stop": part.stop, "sqnr_db": finite(figure),
    }  # fmt: skip
