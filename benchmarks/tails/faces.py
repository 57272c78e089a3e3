"""The tails of face detectors whose heads are joined and activated: RetinaFace, UltraFace, BlazeFace, YuNet, SCRFD."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.tails.graph import FLOAT, Graph


def retinaface(width: int = 640, height: int = 640, anchors: int = 2, strides: Sequence[int] = (8, 16, 32)) -> bytes:
    """loc, conf after the softmax, landms; the tensors of a kind lie together."""
    graph, outputs = Graph(), {}
    grids = [(height // stride, width // stride) for stride in strides]
    rows = sum(anchors * h * w for h, w in grids)
    for name, values in (("loc", 4), ("conf", 2), ("landms", 10)):
        given = [graph.input(f"{name}_{h}", (1, anchors * values, h, w)) for h, w in grids]
        joined = graph.add("Concat", *(rows_of(graph, value, values) for value in given), axis=1)
        made = graph.add("Softmax", joined, axis=-1) if name == "conf" else joined
        outputs[name] = made, (1, rows, values), FLOAT
    return graph.model(outputs)


def ultraface(width: int = 320, height: int = 240, *, decoded: bool = True) -> bytes:
    """scores after the softmax, and boxes: corners x1, y1, x2, y2 where `decoded`, else as encoded."""
    graph = Graph()
    sides = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))
    classes, boxes = [], []
    priors: list[tuple[float, ...]] = []
    for of_level, stride in zip(sides, (8, 16, 32, 64), strict=True):
        h, w = -(-height // stride), -(-width // stride)
        for y in range(h):
            for x in range(w):
                cx, cy = (x + 0.5) / w, (y + 0.5) / h
                priors.extend((cx, cy, side / width, side / height) for side in of_level)
        count = len(of_level)
        classes.append(rows_of(graph, graph.input(f"class_{stride}", (1, count * 2, h, w)), 2))
        boxes.append(rows_of(graph, graph.input(f"box_{stride}", (1, count * 4, h, w)), 4))
    scores = graph.add("Softmax", graph.add("Concat", *classes, axis=1), axis=2)
    encoded = made = graph.add("Concat", *boxes, axis=1)
    if decoded:
        prior = np.clip(np.array(priors), 0, 1)[None]
        size = graph.constant(prior[..., 2:])
        shift = graph.add("Mul", graph.add("Mul", graph.part(encoded, 2, 0, 2), graph.constant(0.1)), size)
        centre = graph.add("Add", shift, graph.constant(prior[..., :2]))
        grown = graph.add("Exp", graph.add("Mul", graph.part(encoded, 2, 2, 4), graph.constant(0.2)))
        half = graph.add("Div", graph.add("Mul", grown, size), graph.constant(2))
        corners = graph.add("Sub", centre, half), graph.add("Add", centre, half)
        made = graph.add("Concat", *corners, axis=2)
    return graph.model({"scores": (scores, (1, len(priors), 2), FLOAT), "boxes": (made, (1, len(priors), 4), FLOAT)})


def blazeface(grids: Sequence[tuple[int, int]] = ((16, 2), (8, 6))) -> bytes:
    """One output for each tensor: scores (1, rows, 1) of every (side, anchors), then regressors (1, rows, 16)."""
    graph, outputs = Graph(), {}
    for kind, values in (("scores", 1), ("regressors", 16)):
        for side, anchors in grids:
            given = graph.input(f"{kind}_of_{side}", (1, anchors * values, side, side))
            outputs[f"{kind}_{side}"] = rows_of(graph, given, values), (1, side * side * anchors, values), FLOAT
    return graph.model(outputs)


def yunet(width: int = 640, height: int = 640, strides: Sequence[int] = (8, 16, 32)) -> bytes:
    """Twelve outputs: cls, obj (both after the sigmoid), bbox, kps of every stride."""
    graph, outputs = Graph(), {}
    for kind, values in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        for stride in strides:
            h, w = height // stride, width // stride
            rows = rows_of(graph, graph.input(f"{kind}_of_{stride}", (1, values, h, w)), values)
            made = graph.add("Sigmoid", rows) if values == 1 else rows
            outputs[f"{kind}_{stride}"] = made, (1, h * w, values), FLOAT
    return graph.model(outputs)


def scrfd(
    width: int = 640, height: int = 640, anchors: int = 2, *, keypoints: bool = True, batched: bool = False
) -> bytes:
    """Scores after the sigmoid, box distances and keypoints of every stride, all grids of a kind together.

    The first exports declare plain rows (n, values); those for batches keep the leading axis.
    """
    graph, outputs = Graph(), {}
    kinds = (("score", 1), ("bbox", 4), *((("kps", 10),) if keypoints else ()))
    grids = {stride: (height // stride, width // stride) for stride in (8, 16, 32)}
    given = {
        (name, stride): graph.input(f"{name}_of_{stride}", (1, anchors * values, *grid))
        for stride, grid in grids.items()
        for name, values in kinds
    }
    for name, values in kinds:
        for stride, (h, w) in grids.items():
            shape = (*((1,) if batched else ()), h * w * anchors, values)
            rows = graph.add("Transpose", given[name, stride], perm=[0, 2, 3, 1])
            rows = graph.reshape(rows, *shape)
            outputs[f"{name}_{stride}"] = graph.add("Sigmoid", rows) if name == "score" else rows, shape, FLOAT
    return graph.model(outputs)


def rows_of(graph: Graph, value: str, width: int) -> str:
    """(1, c, h, w) as rows of `width` values, pixel by pixel."""
    return graph.reshape(graph.add("Transpose", value, perm=[0, 2, 3, 1]), 1, -1, width)
