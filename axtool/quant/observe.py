"""Stages and samples  ->  what was seen of each tensor: one streaming pass in onnxruntime, nothing kept but sums.

Samples that are held back are seen apart, and the float outputs of these are kept: recipes are tried on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.samples import Samples
from axtool.quant.data import DataFacts
from axtool.quant.equalize import Group, groups_of
from axtool.quant.means import ChannelMeans, averaged_axes
from axtool.quant.memory import give_back
from axtool.quant.observers import Histogram, MinMax
from axtool.quant.pieces import BUDGET_BYTES, Piece, cut
from axtool.quant.spread import ChannelExtremes
from axtool.quant.ties import given_names, natural_ranges, observed_names
from axtool.quant.weights import check_constants
from axtool.types import Site

if TYPE_CHECKING:
    import onnx_ir as ir

    from axtool.quant.session import FloatSession

Progress = Callable[[int, int], None]
Feeds = Mapping[str, NDArray[Any]]


class StageLike(Protocol):
    """What calibration needs of a stage: a complete model and the values it joins."""

    @property
    def kind(self) -> Literal["host", "device"]:
        """Which side runs it."""

    @property
    def model(self) -> ir.Model:
        """A model that runs on its own."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Values it reads."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Values it gives."""


@dataclass(frozen=True)
class Work:
    """What one process needs: the pieces in order, and how to observe. `watched` are outputs of the host's tail, which
    need no range: only whether they are finite is told. `averaged` are what MAC sites read, with their channel axis;
    of the `spread` tensors the extremes of each channel are kept.
    """

    pieces: tuple[Piece, ...]
    observed_inputs: tuple[str, ...]
    histograms: bool
    watched: tuple[str, ...] = ()
    averaged: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[str, ...] = ()  # outputs of the model, of samples that are held back
    spread: frozenset[str] = frozenset()


@dataclass
class Seen:
    """What one process saw. Merging the parts of any split gives the same bits."""

    observers: dict[str, MinMax]
    facts: DataFacts
    means: ChannelMeans
    extremes: ChannelExtremes
    watched: dict[str, MinMax] = field(default_factory=dict)
    kept: dict[tuple[int, str], NDArray[Any]] = field(default_factory=dict)  # by sample and output

    @classmethod
    def nothing(cls, work: Work) -> Seen:
        """Before the first sample."""
        names = (*work.observed_inputs, *(name for piece in work.pieces for name in piece.observed))
        observers: dict[str, MinMax] = {name: Histogram() if work.histograms else MinMax() for name in names}
        means, extremes = ChannelMeans(work.averaged), ChannelExtremes(work.spread)
        return cls(observers, DataFacts(), means, extremes, {name: MinMax() for name in work.watched})

    def merge(self, other: Seen) -> None:
        """Fold in what another process saw."""
        for name, observer in other.observers.items():
            self.observers[name].merge(observer)
        for name, observer in other.watched.items():
            self.watched[name].merge(observer)
        self.facts.merge(other.facts)
        self.means.merge(other.means)
        self.extremes.merge(other.extremes)
        self.kept |= other.kept

    def forget_histograms(self) -> None:
        """Keep of each tensor the extremes only."""
        self.observers = {
            name: MinMax(seen.low, seen.high, seen.count, seen.nan, seen.inf) for name, seen in self.observers.items()
        }

    def renumber(self, indices: Sequence[int]) -> None:
        """Sample i of this part is sample indices[i] of the whole."""
        self.facts.renumber(indices)
        self.means.renumber(indices)
        self.kept = {(indices[index], name): array for (index, name), array in self.kept.items()}


def plan_work(
    stages: Sequence[StageLike],
    histograms: bool,
    budget_bytes: int = BUDGET_BYTES,
    outputs: Sequence[str] = (),
    also: Collection[str] = (),
) -> tuple[Work, dict[str, tuple[float, float]]]:
    """The pieces that calibration runs, and the ranges that are known without running.

    `outputs` are those of the model, to keep of the samples that are held back; `also` are tensors to observe beside
    those that need a range.
    """
    import onnx_ir as ir

    from axtool.graph.sites import sites_of

    last = max((index for index, stage in enumerate(stages) if stage.kind == "device"), default=-1)
    later = [set(stage.inputs) for stage in stages]
    natural: dict[str, tuple[float, float]] = {}
    pieces: list[Piece] = []
    entered: list[str] = []  # observed stage inputs that no piece makes
    made: set[str] = set()
    averaged: dict[str, int] = {}
    spread: set[str] = set()
    for index, stage in enumerate(stages[: last + 1]):
        observed: tuple[str, ...] = ()
        axes: dict[str, int] = {}
        if stage.kind == "device":
            sites = sites_of(stage.model)
            axes = averaged_axes(sites)
            check_constants(sites)  # before a NaN weight shows as NaN activations far from it
            own = (*stage.inputs, *(name for site in sites for name in site.outputs))
            observed = tuple(dict.fromkeys((*observed_of(stage, sites), *(name for name in own if name in also))))
            natural |= natural_ranges(sites)
            spread |= {name for group in equalizable(stage, sites) for name in group.tensors if name in observed}
            entered += [name for name in observed if name in stage.inputs and name not in made]
        needed = set().union(outputs, *later[index + 1 :]) & set(stage.outputs)
        before = [name for name in observed if name in stage.inputs]
        pieces = _also_observe(pieces, before)
        inside = [name for name in observed if name not in stage.inputs]
        if inside or needed:
            read = [name for name in axes if name not in stage.inputs]
            new = cut(ir.to_proto(stage.model), [*inside, *read], needed, budget_bytes)
            made |= {name for piece in new for name in piece.outputs}
            pieces += [replace(p, observed=tuple(n for n in p.observed if n in set(inside))) for p in new]
            averaged |= axes
    if not pieces and not entered:
        return Work((), (), histograms), natural
    tail, watched = _tail(stages[last + 1 :], budget_bytes)
    kept = tuple(name for name in outputs if any(name in piece.outputs for piece in (*pieces, *tail)))
    entering, rescaled = tuple(dict.fromkeys(entered)), frozenset(spread)
    return Work((*pieces, *tail), entering, histograms, watched, averaged, kept, rescaled), natural


def _tail(stages: Sequence[StageLike], budget_bytes: int) -> tuple[list[Piece], tuple[str, ...]]:
    """The pieces of the stages after the last device stage, and their outputs: a NaN there is worth a warning."""
    import onnx_ir as ir

    pieces = [piece for stage in stages for piece in cut(ir.to_proto(stage.model), [], stage.outputs, budget_bytes)]
    return pieces, tuple(dict.fromkeys(name for stage in stages for name in stage.outputs))


def open_pieces(work: Work) -> list[FloatSession]:
    """The sessions of the pieces, which are left without their models."""
    from axtool.quant.session import open_session

    sessions = []
    for piece in work.pieces:
        give_back()  # else the peak is what reading all of the model left, and the sessions on top
        sessions.append(open_session(piece.take()))
    give_back()
    return sessions


def observe(
    work: Work,
    samples: Iterable[Feeds],
    progress: Progress | None = None,
    held: Collection[int] = (),
    sessions: Sequence[FloatSession] = (),
) -> tuple[Seen, Seen]:
    """One pass over the samples in this process: what was seen of most, and of those that are `held` back.

    `sessions` are those of the pieces where they are open already.
    """
    both = Seen.nothing(work), Seen.nothing(work)
    made = {name for piece in work.pieces for name in piece.outputs}

    def visit(index: int, name: str, array: Any) -> None:
        seen = both[index in held]
        if name in made or name in work.observed_inputs:
            _note(seen, index, name, array)
        else:
            seen.means.add(index, name, array)
        if index in held and name in work.kept:
            seen.kept[index, name] = array

    def begin(index: int, feeds: Feeds) -> None:
        both[index in held].facts.add(index, feeds)

    run_pieces(work, samples, visit, progress, begin, sessions)
    return both


def run_pieces(
    work: Work,
    samples: Iterable[Feeds],
    visit: Callable[[int, str, Any], None],
    progress: Progress | None = None,
    begin: Callable[[int, Feeds], None] = lambda index, feeds: None,
    sessions: Sequence[FloatSession] = (),
) -> None:
    """Run the float model piece after piece; `visit` sees (sample, tensor, values) of each input and piece output.

    Each value is dropped after its last reader. `begin` sees the feeds of each sample first.
    """
    sessions = sessions or open_pieces(work)
    drops = _drops(work.pieces)
    total = len(samples) if isinstance(samples, Samples) else 0
    for index, feeds in enumerate(samples):
        begin(index, feeds)
        values: dict[str, Any] = dict(feeds)
        for name, array in feeds.items():
            visit(index, name, array)
        for piece, session, dropped in zip(work.pieces, sessions, drops, strict=True):
            last = index == total - 1 and piece is work.pieces[-1]
            results = session.run(piece.outputs, {name: values[name] for name in piece.inputs}, last=last)
            for name, result in zip(piece.outputs, results, strict=True):
                visit(index, name, result)
                values[name] = result
            for name in dropped:
                values.pop(name, None)
            del results
        if progress is not None:
            progress(index + 1, total)


def _note(seen: Seen, index: int, name: str, result: Any) -> None:
    if name in seen.observers:
        seen.observers[name].observe(result)
        seen.extremes.add(name, result)
    elif name in seen.watched and isinstance(result, np.ndarray) and result.dtype.kind == "f":
        seen.watched[name].observe(result)
    seen.means.add(index, name, result)


def _also_observe(pieces: list[Piece], names: Sequence[str]) -> list[Piece]:
    """Pieces that also observe values which an earlier stage makes for a device stage."""
    changed = []
    for piece in pieces:
        extra = tuple(name for name in names if name in piece.outputs and name not in piece.observed)
        changed.append(Piece(piece.model, piece.inputs, piece.outputs, piece.observed + extra))
    return changed


def _drops(pieces: Sequence[Piece]) -> list[list[str]]:
    """For each piece, the values that nothing reads after it."""
    drops = []
    for index, piece in enumerate(pieces):
        later = {name for after in pieces[index + 1 :] for name in after.inputs}
        drops.append([name for name in (*piece.inputs, *piece.outputs) if name not in later])
    return drops


def observed_of(stage: StageLike, sites: Sequence[Site]) -> tuple[str, ...]:
    given = given_names(getattr(stage, "given", {}), sites)
    return observed_names(sites, stage.inputs, stage.outputs, given, getattr(stage, "precision", {}))


def equalizable(stage: StageLike, sites: Sequence[Site]) -> tuple[Group, ...]:
    """The groups of tensors of a device stage whose channels may be rescaled: none that has a given format, or that a
    node of fx32 or fp16 makes or reads.
    """
    precise = [site for site in sites if site.outputs[0] in getattr(stage, "precision", {})]
    fixed = {name for site in precise for name in (*site.inputs, *site.outputs)}
    return groups_of(sites, stage.inputs, stage.outputs, fixed.union(getattr(stage, "given", {})))


def channels_of(stages: Sequence[StageLike]) -> dict[str, int]:
    """How many channels the tensors have whose means are kept, over all device stages."""
    from axtool.graph.sites import sites_of

    rows = [sites_of(stage.model) for stage in stages if stage.kind == "device"]
    shapes = [{name: shape for site in sites for name, shape in site.shapes.items()} for sites in rows]
    return {
        name: int(known[name][axis])
        for sites, known in zip(rows, shapes, strict=True)
        for name, axis in averaged_axes(sites).items()
    }


def equalizable_of(stages: Sequence[StageLike]) -> tuple[Group, ...]:
    """The groups of all device stages."""
    from axtool.graph.sites import sites_of

    devices = [stage for stage in stages if stage.kind == "device"]
    return tuple(group for stage in devices for group in equalizable(stage, sites_of(stage.model)))
