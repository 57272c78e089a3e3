"""A clean model and what a recipe wants of its nodes  ->  projections wanted in fp16 fused, the wishes as they were.

In int8 one linear for queries, keys and values would give three ranges one scale, and a bias with a row for each token
has no place in an int32 accumulator; in fp16 neither matters. So this rewrite waits for the recipe.
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from axtool.graph.functions import attach
from axtool.graph.passes import FUSE_PROJECTIONS, Check, Cleaned, PassResult
from axtool.graph.passes.fuse_projections import fuse_projections
from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.restore_qdq import restore_qdq
from axtool.graph.passes.work import Work, values_of
from axtool.graph.split import Wishes


def fuse_wished(cleaned: Cleaned, wishes: Wishes, check: Check | None = None) -> tuple[Cleaned, Wishes]:
    """Fuse groups all of whose products are wanted in fp16. The model is changed, and the wishes follow its nodes.

    `check(before, after, name)` is called if anything was fused.
    """
    graph = cleaned.model.graph
    nodes = tuple(graph)
    real = {nodes[at] for at, kind in wishes.precision.items() if kind == "fp16"}
    work = Work(cleaned.model)
    work.given = {v: cleaned.given[v.name] for v in values_of(graph) if v.name and v.name in cleaned.given}
    before = _runnable(cleaned) if check is not None and real else None
    count = fuse_projections(work, real.__contains__) if real else 0
    cleaned = replace(cleaned, log=(*cleaned.log, PassResult(FUSE_PROJECTIONS, count)))
    if not count:
        return cleaned, wishes
    infer_shapes(cleaned.model)
    if check is not None and before is not None:
        check(before, _runnable(cleaned), FUSE_PROJECTIONS)
    places = {node: at for at, node in enumerate(graph)}
    old = {at: places[node] for at, node in enumerate(nodes) if node in places}
    known = set(nodes)
    made = [at for node, at in places.items() if node not in known and node.op_type == "Add"]
    return cleaned, replace(
        wishes,
        host={old[at]: reason for at, reason in wishes.host.items() if at in old},
        device=frozenset(old[at] for at in wishes.device if at in old) | frozenset(made),
        precision={old[at]: kind for at, kind in wishes.precision.items() if at in old} | {at: "fp16" for at in made},
    )


def _runnable(cleaned: Cleaned) -> ir.Model:
    """A copy that rounds where the file rounds."""
    return restore_qdq(attach(cleaned.model).clone(), cleaned.given)
