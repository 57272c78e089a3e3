"""Stages and samples  ->  Ranges: one streaming pass in onnxruntime, each tensor observed at once and let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from axtool.errors import NumericsError, UsageError
from axtool.inputs.notice import Notice, warning
from axtool.inputs.samples import Samples
from axtool.quant.data import DataFacts, data_notices
from axtool.quant.means import ChannelMeans, averaged_axes
from axtool.quant.memory import check_memory
from axtool.quant.observers import Histogram, MinMax
from axtool.quant.pieces import BUDGET_BYTES, Piece, cut
from axtool.quant.ranges import Ranges
from axtool.quant.ties import natural_ranges, observed_names
from axtool.quant.weights import check_constants
from axtool.types import Site

if TYPE_CHECKING:
    import onnx_ir as ir

Method = Literal["minmax", "percentile"]
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
    need no range: only whether they are finite is told. `averaged` are what MAC sites read, with their channel axis.
    """

    pieces: tuple[Piece, ...]
    observed_inputs: tuple[str, ...]
    method: Method
    watched: tuple[str, ...] = ()
    averaged: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Seen:
    """What one process saw. Merging the parts of any split gives the same bits."""

    observers: dict[str, MinMax]
    facts: DataFacts
    means: ChannelMeans
    watched: dict[str, MinMax] = field(default_factory=dict)

    def merge(self, other: Seen) -> None:
        """Fold in what another process saw."""
        for name, observer in other.observers.items():
            self.observers[name].merge(observer)
        for name, observer in other.watched.items():
            self.watched[name].merge(observer)
        self.facts.merge(other.facts)
        self.means.merge(other.means)

    def renumber(self, indices: Sequence[int]) -> None:
        """Sample i of this part is sample indices[i] of the whole."""
        self.facts.renumber(indices)
        self.means.renumber(indices)


