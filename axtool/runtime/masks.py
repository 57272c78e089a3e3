"""Masks of objects: from coefficients and prototypes to pixels of the picture, and to plain values and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.prepare import Placement

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def masks_in_picture(
    boxes: Floats, coefficients: Floats, prototypes: Floats, place: Placement, size: tuple[int, int]
) -> Iterator[Mask]:
    """A mask (rows, columns) over the picture for each of the boxes (n, 4), which are in pixels of the model's input.

    `size` is (rows, columns): the picture's own, or less. A pixel is in the mask where its centre is in the box and
    `coefficients @ prototypes` is above 0 there, read between the prototypes' pixels as a straight line. With the
    resolution of the prototypes, and a picture that fills the input, these are the prototypes' own pixels.
    """
    rows, columns = size
    height, width = place.image_size
    centres_x, centres_y = (np.arange(columns) + 0.5) * width / columns, (np.arange(rows) + 0.5) * height / rows
    x, y = centres_x * place.scale_x + place.offset_x, centres_y * place.scale_y + place.offset_y
    _, h, w = prototypes.shape
    for (x0, y0, x1, y1), weights in zip(boxes, coefficients, strict=True):
        mask = np.zeros((columns, rows), bool).T  # in the order of its runs
        across, down = np.flatnonzero((x >= x0) & (x <= x1)), np.flatnonzero((y >= y0) & (y <= y1))
        if across.size and down.size:
            levels = np.tensordot(weights, prototypes, 1)  # (h, w)
            levels = _between(levels, y[down] * h / place.model_size[0] - 0.5)
            levels = _between(levels.T, x[across] * w / place.model_size[1] - 0.5).T
            mask[down[0] : down[-1] + 1, across[0] : across[-1] + 1] = levels > 0
        yield mask


def _between(rows: Floats, at: Floats) -> Floats:
    """Rows (n, m) read at positions `at`, between two rows as a straight line, beyond the ends as the last one."""
    at = np.clip(at, 0, len(rows) - 1)
    low = np.minimum(at.astype(np.int64), max(0, len(rows) - 2))
    share = (at - low)[:, None]
    return np.asarray(rows[low] * (1 - share) + rows[np.minimum(low + 1, len(rows) - 1)] * share)


def run_lengths(mask: Mask) -> list[int]:
    """Lengths of runs down the columns, outside first, as COCO's uncompressed `counts`."""
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    inside = [0] if flat[:1].any() else []  # a run outside comes first, if only of nothing
    lengths = np.diff(np.concatenate([[0], inside, changes, [flat.size]]).astype(np.int64))
    return [int(length) for length in lengths]


def from_run_lengths(counts: Sequence[int], size: tuple[int, int]) -> Mask:
    """The mask (rows, columns) that `run_lengths` wrote. Raises ValueError where the runs do not fill it."""
    lengths = np.asarray(counts, np.int64)
    if lengths.ndim != 1 or (lengths < 0).any() or lengths.sum() != size[0] * size[1]:
        raise ValueError(f"runs of {int(lengths.sum())} pixels in a mask of {size[0]}x{size[1]}")
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape(size, order="F")
