"""Float activations  ->  the extremes of each channel of a tensor: what equalization needs of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass
class ChannelExtremes:
    """(low, high) of each channel (axis 1) by tensor. Any order of arrays gives the same bits."""

    names: Collection[str]
    seen: dict[str, Pair] = field(default_factory=dict)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Fold in one array; what is not finite counts as nothing."""
        if name in self.names and array.ndim > 1 and array.size:
            self._fold(name, channel_extremes(array))

    def merge(self, other: ChannelExtremes) -> None:
        """Fold in what another process saw."""
        for name, pair in other.seen.items():
            self._fold(name, pair)

    def _fold(self, name: str, pair: Pair) -> None:
        if name in self.seen:
            low, high = self.seen[name]
            pair = np.minimum(low, pair[0]), np.maximum(high, pair[1])
        self.seen[name] = pair


def channel_extremes(array: NDArray[Any]) -> Pair:
    """The smallest and the largest finite value of each channel, 0 among them."""
    values = np.asarray(array, np.float32)
    rest = tuple(axis for axis in range(values.ndim) if axis != 1)
    low, high = values.min(axis=rest), values.max(axis=rest)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        finite = np.where(np.isfinite(values), values, np.float32(0))
        low, high = finite.min(axis=rest), finite.max(axis=rest)
    zero = np.float32(0)
    return np.minimum(low, zero) + zero, np.maximum(high, zero) + zero  # + 0 turns -0 into 0
