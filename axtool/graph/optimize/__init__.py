"""A clean model  ->  one that its target runs in fewer cycles: rewrites that hold by algebra, each by name.

Which of them run is said by `axtool.optimizations`: a target lists what pays there, a user disables. They come behind
the passes that clean a model, and onnxruntime still runs what they make. Where a rewrite changes what the model
computes, beyond the order of sums, its contract says *measured*, and no check compares the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import onnx_ir as ir

from axtool.graph.functions import attach
from axtool.graph.optimize.fuse_before_upsample import fuse_before_upsample
from axtool.graph.optimize.replicate_labels import replicate_labels
from axtool.graph.optimize.space_to_depth import space_to_depth_reduction, space_to_depth_stem
from axtool.graph.optimize.split_resize import split_resize
from axtool.graph.passes import Check, Cleaned, PassResult
from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.restore_qdq import restore_qdq
from axtool.graph.passes.work import Work, remove_unused, values_of
from axtool.optimizations import check_names, enabled
from axtool.target import Target

Rewrite = Callable[[Work, Target], int]

REWRITES: Mapping[str, Rewrite] = {
    "split-resize": split_resize,
    "fuse-before-upsample": fuse_before_upsample,
    "space-to-depth-stem": space_to_depth_stem,
    "space-to-depth-reduction": space_to_depth_reduction,
    "replicate-labels": replicate_labels,
}
APPROXIMATE = ("split-resize", "replicate-labels")  # other numbers in float, too


def optimize(
    cleaned: Cleaned,
    target: Target,
    *,
    disable: Collection[str] = (),
    enable: Collection[str] = (),
    check: Check | None = None,
) -> Cleaned:
    """Run the rewrites that `target` lists, without those in `disable` and with those in `enable`.

    The model is changed. `check(before, after, name)` is called after each rewrite that hit and keeps the numbers.
    """
    check_names(enable, ())
    work = Work(cleaned.model)
    work.given = {
        value: cleaned.given[value.name]
        for value in values_of(work.graph)
        if value.name and value.name in cleaned.given
    }
    log = list(cleaned.log)
    for name in enabled((*target.optimizations, *enable), disable, "graph"):
        before = _runnable(work, cleaned) if check is not None and name not in APPROXIMATE else None
        count = REWRITES[name](work, target)
        log.append(PassResult(name, count))
        if count:
            remove_unused(work)
            infer_shapes(work.model)
        if count and check is not None and before is not None:
            check(before, _runnable(work, cleaned), name)
    return replace(cleaned, model=work.model, log=tuple(log))


def _runnable(work: Work, cleaned: Cleaned) -> ir.Model:
    """A copy that rounds where the file rounds."""
    return restore_qdq(attach(work.model).clone(), cleaned.given)
