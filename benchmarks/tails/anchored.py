"""The tail of a packed anchor head: YOLOv5 and YOLOv7."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.tails.graph import FLOAT, Graph

ANCHORS = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)


def yolov5(
    width: int = 640,
    height: int = 640,
    classes: int = 80,
    anchors: Sequence[Sequence[tuple[float, float]]] = ANCHORS,
    strides: Sequence[int] = (8, 16, 32),
) -> bytes:
    """output (1, rows, 5 + classes) from one tensor (1, anchors * (5 + classes), h, w) a level."""
    graph, found = Graph(), []
    values = 5 + classes
    for level, (pairs, stride) in enumerate(zip(anchors, strides, strict=True)):
        h, w, count = height // stride, width // stride, len(pairs)
        given = graph.input(f"level_{level}", (1, count * values, h, w))
        split = graph.reshape(given, 1, count, values, h, w)
        logits = graph.add("Transpose", split, perm=[0, 1, 3, 4, 2])
        s = graph.add("Sigmoid", logits)
        two, y_x = graph.constant(2), np.mgrid[:h, :w]
        cell = graph.constant(np.stack([y_x[1], y_x[0]], -1)[None, None] - 0.5)
        xy = graph.add("Add", graph.add("Mul", graph.part(s, 4, 0, 2), two), cell)
        square = graph.add("Pow", graph.add("Mul", graph.part(s, 4, 2, 4), two), two)
        joined = graph.add(
            "Concat",
            graph.add("Mul", xy, graph.constant(stride)),
            graph.add("Mul", square, graph.constant(np.array(pairs).reshape(1, count, 1, 1, 2))),
            graph.part(s, 4, 4, values),
            axis=4,
        )
        found.append(graph.reshape(joined, 1, count * h * w, values))
    rows = sum(
        len(pairs) * (height // stride) * (width // stride) for pairs, stride in zip(anchors, strides, strict=True)
    )
    return graph.model({"output": (graph.add("Concat", *found, axis=1), (1, rows, values), FLOAT)})


def yolov2(width: int, height: int, classes: int, anchors: Sequence[tuple[float, float]], stride: int = 32) -> bytes:
    """output (1, rows, 5 + classes) of one level, with exp(t) * anchor for sizes."""
    graph, values = Graph(), 5 + classes
    h, w, count = height // stride, width // stride, len(anchors)
    given = graph.input("raw", (1, count * values, h, w))
    split = graph.reshape(given, 1, count, values, h, w)
    logits = graph.add("Transpose", split, perm=[0, 1, 3, 4, 2])
    y_x = np.mgrid[:h, :w]
    cell = graph.constant(np.stack([y_x[1], y_x[0]], -1)[None, None])
    xy = graph.add("Add", graph.add("Sigmoid", graph.part(logits, 4, 0, 2)), cell)
    sizes = graph.constant(np.array(anchors).reshape(1, count, 1, 1, 2))
    joined = graph.add(
        "Concat",
        graph.add("Mul", xy, graph.constant(stride)),
        graph.add("Mul", graph.add("Exp", graph.part(logits, 4, 2, 4)), sizes),
        graph.add("Sigmoid", graph.part(logits, 4, 4, values)),
        axis=4,
    )
    return graph.model({"output": (graph.reshape(joined, 1, -1, values), (1, count * h * w, values), FLOAT)})
