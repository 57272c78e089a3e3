"""Float activations  ->  the mean of each channel that a MAC site reads: what bias correction needs of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.quant.weights import weight_name
from axtool.types import Site

MOST = 256  # samples whose means are kept: a mean of so many no longer moves


@dataclass
class ChannelMeans:
    """Means by (sample, tensor). Kept apart, so that any split of the samples over processes gives the same bits."""

    axes: Mapping[str, int]
    means: dict[tuple[int, str], NDArray[np.float32]] = field(default_factory=dict)

    def add(self, index: int, name: str, array: NDArray[Any]) -> None:
        """Note one tensor of one sample; what is not finite counts as nothing."""
        if index < MOST and name in self.axes:
            self.means[index, name] = channel_mean(array, self.axes[name])

    @property
    def samples(self) -> list[int]:
        """The samples whose means are kept, in order."""
        return sorted({index for index, _ in self.means})

    def renumber(self, indices: Sequence[int]) -> None:
        """Sample i of a part is sample indices[i] of the whole."""
        self.means = {(indices[index], name): mean for (index, name), mean in self.means.items()}

    def merge(self, other: ChannelMeans) -> None:
        """Fold in the means of other samples."""
        self.means |= other.means

    def over_samples(self, chosen: Collection[int] | None = None) -> dict[str, tuple[float, ...]]:
        """The mean over the first `MOST` samples, or the chosen ones of them, by tensor."""
        sums: dict[str, NDArray[np.float64]] = {}
        counts: dict[str, int] = {}
        for (index, name), mean in sorted(self.means.items()):
            if chosen is not None and index not in chosen:
                continue
            if index < MOST and sums.setdefault(name, np.zeros(mean.shape)).shape == mean.shape:
                sums[name] += mean
                counts[name] = counts.get(name, 0) + 1
        return {name: tuple((total / counts[name]).tolist()) for name, total in sums.items()}


def channel_mean(array: NDArray[Any], axis: int) -> NDArray[np.float32]:
    """The mean over all axes but one."""
    rows, along = _matrix(np.asarray(array, np.float32), axis)
    if not rows.size:
        return np.zeros(rows.shape[1 - along], np.float32)
    total: NDArray[Any] = np.add.reduce(rows, along)  # what `mean` does, which takes as long again around it
    counts: Any = rows.shape[along]
    if not np.isfinite(total).all():
        kept = np.isfinite(rows)
        total, counts = np.where(kept, rows, 0).sum(along, dtype=np.float64), np.maximum(kept.sum(along), 1)
    mean: NDArray[np.float32] = (total / counts).astype(np.float32)
    return mean


def _matrix(values: NDArray[Any], axis: int) -> tuple[NDArray[Any], int]:
    """The values with the channels along one axis, and the other axis."""
    channels = values.shape[axis]
    others = values.size // max(channels, 1)
    if axis % values.ndim == values.ndim - 1:
        return values.reshape(others, channels), 0
    first = values if axis == 1 and len(values) == 1 else np.moveaxis(values, axis, 0)
    return first.reshape(channels, others), 1


def averaged_axes(sites: Iterable[Site]) -> dict[str, int]:
    """The channel axis of each tensor that a MAC site multiplies with constant weights."""
    axes: dict[str, int] = {}
    for site in sites:
        if weight_name(site) is None or site.attrs.get("transA", 0):
            continue
        name = site.inputs[0]
        axis = len(site.shapes[name]) - 1 if site.op in ("Gemm", "MatMul") else 1
        if axes.setdefault(name, axis) != axis:  # read as tokens and as an image
            axes[name] = -1
    return {name: axis for name, axis in axes.items() if axis >= 0}
