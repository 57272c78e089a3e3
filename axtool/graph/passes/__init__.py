"""An ONNX model as the user wrote it  ->  the same numbers in the fewest ops that the device knows.

The list below is the whole pipeline, in order; the passes that open the way for each other run again until none
hits. Each is a function of a `Work` that changes it and returns how often it hit. After any of them onnxruntime still
runs the graph: ops that ONNX lacks carry their body as a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from axtool.graph.functions import attach
from axtool.graph.passes.absorb_qdq import absorb_qdq
from axtool.graph.passes.batch_first import batch_first
from axtool.graph.passes.cancel_transposes import cancel_transposes
from axtool.graph.passes.ffn_gemm import ffn_gemm
from axtool.graph.passes.fold_affine import fold_affine
from axtool.graph.passes.fold_batchnorm import fold_batchnorm
from axtool.graph.passes.fold_constants import fold_constants
from axtool.graph.passes.fold_forward import fold_forward
from axtool.graph.passes.fold_pad import fold_pad
from axtool.graph.passes.fuse_attention import fuse_attention
from axtool.graph.passes.fuse_clip import fuse_clip
from axtool.graph.passes.fuse_gates import fuse_gates
from axtool.graph.passes.fuse_layer_norm import fuse_layer_norm
from axtool.graph.passes.gather_to_slice import gather_to_slice
from axtool.graph.passes.import_integer import import_integer
from axtool.graph.passes.import_nbits import import_nbits
from axtool.graph.passes.import_qoperator import import_qoperator
from axtool.graph.passes.infer import infer_shapes
from axtool.graph.passes.match_custom import match_custom
from axtool.graph.passes.merge_duplicates import merge_duplicates
from axtool.graph.passes.merge_views import merge_views
from axtool.graph.passes.normalize_arithmetic import normalize_arithmetic
from axtool.graph.passes.onnxsim_adapter import run_onnxsim
from axtool.graph.passes.pad_constants import pad_constants
from axtool.graph.passes.push_clamps import push_clamps
from axtool.graph.passes.remove_noops import remove_noops
from axtool.graph.passes.restore_qdq import restore_qdq
from axtool.graph.passes.select_early import select_early
from axtool.graph.passes.simplify_pools import simplify_pools
from axtool.graph.passes.split_projections import split_projections
from axtool.graph.passes.tidy import drop_unused, inline_functions, lift_constants
from axtool.graph.passes.unfuse_gemm import unfuse_gemm
from axtool.graph.passes.widen_floats import widen_floats
from axtool.graph.passes.work import Work, remove_unused
from axtool.optimizations import check_names
from axtool.types import QFormat

FUSE_PROJECTIONS = "fuse-projections"  # of linears that a recipe wants in fp16 (`graph.fuse_wished`)
ROUNDS = 4  # real graphs need one or two


class Pass(NamedTuple):
    name: str
    run: Callable[[Work], int]
    reshapes: bool = False  # shapes have to be inferred again after a hit
    again: bool = False  # runs in further rounds too
    makes: tuple[str, ...] = ()  # ops that it makes of others: it only runs where the device takes them


PASSES: tuple[Pass, ...] = (
    Pass("inline-functions", inline_functions, reshapes=True),
    Pass("lift-constants", lift_constants),
    Pass("remove-noops", remove_noops),
    Pass("fold-constants", fold_constants),
    Pass("run-onnxsim", run_onnxsim),
    Pass("widen-floats", widen_floats),
    Pass("import-integer", import_integer),
    Pass("import-qoperator", import_qoperator, reshapes=True),
    Pass("import-nbits", import_nbits, reshapes=True),
    Pass("absorb-qdq", absorb_qdq, reshapes=True),
    Pass("fold-constants-again", fold_constants),
    Pass("match-custom", match_custom),
    Pass("normalize-arithmetic", normalize_arithmetic, again=True),
    Pass("remove-noops-again", remove_noops, again=True),
    Pass("fuse-layer-norm", fuse_layer_norm, again=True, makes=("LayerNormalization",)),
    Pass("fuse-attention", fuse_attention, again=True, makes=("Attention",)),
    Pass("split-projections", split_projections, again=True, makes=("Attention",)),
    Pass("unfuse-gemm", unfuse_gemm, again=True, makes=("Attention",)),
    Pass("select-early", select_early, reshapes=True, again=True, makes=("Attention",)),
    Pass("gather-to-slice", gather_to_slice, again=True, makes=("Attention",)),
    Pass("pad-constants", pad_constants, again=True, makes=("Attention",)),
    Pass("batch-first", batch_first, again=True, makes=("Attention",)),
    Pass("merge-views", merge_views, again=True, makes=("Attention",)),
    Pass("fuse-clip", fuse_clip, again=True),
    Pass("fuse-gates", fuse_gates, again=True),
    Pass("push-clamps", push_clamps, again=True),
    Pass("cancel-transposes", cancel_transposes, reshapes=True, again=True),
    Pass("fold-batchnorm", fold_batchnorm, again=True),
    Pass("fold-affine", fold_affine, again=True),
    Pass("fold-forward", fold_forward, again=True),
    Pass("simplify-pools", simplify_pools, again=True),
    Pass("fold-pad", fold_pad, again=True),
    # and after the rounds:
    Pass("ffn-gemm", ffn_gemm, makes=("Attention",)),
    Pass("merge-duplicates", merge_duplicates),
    Pass("drop-unused", drop_unused),
)


@dataclass(frozen=True, slots=True)
class PassResult:
    """How often a pass hit."""

    name: str
    count: int


@dataclass(frozen=True)
class Cleaned:
    """The clean model and how it came to be.

    `given`: tensor name -> the format that the file prescribes (QDQ and QOperator models), weights with one scale for
    each output channel.
    """

    model: ir.Model
    log: tuple[PassResult, ...] = ()
    given: Mapping[str, QFormat] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Check = Callable[[ir.Model, ir.Model, str], None]


def clean(
    model: ir.Model, *, check: Check | None = None, disable: Collection[str] = (), takes: Collection[str] = ()
) -> Cleaned:
    """Run the passes on `model`, which is changed; the result holds the clean one.

    `check(before, after, name)` is called after each pass that hit (see `checking.Checker`). `disable` names passes to
    leave out; an unknown name raises UsageError. `takes` are the ops that the device runs (`limits.taken_ops`): what
    would make an op beyond ONNX's small ones for a device that lacks it is left out.
    """
    check_names(disable, [*(step.name for step in PASSES), FUSE_PROJECTIONS])
    work = Work(model)
    infer_shapes(model)
    counts = {step.name: 0 for step in PASSES if step.name not in disable}
    steps = [step for step in PASSES if step.name in counts and set(step.makes) <= set(takes)]
    for step in steps[: _last_repeated(steps)]:
        counts[step.name] += _run(work, step, check)
    for _ in range(ROUNDS):
        more = {step.name: _run(work, step, check) for step in steps if step.again}
        counts = {name: count + more.get(name, 0) for name, count in counts.items()}
        if not any(more.values()):
            break
    for step in steps[_last_repeated(steps) :]:
        counts[step.name] += _run(work, step, check)
    log = tuple(PassResult(name, count) for name, count in counts.items())
    infer_shapes(work.model)
    return Cleaned(work.model, log, _given(work), tuple(work.notes))


def _last_repeated(steps: Sequence[Pass]) -> int:
    """The position behind the last pass that runs in rounds."""
    return max((at + 1 for at, step in enumerate(steps) if step.again), default=len(steps))


def _run(work: Work, step: Pass, check: Check | None) -> int:
    before = _rounding(work) if check is not None else None
    count = step.run(work)
    if count:
        remove_unused(work)  # a value that only dead nodes read would look as if it were read
    if count and step.reshapes:
        infer_shapes(work.model)
    if count and check is not None and before is not None:
        check(before, _rounding(work), step.name)
    return count


def _rounding(work: Work) -> ir.Model:
    """A copy of the model as it is, which rounds where the file rounds."""
    return restore_qdq(attach(work.model).clone(), _given(work))


def _given(work: Work) -> dict[str, QFormat]:
    live = {value for node in work.graph for value in (*node.inputs, *node.outputs)}
    return {value.name: fmt for value, fmt in work.given.items() if value.name and value in live}
