"""The tails of heads that are maps: a chance at every pixel, and maps beside it that stay as they are."""

from __future__ import annotations

from benchmarks.tails.graph import FLOAT, Graph


def sigmoid_mask(height: int = 256, width: int = 256, classes: int = 1, *, channels_last: bool = False) -> bytes:
    """A sigmoid over one tensor: (1, classes, height, width), or (1, height, width, classes) as TensorFlow declares."""
    graph, shape = Graph(), (1, classes, height, width)
    made = graph.add("Sigmoid", graph.input("mask", shape))
    if channels_last:
        shape = (1, height, width, classes)
        made = graph.add("Transpose", made, perm=[0, 2, 3, 1]) if classes > 1 else graph.reshape(made, *shape)
    return graph.model({"chances": (made, shape, FLOAT)})


def centerface(height: int = 120, width: int = 160) -> bytes:
    """Heat through a sigmoid, then size, offset and landmarks."""
    graph, outputs = Graph(), {}
    for name, channels in (("heat", 1), ("size", 2), ("offset", 2), ("landmarks", 10)):
        shape = (1, channels, height, width)
        made = graph.input(f"device_{name}", shape)
        outputs[name] = graph.add("Sigmoid", made) if name == "heat" else made, shape, FLOAT
    return graph.model(outputs)