def calibrate(
    stages: Sequence[StageLike],
    samples: Iterable[Feeds],
    method: Method = "minmax",
    percentile: float = 99.99,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> Ranges:
    """The range of every tensor of the device stages whose format depends on data, from one pass over the samples.

    `percentile` is used by that method: the share of values, in per cent, below the high end and above the low end.
    `jobs` processes share the samples when these are a `Samples`; the ranges are the same for any number. `progress`
    is called with (done, total). Tensors with a range that holds for any data are not observed.
    Raises UsageError where there are no samples, NumericsError for NaN or Inf in weights and where a tensor has no
    finite value at all.
    """
    if method not in ("minmax", "percentile"):
        raise UsageError(f"method '{method}' is not minmax or percentile", code="bad-option")
    if not 50 < percentile <= 100:
        raise UsageError(f"percentile {percentile}: want more than 50 and at most 100", code="bad-option")
    check_memory(stage.model for stage in stages)
    work, natural = plan_work(stages, method, budget_bytes)
    if jobs > 1 and isinstance(samples, Samples) and len(samples) > 1:
        from axtool.quant.jobs import observe_in_processes

        seen = observe_in_processes(work, samples, min(jobs, len(samples)), progress)
    else:
        seen = observe(work, samples, progress)
    count = seen.facts.count
    if not count:
        raise UsageError("no calibration samples", code="no-samples", hint="give a folder of images, .npz or .npy")
    _check_finite(seen.observers)
    ranges = {name: _range(observer, percentile) for name, observer in seen.observers.items()}
    names = samples.names if isinstance(samples, Samples) else ()
    notices = (*data_notices(seen.facts, names, method), *_non_finite(seen.observers), *_not_numbers(seen.watched))
    label = method if method == "minmax" else f"percentile {percentile:g}"
    return Ranges({**natural, **ranges}, count, label, notices, means=seen.means.over_samples())


def names_to_calibrate(stages: Sequence[StageLike]) -> tuple[str, ...]:
    """The tensors whose range has to come from data. None, for a model that brings all its formats."""
    from axtool.graph.sites import sites_of

    devices = [stage for stage in stages if stage.kind == "device"]
    return tuple(dict.fromkeys(name for stage in devices for name in _observed(stage, sites_of(stage.model))))


def known_ranges(stages: Sequence[StageLike]) -> Ranges:
    """The ranges that hold for any data: all that a model needs of which `names_to_calibrate` names nothing."""
    from axtool.graph.sites import sites_of

    known = [natural_ranges(sites_of(stage.model)) for stage in stages if stage.kind == "device"]
    return Ranges({name: limits for ranges in known for name, limits in ranges.items()}, method="the model's own")


def _observed(stage: StageLike, sites: Sequence[Site]) -> tuple[str, ...]:
    given = [name for name, fmt in getattr(stage, "given", {}).items() if fmt.kind == "int8"]
    return observed_names(sites, stage.inputs, stage.outputs, given)


def plan_work(
    stages: Sequence[StageLike], method: Method, budget_bytes: int = BUDGET_BYTES
) -> tuple[Work, dict[str, tuple[float, float]]]:
    """The pieces that calibration runs, and the ranges that are known without running."""
    import onnx_ir as ir

    from axtool.graph.sites import sites_of

    last = max((index for index, stage in enumerate(stages) if stage.kind == "device"), default=-1)
    later = [set(stage.inputs) for stage in stages]
    natural: dict[str, tuple[float, float]] = {}
    pieces: list[Piece] = []
    entered: list[str] = []  # observed stage inputs that no piece makes
    made: set[str] = set()
    averaged: dict[str, int] = {}
    for index, stage in enumerate(stages[: last + 1]):
        observed: tuple[str, ...] = ()
        axes: dict[str, int] = {}
        if stage.kind == "device":
            sites = sites_of(stage.model)
            axes = averaged_axes(sites)
            check_constants(sites)  # before a NaN weight shows as NaN activations far from it
            observed = _observed(stage, sites)
            natural |= natural_ranges(sites)
            entered += [name for name in observed if name in stage.inputs and name not in made]
        needed = set().union(*later[index + 1 :]) & set(stage.outputs)
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
        return Work((), (), method), natural
    tail, watched = _tail(stages[last + 1 :], budget_bytes)
    return Work((*pieces, *tail), tuple(dict.fromkeys(entered)), method, watched, averaged), natural


def _tail(stages: Sequence[StageLike], budget_bytes: int) -> tuple[list[Piece], tuple[str, ...]]:
    """The pieces of the stages after the last device stage, and their outputs: a NaN there is worth a warning."""
    import onnx_ir as ir

    pieces = [piece for stage in stages for piece in cut(ir.to_proto(stage.model), [], stage.outputs, budget_bytes)]
    return pieces, tuple(dict.fromkeys(name for stage in stages for name in stage.outputs))


def observe(work: Work, samples: Iterable[Feeds], progress: Progress | None = None) -> Seen:
    """One pass over the samples in this process: piece after piece, each value dropped after its last reader."""
    from axtool.quant.session import open_session

    sessions = [open_session(piece.model) for piece in work.pieces]
    names = (*work.observed_inputs, *(name for piece in work.pieces for name in piece.observed))
    observers: dict[str, MinMax] = {name: Histogram() if work.method == "percentile" else MinMax() for name in names}
    watched = {name: MinMax() for name in work.watched}
    drops = _drops(work.pieces)
    facts, means = DataFacts(), ChannelMeans(work.averaged)
    total = len(samples) if isinstance(samples, Samples) else 0
    for index, feeds in enumerate(samples):
        facts.add(index, feeds)
        for name in work.observed_inputs:
            observers[name].observe(feeds[name])
        for name, array in feeds.items():
            means.add(index, name, array)
        values = dict(feeds)
        for piece, session, dropped in zip(work.pieces, sessions, drops, strict=True):
            results = session.run(piece.outputs, {name: values[name] for name in piece.inputs})
            for name, result in zip(piece.outputs, results, strict=True):
                if name in observers:
                    observers[name].observe(result)
                elif name in watched and isinstance(result, np.ndarray) and result.dtype.kind == "f":
                    watched[name].observe(result)
                means.add(index, name, result)
                values[name] = result
            for name in dropped:
                values.pop(name, None)
            del results
        if progress is not None:
            progress(index + 1, total)
    return Seen(observers, facts, means, watched)


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


def _range(observer: MinMax, percentile: float) -> tuple[float, float]:
    if isinstance(observer, Histogram) and percentile < 100:
        return observer.percentile(percentile)
    return observer.range()


def _check_finite(observers: Mapping[str, MinMax]) -> None:
    """Raises NumericsError listing the tensors of which no value was finite."""
    dead = [
        f"'{name}': {observer.nan} NaN, {observer.inf} Inf of {observer.count}"
        for name, observer in observers.items()
        if observer.count and not observer.finite
    ]
    if dead:
        shown = "; ".join(dead[:5]) + (f" and {len(dead) - 5} more" if len(dead) > 5 else "")
        raise NumericsError(
            f"no finite value in calibration: {shown}",
            code="non-finite-activations",
            hint="check the input preparation, or keep these nodes on the host with --outputs",
            details=dead,
        )


def _non_finite(observers: Mapping[str, MinMax]) -> tuple[Notice, ...]:
    return tuple(
        warning(
            "non-finite-activations",
            f"{observer.nan} NaN and {observer.inf} Inf of {observer.count} values in calibration; "
            f"the range is from the finite ones",
            f"tensor '{name}'",
        )
        for name, observer in observers.items()
        if observer.nan or observer.inf
    )


def _not_numbers(watched: Mapping[str, MinMax]) -> tuple[Notice, ...]:
    """Only NaN: an infinity may be meant, as a mask is."""
    return tuple(
        warning(
            "non-finite-outputs",
            f"{observer.nan} NaN of {observer.count} values of the float model in calibration",
            f"tensor '{name}'",
        )
        for name, observer in watched.items()
        if observer.nan
    )
