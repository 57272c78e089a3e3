"""A tensor of the float model, and what the device makes of it  ->  the figures of one layer.

Everything is counted in steps of the tensor's format (of fx32 and fp16: in real units), in the order in which the
device stores it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.storing import ends_of, to_numbers, to_reals, unit_of
from axtool.quant.decibels import decibels, finite
from axtool.sim.images import assign_pixels
from axtool.types import Layer, QFormat, Tensor

BAD_DB = 15.0
FEW_LEVELS = 8
LARGEST = 1e15  # steps: the squares of more are no float32
BLOCK = 1 << 16  # values that are looked at together


class Levels:
    """Which integers occur. int8 is looked at in pairs: half the places to visit."""

    def __init__(self) -> None:
        self._seen = np.zeros(2**16, bool)
        self._pairs = False

    def add(self, values: NDArray[Any]) -> None:
        """int8 or int16 values, of one kind always."""
        row = np.ascontiguousarray(values).reshape(-1)
        self._pairs = row.itemsize == 1
        if self._pairs and row.size % 2:
            row = np.append(row, row[-1])
        self._seen[row.view(np.uint16)] = True

    def __len__(self) -> int:
        if not self._pairs:
            return int(self._seen.sum())
        pairs = self._seen.reshape(256, 256)
        return int((pairs.any(axis=0) | pairs.any(axis=1)).sum())


class Rounded:
    """Some rows of a tensor of the float model, in the device's format and order, (pixels, channels).

    `steps` are unrounded, `codes` as they would be stored. `signal` and `error` are sums of squares over the pixels of
    each channel, in steps: of the values and of their rounding.
    """

    def __init__(self, rows: NDArray[Any], form: QFormat) -> None:
        scale, zero = (
            np.asarray(v if len(v) > 1 else v[0], np.float32) for v in (form.scale or (1.0,), form.zero_point)
        )
        plain = np.empty(rows.shape, np.float32)
        assign_pixels(plain, rows)
        steps = plain.reshape(-1, rows.shape[-1])
        with np.errstate(over="ignore", invalid="ignore"):
            steps /= scale
            steps += zero
        codes = np.rint(steps) if form.scale else to_numbers(steps, form)
        if form.scale:
            np.clip(codes, *ends_of(form), out=codes)
        self.missing: NDArray[np.bool_] | None = None
        if not _square(steps.reshape(-1)) < np.inf:
            fine = np.abs(steps) < LARGEST
            self.missing = ~fine.reshape(-1)
            codes = np.where(np.isnan(codes), zero, codes)
            steps = np.where(fine, steps, zero)
        self.steps, self.codes = steps, codes
        self.signal = _squares(steps - zero)
        error = (codes if form.scale else to_reals(codes, form)) - steps
        self.error = _squares(error if self.missing is None else np.where(fine, error, 0))
        self.count = steps.size - (0 if self.missing is None else int(self.missing.sum()))


def blocks_of(array: NDArray[Any], tensor: Tensor) -> Iterator[tuple[slice, Rounded]]:
    """A tensor of the float model, some rows after the other: a block stays in the cache, and takes little memory."""
    h, w, c = tensor.numbers
    if tensor.layout == "channel_first" and array.ndim > 2:
        array = np.moveaxis(array, 1, -1)
    pixels = array.reshape(h, w, c)
    rows = max(1, BLOCK // max(w * c, 1))
    for first in range(0, h, rows):
        where = slice(first, first + rows)
        yield where, Rounded(pixels[where], tensor.format)


@dataclass
class Energy:
    """Of each channel of a tensor: the mean square of the float model's values and of their rounding, in real units."""

    scale: float
    pixels: int = 0
    signal: NDArray[np.float64] | float = 0.0
    error: NDArray[np.float64] | float = 0.0

    def add(self, values: Rounded) -> None:
        """Rows of a sample."""
        self.pixels += len(values.steps)
        self.signal, self.error = self.signal + values.signal, self.error + values.error

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(channels,) each."""
        factor = self.scale**2 / max(self.pixels, 1)
        return np.atleast_1d(self.signal) * factor, np.atleast_1d(self.error) * factor


@dataclass
class LayerFigures:
    """One layer over all samples: sums of squares and counts, in steps of its output's format.

    `signal` is the float model's. Errors against it: `accumulated`, `single`, and `stored`, which rounding it to the
    format makes, of which `cut` comes from values that the format cannot hold. `values` were compared.
    """

    index: int
    layer: Layer
    format: QFormat
    signal: float = 0.0
    accumulated: float = 0.0
    single: float = 0.0
    stored: float = 0.0
    cut: float = 0.0
    saturated: int = 0
    values: int = 0
    largest: float = 0.0  # accumulated error of a value
    low: float = math.inf  # of the float model
    high: float = -math.inf
    tie_factor: float = 1.0  # how many times coarser the steps are than this tensor needs: it shares a format
    tied_to: str = ""
    levels: Levels = field(default_factory=Levels)
    channel_low: NDArray[np.int64] | None = None  # levels of each channel of the layer alone
    channel_high: NDArray[np.int64] | None = None

    @property
    def single_db(self) -> float:
        return decibels(self.signal, self.single)

    @property
    def accumulated_db(self) -> float:
        return decibels(self.signal, self.accumulated)

    @property
    def bad(self) -> bool:
        return self.single_db < BAD_DB

    @property
    def saturated_share(self) -> float:
        return self.saturated / self.values if self.values else 0.0

    @property
    def used_levels(self) -> int | None:
        """How many levels of its format occur; None for fx32 and fp16, which have too many to count."""
        return len(self.levels) if self.format.scale else None

    @property
    def varies(self) -> bool:
        """Whether the float model has more than one value there."""
        return self.low < self.high

    @property
    def reach(self) -> float:
        """From the smallest value of the float model to the largest, 0 included, in steps."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def coarser(self) -> float:
        """How many times wider the range of the format is than what the float model put there; 1 where it is not."""
        if not self.format.scale:
            return 1.0
        lo, hi = ends_of(self.format)
        own = self.reach
        return max((hi - lo) / own, 1.0) if own > 0 else 1.0

    @property
    def few_level_channels(self) -> tuple[int, int]:
        """(channels that vary, but over fewer than 8 levels; all channels)."""
        if self.channel_low is None or self.channel_high is None:
            return 0, 0
        count = self.channel_high - self.channel_low + 1
        return int(((count > 1) & (count < FEW_LEVELS)).sum()), count.size

    def to_dict(self) -> dict[str, Any]:
        """Plain values; SQNR in dB, null where it is not finite."""
        few, channels = self.few_level_channels
        return {
            "index": self.index,
            "op": self.layer.op,
            "name": self.layer.name,
            "origin": list(self.layer.origin),
            "output": self.layer.outputs[0],
            "accumulated_sqnr_db": finite(self.accumulated_db),
            "accumulated_exact": self.accumulated == 0,
            "single_sqnr_db": finite(self.single_db),
            "single_exact": self.single == 0,
            "max_abs_error": self.largest * unit_of(self.format),
            "saturated_share": self.saturated_share,
            "used_levels": self.used_levels,
            "few_level_channels": few,
            "channels": channels,
            "tie_factor": self.tie_factor,
            "tied_to": self.tied_to,
            "bad": self.bad,
        }

    def add(self, values: Rounded, device: NDArray[Any], alone: NDArray[Any]) -> None:
        """Rows of a sample: the float model's; what the device has there; what the layer makes. All in one order.

        Values of the float model that are no numbers are left out.
        """
        steps = values.steps.reshape(-1)
        device, alone = device.reshape(-1), alone.reshape(-1)
        if values.missing is not None:
            zero = device.dtype.type(self.format.zero_point[0])
            device, alone = (np.where(values.missing, zero, row) for row in (device, alone))
        if not steps.size:
            return
        zero_point = self.format.zero_point[0]
        lo, hi = ends_of(self.format)
        low, high = float(steps.min()), float(steps.max())
        self.low, self.high = min(self.low, low - zero_point), max(self.high, high - zero_point)
        self.values += values.count
        if low < lo - 0.5 or high > hi + 0.5:
            beyond = steps - np.clip(steps, lo - 0.5, hi + 0.5)
            self.saturated += int(np.count_nonzero(beyond))
            self.cut += _square(beyond)
        self.signal += float(values.signal.sum())
        self.stored += float(values.error.sum())
        error = device - steps
        self.accumulated += _square(error)
        self.largest = max(self.largest, float(error.max()), -float(error.min()))
        self.single += _square(np.subtract(alone, steps, out=error))

    def add_levels(self, alone: NDArray[Any]) -> None:
        """Rows (h, w, c) of what the layer makes of a sample."""
        if not self.format.scale:
            return
        self.levels.add(alone)
        rows = alone.reshape(-1, alone.shape[-1])
        low, high = rows.min(axis=0).astype(np.int64), rows.max(axis=0).astype(np.int64)
        self.channel_low = low if self.channel_low is None else np.minimum(self.channel_low, low)
        self.channel_high = high if self.channel_high is None else np.maximum(self.channel_high, high)


def _square(values: NDArray[Any]) -> float:
    return float(np.dot(values, values))


def _squares(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """(pixels, channels) -> the sum of squares of each channel."""
    sums: NDArray[np.float32] = np.einsum("ij,ij->j", pixels, pixels)
    return sums.astype(np.float64)
