"""Tails of YOLOs with a split head: YOLOv8 and its kin, YOLOv6, YOLOX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.tails.graph import FLOAT, Graph

STRIDES = (8, 16, 32)


def yolov8(
    size: tuple[int, int] = (640, 640),
    classes: int = 80,
    *,
    extra: str = "",
    channels: int = 0,
    bins: int = 16,
    strides: Sequence[int] = STRIDES,
) -> bytes:
    """(1, 4 + classes + channels, N). `extra` is "", "keypoint", "mask" or "angle", of `channels` channels a level;
    masks have a second output, the prototypes at a quarter of the input.
    """
    graph, grids = Graph(), _grids(size, strides)
    points, anchors, stride = _points(grids, 0.5)
    boxes = _joined(graph, "box", 4 * bins, grids)
    scores = graph.add("Sigmoid", _joined(graph, "class", classes, grids))
    rest = _joined(graph, extra, channels, grids) if extra else ""
    split = graph.add("Transpose", graph.reshape(boxes, 1, 4, bins, points), perm=[0, 2, 1, 3])
    weights = graph.constant(np.arange(bins).reshape(1, bins, 1, 1))
    distances = graph.reshape(graph.add("Conv", graph.add("Softmax", split, axis=1), weights), 1, 4, points)
    low, high = graph.part(distances, 1, 0, 2), graph.part(distances, 1, 2, 4)
    grid = graph.constant(anchors[None])
    parts = []
    if extra == "angle":
        quarter = graph.add("Sub", graph.add("Sigmoid", rest), graph.constant(0.25))
        rest = graph.add("Mul", quarter, graph.constant(np.pi))
        centre, edges = _turned(graph, low, high, rest, grid), graph.add("Add", low, high)
    else:
        first, last = graph.add("Sub", grid, low), graph.add("Add", grid, high)
        centre = graph.add("Div", graph.add("Add", first, last), graph.constant(2.0))
        edges = graph.add("Sub", last, first)
        if extra == "keypoint":
            rest = _keypoints(graph, rest, channels, points, anchors - 0.5, stride)
    box = graph.add("Mul", graph.add("Concat", centre, edges, axis=1), graph.constant(stride[None]))
    parts = [box, scores, *([rest] if extra else [])]
    outputs: dict[str, tuple[str, Sequence[int], int]] = {
        "output0": (graph.add("Concat", *parts, axis=1), (1, 4 + classes + channels, points), FLOAT)
    }
    if extra == "mask":
        shape = (1, channels, size[0] // 4, size[1] // 4)
        outputs["output1"] = (graph.input("proto", shape), shape, FLOAT)
    return graph.model(outputs)


def yolov6(size: tuple[int, int] = (640, 640), classes: int = 80, *, bins: int = 17) -> bytes:
    """(1, N, 5 + classes): centre, size, ones, scores."""
    graph, grids = Graph(), _grids(size, STRIDES)
    points, anchors, stride = _points(grids, 0.5)
    boxes = _joined(graph, "box", 4 * bins, grids)
    scores = graph.add("Sigmoid", _joined(graph, "class", classes, grids))
    distances = boxes
    if bins > 1:
        split = graph.add("Transpose", graph.reshape(boxes, 1, 4, bins, points), perm=[0, 2, 1, 3])
        weights = graph.constant(np.arange(bins).reshape(1, bins, 1, 1))
        distances = graph.reshape(graph.add("Conv", graph.add("Softmax", split, axis=1), weights), 1, 4, points)
    grid = graph.constant(anchors[None])
    first = graph.add("Sub", grid, graph.part(distances, 1, 0, 2))
    last = graph.add("Add", grid, graph.part(distances, 1, 2, 4))
    centre = graph.add("Div", graph.add("Add", first, last), graph.constant(2.0))
    edges = graph.add("Sub", last, first)
    box = graph.add("Mul", graph.add("Concat", centre, edges, axis=1), graph.constant(stride[None]))
    whole = graph.add("Concat", box, graph.constant(np.ones((1, 1, points))), scores, axis=1)
    return graph.model({"outputs": (graph.add("Transpose", whole, perm=[0, 2, 1]), (1, points, 5 + classes), FLOAT)})


def yolox(size: tuple[int, int] = (640, 640), classes: int = 80, *, decoded: bool = True) -> bytes:
    """(1, N, 5 + classes): box, objectness, scores; boxes in pixels, or left relative to the grid."""
    graph, grids = Graph(), _grids(size, STRIDES)
    points, anchors, stride = _points(grids, 0.0)
    levels = []
    for h, w in grids:
        box = graph.input(f"box{h}", (1, 4, h, w))
        objectness = graph.add("Sigmoid", graph.input(f"objectness{h}", (1, 1, h, w)))
        score = graph.add("Sigmoid", graph.input(f"class{h}", (1, classes, h, w)))
        levels.append(graph.reshape(graph.add("Concat", box, objectness, score, axis=1), 1, 5 + classes, h * w))
    rows = graph.add("Transpose", graph.add("Concat", *levels, axis=2), perm=[0, 2, 1])
    if decoded:
        pixels = graph.constant(stride.T[None])
        centre = graph.add("Add", graph.part(rows, 2, 0, 2), graph.constant(anchors.T[None]))
        edges = graph.add("Exp", graph.part(rows, 2, 2, 4))
        scaled = [graph.add("Mul", value, pixels) for value in (centre, edges)]
        rows = graph.add("Concat", *scaled, graph.part(rows, 2, 4, 5 + classes), axis=2)
    return graph.model({"output": (rows, (1, points, 5 + classes), FLOAT)})


def _grids(size: tuple[int, int], strides: Sequence[int]) -> list[tuple[int, int]]:
    return [(size[0] // stride, size[1] // stride) for stride in strides]


def _points(grids: Sequence[tuple[int, int]], offset: float) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """(number of points, x and y of each (2, n), stride of each (1, n)); the first stride is 8."""
    xs, ys, strides = [], [], []
    for h, w in grids:
        y, x = np.mgrid[0:h, 0:w]
        xs.append(x.ravel() + offset)
        ys.append(y.ravel() + offset)
        strides.append(np.full(h * w, 8.0 * grids[0][0] / h))
    both = np.stack([np.concatenate(xs), np.concatenate(ys)])
    return both.shape[1], both, np.concatenate(strides)[None]


def _joined(graph: Graph, role: str, channels: int, grids: Sequence[tuple[int, int]]) -> str:
    """The inputs of a role, one a level, as (1, channels, N)."""
    levels = [graph.reshape(graph.input(f"{role}{h}", (1, channels, h, w)), 1, channels, h * w) for h, w in grids]
    return str(graph.add("Concat", *levels, axis=2))


def _turned(graph: Graph, low: str, high: str, angle: str, grid: str) -> str:
    """The centre of an oriented box: its offset from the grid point, turned."""
    half = graph.add("Div", graph.add("Sub", high, low), graph.constant(2.0))
    x, y = graph.part(half, 1, 0, 1), graph.part(half, 1, 1, 2)
    cos, sin = graph.add("Cos", angle), graph.add("Sin", angle)
    turned_x = graph.add("Sub", graph.add("Mul", x, cos), graph.add("Mul", y, sin))
    turned_y = graph.add("Add", graph.add("Mul", x, sin), graph.add("Mul", y, cos))
    return str(graph.add("Add", graph.add("Concat", turned_x, turned_y, axis=1), grid))


def _keypoints(
    graph: Graph, raw: str, channels: int, points: int, grid: NDArray[np.float64], stride: NDArray[np.float64]
) -> str:
    """x and y in pixels, and the chance that a keypoint is seen."""
    split = graph.reshape(raw, 1, channels // 3, 3, points)
    twice = graph.add("Mul", graph.part(split, 2, 0, 2), graph.constant(2.0))
    pixels = graph.add("Mul", graph.add("Add", twice, graph.constant(grid[None, None])), graph.constant(stride))
    seen = graph.add("Sigmoid", graph.part(split, 2, 2, 3))
    return graph.reshape(graph.add("Concat", pixels, seen, axis=2), 1, channels, points)
