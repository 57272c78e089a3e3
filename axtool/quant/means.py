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
    values = np.asarray(array, np.float32)
    last = axis % values.ndim == values.ndim - 1
    rows = (
        values.reshape(-1, values.shape[-1]) if last else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    )
    mean: NDArray[Any] = rows.mean(axis=0 if last else 1) if rows.size else np.zeros(values.shape[axis])
    if not np.isfinite(mean).all():
        kept = np.isfinite(rows)
        total = np.where(kept, rows, 0).sum(axis=0 if last else 1, dtype=np.float64)
        mean = total / np.maximum(kept.sum(axis=0 if last else 1), 1)
    return mean.astype(np.float32)


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
