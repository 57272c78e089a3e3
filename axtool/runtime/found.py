"""What a decoder gives: boxes, scores and classes in pixels of the model's input, and what belongs to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Found(NamedTuple):
    """boxes (n, 4) x1, y1, x2, y2; scores (n,); classes (n,), and what a pose or a segmentation has beside them.

    A mask is `coefficients @ prototypes > 0` inside its box; the prototypes lie over the whole input of the model.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]
    keypoints: NDArray[np.float64] | None = None  # (n, k, 3): x, y, how sure
    coefficients: NDArray[np.float64] | None = None  # (n, m)
    prototypes: NDArray[np.float64] | None = None  # (m, h, w)

    def at(self, rows: NDArray[Any]) -> Found:
        """These rows, by index or by mask."""
        keypoints = None if self.keypoints is None else self.keypoints[rows]
        coefficients = None if self.coefficients is None else self.coefficients[rows]
        return Found(self.boxes[rows], self.scores[rows], self.classes[rows], keypoints, coefficients, self.prototypes)
