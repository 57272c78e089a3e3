"""The output of a semantic segmenter  ->  the class of every pixel, and by how much it won.

An output of whole numbers is a map of labels already: (h, w), with axes of one around it. One of floats has the scores
of the classes along one axis; with a single score a pixel it is the chance of class 1, which is there above a
threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.prepare import Placement

THRESHOLD = 0.5
Array = NDArray[Any]


def is_label_map(output: Array) -> bool:
    """Whether an output holds labels and no scores."""
    return output.dtype.kind in "iub"


def label_map(output: Array, threshold: float = THRESHOLD, classes: int | None = None) -> NDArray[np.int64]:
    """The labels (h, w). Raises ValueError for an output that is neither labels nor scores of a picture."""
    if is_label_map(output):
        if output.ndim < 2 or output.size != np.prod(size := _picture(output.shape)):
            raise ValueError(f"labels of shape {output.shape}, want (h, w) with axes of one around it")
        return output.reshape(size).astype(np.int64)
    scores = scores_of(output, classes)
    return np.asarray(scores[0] > threshold if len(scores) == 1 else scores.argmax(0), np.int64)


def margins(output: Array, threshold: float = THRESHOLD, classes: int | None = None) -> NDArray[np.float64]:
    """How far the best score of each pixel (h, w) is above the second, or one chance from its threshold."""
    scores = scores_of(output, classes)
    if len(scores) == 1:
        return np.asarray(np.abs(scores[0].astype(np.float64) - threshold))
    second, best = np.partition(scores, len(scores) - 2, axis=0)[-2:].astype(np.float64)
    return np.asarray(best - second)


def scores_of(output: Array, classes: int | None = None) -> Array:
    """(classes, h, w) of an output of rank 4 or 3: its classes are the first of the last three axes, or the last.

    They are last where only that axis has as many entries as there are `classes`, or, where nobody says how many there
    are, where it is shorter than both others.
    """
    if is_label_map(output) or output.ndim not in (3, 4) or (output.ndim == 4 and output.shape[0] != 1):
        raise ValueError(f"no scores of one picture: {output.dtype} {output.shape}")
    rows = output[0] if output.ndim == 4 else output
    first, middle, last = rows.shape
    is_last = last == classes != first if classes in (first, last) else last < min(first, middle)
    return np.moveaxis(rows, 2, 0) if is_last else rows


def shares(labels: NDArray[np.int64], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The classes of a map with their share of its pixels, the largest first, as plain values."""
    index, count = np.unique(labels, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return [
        {
            "index": int(index[at]),
            "label": names[index[at]] if 0 <= index[at] < len(names) else str(index[at]),
            "share": float(count[at] / labels.size),
        }
        for at in order
    ]


def over_picture(labels: NDArray[np.int64], placement: Placement) -> NDArray[np.int64]:
    """The label of every pixel of the picture (height, width), from those (h, w) of all of the model's input, which may
    be more or fewer than that has pixels. -1 where the input shows no part of the picture, as when it is cropped.
    """
    ys, xs = (
        np.floor(((np.arange(pixels) + 0.5) * scale + offset) * entries / size).astype(np.int64)
        for pixels, scale, offset, entries, size in zip(
            placement.image_size, (placement.scale_y, placement.scale_x), (placement.offset_y, placement.offset_x),
            labels.shape, placement.model_size, strict=True,
        )
    )  # fmt: skip
    height, width = labels.shape
    inside = ((ys >= 0) & (ys < height))[:, None] & ((xs >= 0) & (xs < width))
    return np.where(inside, labels[np.ix_(ys.clip(0, height - 1), xs.clip(0, width - 1))], -1)


def first_map(task: Mapping[str, Any], outputs: Mapping[str, Array]) -> str:
    """The name of the output that holds the map: the first that `task` lists, else the first of the model."""
    listed = task.get("outputs") or ()
    return str(listed[0]) if listed else next(iter(outputs))


def _picture(shape: Sequence[int]) -> tuple[int, int]:
    """The sizes of a map whose other axes are one: a picture of one row or column keeps its side of one."""
    if shape[-1] == 1 and len(shape) > 2 and shape[0] == 1:  # (1, h, w, 1)
        return int(shape[-3]), int(shape[-2])
    return int(shape[-2]), int(shape[-1])
