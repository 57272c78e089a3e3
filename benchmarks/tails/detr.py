"""The tail of a detection transformer: one row a query, its class scores and its box."""

from __future__ import annotations

from benchmarks.tails.graph import FLOAT, Graph


def detr(queries: int = 100, classes: int = 92, *, scores: str = "none", boxes_first: bool = False) -> bytes:
    """pred_logits (1, queries, classes), or scores after a 'softmax' or a 'sigmoid', and pred_boxes after a sigmoid.

    The device gives the tensors of the last two layers, in either order.
    """
    graph = Graph()
    given = {}
    for name in ("boxes", "logits") if boxes_first else ("logits", "boxes"):
        given[name] = graph.input(name, (1, queries, 4 if name == "boxes" else classes))
    made = given["logits"]
    if scores == "softmax":
        made = graph.add("Softmax", made, axis=-1)
    elif scores == "sigmoid":
        made = graph.add("Sigmoid", made)
    return graph.model(
        {
            "pred_logits": (made, (1, queries, classes), FLOAT),
            "pred_boxes": (graph.add("Sigmoid", given["boxes"]), (1, queries, 4), FLOAT),
        }
    )
