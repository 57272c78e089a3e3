"""The tails of single-shot detectors, with their anchors written out box by box as the graphs carry them."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from benchmarks.tails.faces import rows_of
from benchmarks.tails.graph import FLOAT, Graph

Boxes = NDArray[np.float64]  # (n, 4): centre y, centre x, height, width


def fpn_lite(
    width: int = 320, height: int = 320, classes: int = 90, ratios: Sequence[float] = (1.0, 2.0, 0.5), octaves: int = 2
) -> bytes:
    """Levels 3 to 7 with the multiscale anchors; box and class tensors alternate."""
    boxes, grids = [], []
    for level in range(3, 8):
        stride = 2**level
        grids.append((-(-height // stride), -(-width // stride)))
        for y in range(grids[-1][0]):
            for x in range(grids[-1][1]):
                for ratio in ratios:
                    for octave in range(octaves):
                        side = 4.0 * stride * 2 ** (octave / octaves)
                        cy = y * stride + (stride / 2 if height % stride == 0 else 0)
                        cx = x * stride + (stride / 2 if width % stride == 0 else 0)
                        h, w = side / sqrt(ratio), side * sqrt(ratio)
                        boxes.append((cy / height, cx / width, h / height, w / width))
    return _tail(grids, [len(ratios) * octaves] * 5, classes, np.array(boxes), alternate=True)


def ssd_300(
    grids: Sequence[int] = (19, 10, 5, 3, 2, 1), classes: int = 90, cut: int = 0, *, between_at: int = 5
) -> bytes:
    """Six levels with the anchors of ssd_anchor_generator; box tensors first. `cut` classes are dropped."""
    scales = [0.2 + 0.75 * i / (len(grids) - 1) for i in range(len(grids))] + [1.0]
    boxes, anchors = [], []
    for level, side in enumerate(grids):
        spec = [(scales[level], ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
        spec.insert(between_at, (sqrt(scales[level] * scales[level + 1]), 1.0))
        if level == 0:
            spec = [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
        anchors.append(len(spec))
        for y in range(side):
            for x in range(side):
                for scale, ratio in spec:
                    boxes.append(((y + 0.5) / side, (x + 0.5) / side, scale / sqrt(ratio), scale * sqrt(ratio)))
    return _tail([(side, side) for side in grids], anchors, classes, np.array(boxes), alternate=False, cut=cut)


def _tail(
    grids: Sequence[tuple[int, int]],
    anchors: Sequence[int],
    classes: int,
    boxes: Boxes,
    *,
    alternate: bool,
    cut: int = 0,
) -> bytes:
    graph, columns = Graph(), classes + 1 + cut
    kinds = {"box": 4, "class": columns}
    wanted = [(kind, level) for level in range(len(grids)) for kind in kinds]
    if not alternate:
        wanted.sort(key=lambda pair: pair[0] == "class")
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    for kind, level in wanted:
        given = graph.input(f"{kind}_{level}", (1, anchors[level] * kinds[kind], *grids[level]))
        found[kind].append(rows_of(graph, given, kinds[kind]))
    encoded = graph.add("Concat", *found["box"], axis=1)
    yx, hw = graph.constant(boxes[None, :, :2]), graph.constant(boxes[None, :, 2:])
    shift = graph.add("Mul", graph.add("Mul", graph.part(encoded, 2, 0, 2), graph.constant(0.1)), hw)
    centre = graph.add("Add", shift, yx)
    grown = graph.add("Exp", graph.add("Mul", graph.part(encoded, 2, 2, 4), graph.constant(0.2)))
    half = graph.add("Mul", graph.add("Mul", grown, hw), graph.constant(0.5))
    corners = graph.add("Sub", centre, half), graph.add("Add", centre, half)
    every = graph.add("Sigmoid", graph.add("Concat", *found["class"], axis=1))
    outputs = {
        "boxes": (graph.add("Concat", *corners, axis=2), 4),
        "scores": (graph.part(every, 2, 1, 1 + classes), classes),
    }
    return graph.model({name: (tensor, (1, len(boxes), width), FLOAT) for name, (tensor, width) in outputs.items()})
