"""Decoders of heads that are maps: faces of CenterFace, regions of text of DBNet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.detect import DECODERS
from axtool.runtime.op.decode import rows_of
from axtool.runtime.op.operator import Operator

Float = NDArray[np.float32]


class DecodeCenterFace(Operator):
    """Rows (n, 6) of heat (1, 1, h, w), size and offset (1, 2, h, w); landmarks are not read."""

    confidence_threshold: float = 0.3

    def __call__(self, heat: Any, size: Any, offset: Any, landmarks: Any = None) -> Float:
        outputs = {"heat": np.asarray(heat), "size": np.asarray(size), "offset": np.asarray(offset)}
        return _rows("centerface", {"outputs": list(outputs)}, outputs, self.confidence_threshold)


class DecodeDbnet(Operator):
    """Rows (n, 6) of the chance of text (1, 1, h, w): regions above `mask_threshold`, grown by area * unclip /
    perimeter, whose mean chance is above the threshold.
    """

    confidence_threshold: float = 0.5
    mask_threshold: float = 0.3
    unclip: float = 1.5

    def __call__(self, chance: Any) -> Float:
        task = {"mask_threshold": self.mask_threshold, "unclip": self.unclip}
        return _rows("dbnet", task, {"chance": np.asarray(chance)}, self.confidence_threshold)


def _rows(decode: str, task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]], threshold: float) -> Float:
    for name, array in outputs.items():
        if array.ndim != 4 or array.shape[0] != 1:
            raise ValueError(f"{decode}: want {name} (1, c, h, w), got {array.shape}")
    found = DECODERS[decode](task, outputs, threshold)
    return rows_of(
        found.boxes.astype(np.float32), found.scores.astype(np.float32), found.classes.astype(np.intp), "xyxy"
    )
