"""The fixed priors of RetinaFace and YOLACT, and what offsets of them mean.

A prior is a box (centre x, centre y, width, height) as fractions of the input, in the order of the model's anchors:
grids from the finest on, cells row by row, sizes within a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
FACE_SIDES = ((16, 32), (64, 128), (256, 512))  # pixels, for each stride: the published RetinaFace
FACE_STRIDES = (8, 16, 32)
MASK_SCALES = (24, 48, 96, 192, 384)  # pixels at an input of 550, for each grid: the published YOLACT
MASK_RATIOS = (1.0, 0.5, 2.0)
VARIANCES = (0.1, 0.2)  # of centre and size


def square_priors(size: tuple[int, int], strides: Sequence[int], sides: Sequence[Sequence[float]]) -> Float:
    """(n, 4) for an input of (width, height): a square of each of the `sides`, in pixels, in every cell of a stride."""
    width, height = size
    made = []
    for stride, lengths in zip(strides, sides, strict=True):
        x = (np.arange(-(-width // stride)) + 0.5) * stride / width
        y = (np.arange(-(-height // stride)) + 0.5) * stride / height
        made.append(_cells(x, y, [(side / width, side / height) for side in lengths]))
    return np.concatenate(made).astype(np.float32)


def mask_priors(
    size: tuple[int, int], scales: Sequence[float] = MASK_SCALES, ratios: Sequence[float] = MASK_RATIOS
) -> Float:
    """(n, 4) of YOLACT for an input of (width, height), whose grids are an eighth of it and halves of that.

    A prior of ratio r has both sides scale * sqrt(r): that is how its published weights were trained.
    """
    made = []
    for level, scale in enumerate(scales):
        cols, rows = (-(-length // (8 << level)) for length in size)
        sides = [(scale * ratio**0.5 / max(size),) * 2 for ratio in ratios]
        made.append(_cells((np.arange(cols) + 0.5) / cols, (np.arange(rows) + 0.5) / rows, sides))
    return np.concatenate(made).astype(np.float32)


def _cells(x: NDArray[Any], y: NDArray[Any], sides: Sequence[tuple[float, float]]) -> NDArray[Any]:
    """(rows * cols * sides, 4) of the centres of a grid."""
    made = np.empty((len(y), len(x), len(sides), 4))
    made[..., 0], made[..., 1], made[..., 2:] = x[None, :, None], y[:, None, None], sides
    return made.reshape(-1, 4)


def corners(offsets: NDArray[Any], priors: Float, variances: Sequence[float] = VARIANCES) -> NDArray[Any]:
    """Offsets (n, 4) of priors (n, 4) -> x1, y1, x2, y2 as fractions: `centre + 0.1 t wh`, `wh exp(0.2 t)`."""
    centre, size = np.float32(variances[0]), np.float32(variances[1])
    middle = priors[:, :2] + offsets[:, :2] * centre * priors[:, 2:]
    half = priors[:, 2:] * np.exp(np.clip(offsets[:, 2:] * size, -20, 20)) / 2
    return np.concatenate([middle - half, middle + half], 1)


def landmarks(offsets: NDArray[Any], priors: Float, variances: Sequence[float] = VARIANCES) -> NDArray[Any]:
    """Offsets (n, 2 k) of priors (n, 4) -> points (n, k, 2) as fractions."""
    points = offsets.reshape(len(offsets), -1, 2)
    return np.asarray(priors[:, None, :2] + points * np.float32(variances[0]) * priors[:, None, 2:])
