"""The tail of YOLACT: heads over five grids, and prototypes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.tails.faces import rows_of
from benchmarks.tails.graph import FLOAT, Graph


def yolact(
    grids: Sequence[int] = (69, 35, 18, 9, 5), classes: int = 80, masks: int = 32, anchors: int = 3, proto: int = 138
) -> bytes:
    """loc, conf after the softmax, mask after the tanh, proto; the tensors of a level lie together."""
    graph, outputs = Graph(), {}
    widths = {"loc": 4, "conf": classes + 1, "mask": masks}
    found: dict[str, list[str]] = {name: [] for name in widths}
    for side in grids:
        for name, width in widths.items():
            rows = rows_of(graph, graph.input(f"{name}_{side}", (1, anchors * width, side, side)), width)
            found[name].append(graph.add("Tanh", rows) if name == "mask" else rows)
    count = sum(anchors * side * side for side in grids)
    for name, width in widths.items():
        joined = graph.add("Concat", *found[name], axis=1)
        made = graph.add("Softmax", joined, axis=-1) if name == "conf" else joined
        outputs[name] = made, (1, count, width), FLOAT
    moved = graph.add("Transpose", graph.input("prototypes", (1, masks, proto, proto)), perm=[0, 2, 3, 1])
    return graph.model({**outputs, "proto": (moved, (1, proto, proto, masks), FLOAT)})
