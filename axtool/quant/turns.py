"""Stages, samples and what earlier turns quantized  ->  what the tensors of a later turn hold there.

A range that is looked for on the float model does not know what rounding did before it. In turn 2 the tensors that a
recipe names are observed on the model in which all else is quantized already, in turn 3 after those of turn 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import onnx_ir as ir

from axtool.graph.split import Stage
from axtool.inputs.samples import Samples
from axtool.quant.calib_cache import CalibCache
from axtool.quant.calibrate import Statistics
from axtool.quant.clip import clip
from axtool.quant.jobs import observe_in_processes
from axtool.quant.memory import give_back
from axtool.quant.observe import Progress, Work, observe
from axtool.quant.observers import MinMax
from axtool.quant.partly import partly_quantized
from axtool.quant.pieces import BUDGET_BYTES, Piece, cut
from axtool.quant.scales import Scales
from axtool.types import Quantization


@dataclass(frozen=True)
class Turn:
    """What one turn observes, and what is quantized before it, by tensor."""

    observed: Collection[str]
    quantized: Set[str]


PIECE_WEIGHTS = 32 << 20  # bytes: while a piece is written its weights are in memory twice more
Later = Mapping[tuple[int, str], MinMax]  # what a turn after the first saw of a tensor


def turn_of(scales: Scales, turn: int, tensors: Collection[str]) -> Turn:
    """What a turn is for, of the tensors of a model."""
    observed = [name for name in tensors if scales.turns.get(name, 1) == turn]
    observed += [name for name, read in scales.reads.items() if read.turn == turn]
    before = {name for name in tensors if scales.turns.get(name, 1) < turn}
    return Turn(tuple(dict.fromkeys(observed)), before)


def with_later(statistics: Statistics, scales: Scales, later: Later) -> Statistics:
    """The statistics in which each tensor was seen in its own turn, as far as the turns have come."""
    own = {name: later[turn, name] for name, turn in scales.turns.items() if (turn, name) in later}
    observers = {name: own.get(name, seen) for name, seen in statistics.seen.observers.items()}
    seen = replace(statistics.seen, observers=observers)
    return Statistics(seen, statistics.held, statistics.natural, statistics.names)


def reads_of(
    statistics: Statistics, scales: Scales, later: Later, method: str, percentile: float
) -> dict[str, tuple[float, float]]:
    """The ranges in which int8 nodes read what is stored in fx32 or fp16, where the recipe says how they are found."""
    found: dict[str, tuple[float, float]] = {}
    for name, read in scales.reads.items():
        seen = later.get((read.turn, name), statistics.seen.observers.get(name))
        if read.span is not None:
            found[name] = read.span
        elif seen is not None and seen.finite:
            found[name] = clip(seen, *(read.way or (method, percentile)))
    return found


def observe_turn(
    stages: Sequence[Stage],
    numbers: Sequence[Quantization],
    turn: Turn,
    samples: Samples,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    cache: CalibCache | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> dict[str, MinMax]:
    """What each observed tensor held over the samples. `numbers` are those of the device stages, in order."""
    give_back()  # what the turn before has freed
    work = _work(stages, numbers, turn, budget_bytes)
    entry = cache.entry(work, samples, ()) if cache is not None and cache.is_folder else None
    found = None if entry is None else entry.read(work)
    if found is not None:
        return found[0].observers
    if jobs > 1 and len(samples) > 1:
        seen, apart = observe_in_processes(work, samples, min(jobs, len(samples)), progress)
    else:
        seen, apart = observe(work, samples, progress)
        give_back()
    if entry is not None:
        entry.write(seen, apart)
    return seen.observers


def _work(stages: Sequence[Stage], numbers: Sequence[Quantization], turn: Turn, budget_bytes: int) -> Work:
    """The pieces of the model so far, as far as the observed tensors need them."""
    made = [{value.name or "" for node in stage.model.graph for value in node.outputs} for stage in stages]
    last = max((at for at, names in enumerate(made) if not names.isdisjoint(turn.observed)), default=-1)
    remaining = iter(numbers)
    pieces: list[Piece] = []
    for at, stage in enumerate(stages[: last + 1]):
        if stage.kind == "device":
            proto = ir.to_proto(partly_quantized(stage, next(remaining), turn.quantized))
            give_back()  # the copy is gone: else its weights are there beside those of the pieces
        else:
            proto = ir.to_proto(stage.model)
        needed = {name for later in stages[at + 1 : last + 1] for name in later.inputs} & set(stage.outputs)
        observed = [name for name in turn.observed if name in made[at]]
        if observed or needed:
            pieces += cut(proto, observed, needed, budget_bytes, PIECE_WEIGHTS)
            del proto
    inside = {name for names in made for name in names}
    entered = tuple(name for name in turn.observed if name not in inside)
    return Work(tuple(pieces), entered, histograms=True)
