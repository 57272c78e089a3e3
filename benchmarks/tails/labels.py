"""The tail of a semantic segmentation network: scores enlarged, and the class of every pixel."""

from __future__ import annotations

import numpy as np

from benchmarks.tails.graph import INT64, Graph


def labels(height: int, width: int, classes: int, factor: int, *, keepdims: bool = False) -> bytes:
    """int64 (1, height * factor, width * factor) of one tensor (1, classes, height, width)."""
    graph, size = Graph(), (height * factor, width * factor)
    scores = graph.input("scores", (1, classes, height, width))
    if factor > 1:
        sizes = graph.constant([1, classes, *size], np.int64)
        scores = graph.add("Resize", scores, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    found = graph.add("ArgMax", scores, axis=1, keepdims=int(keepdims))
    return graph.model({"labels": (found, (1, 1, *size) if keepdims else (1, *size), INT64)})
