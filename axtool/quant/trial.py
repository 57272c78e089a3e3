"""Recipes  ->  the one that is best on samples which no recipe has seen, by running each on the simulated device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from axtool.artefact.axm import HostStage
from axtool.graph.parts import parts_of
from axtool.graph.signature import to_bytes
from axtool.graph.split import Stage
from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.plan.whole import whole_plan
from axtool.quant.recipe import QuantRecipe
from axtool.quant.score import Score
from axtool.quant.ties import tie
from axtool.quant.wide import candidates
from axtool.runtime.device import DeviceSession
from axtool.runtime.model import HostSession
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.types import Program, QFormat, Quantization

GAIN_DB = 0.1  # a later recipe has to be so much better: less is noise
Values = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Trial:
    """A recipe and the mean SQNR of the outputs in dB on the held-back samples; None where nothing can be compared."""

    recipe: QuantRecipe
    sqnr_db: float | None = None
    each_db: tuple[float, ...] = ()  # of the samples, one after the other
    refines: str = ""  # what was tried on the best recipe so far
    gain_db: float | None = None  # over that one

    def to_dict(self) -> dict[str, object]:
        """Plain values; figures in hundredths of a decibel, the gain of a refinement only."""
        figure = None if self.sqnr_db is None else round(self.sqnr_db, 2)
        gain = {} if self.gain_db is None else {"refines": self.refines, "gain_db": round(self.gain_db, 2)}
        return {"recipe": str(self.recipe), "sqnr_db": figure, **gain}


class Bench:
    """The stages of a model, ready to be run with one set of numbers after another."""

    def __init__(self, stages: Sequence[Stage], target: Target, threads: int = 1) -> None:
        self.stages, self.target, self._threads = stages, target, threads
        self.hosts = {
            index: HostSession(HostStage(to_bytes(stage.model), stage.inputs, stage.outputs))
            for index, stage in enumerate(stages)
            if stage.kind == "host"
        }
        self._parts = {name: parts for stage in stages for name, parts in parts_of(stage.model).items()}

    def score(self, numbers: Callable[[Stage], Quantization], samples: Iterable[tuple[Values, Values]]) -> Score:
        """The figures of one set of numbers. `samples` are feeds and the float outputs that are right."""
        devices = {
            index: self._session(stage, numbers(stage))
            for index, stage in enumerate(self.stages)
            if stage.kind == "device"
        }
        score = Score(self._parts)
        for feeds, wanted in samples:
            values = dict(feeds)
            for index in range(len(self.stages)):
                values |= devices[index].run(values) if index in devices else self.hosts[index].run(values)
            score.add(wanted, values)
        return score

    def cycles(self, numbers: Callable[[Stage], Quantization]) -> int:
        """The modelled cycles of the device stages with these numbers. Raises FitError where they do not fit."""
        devices = [stage for stage in self.stages if stage.kind == "device"]
        plans = (plan(self._program(stage, numbers(stage)), self.target) for stage in devices)
        return sum(time_plan(made, self.target).total for made in plans)

    def candidates(self, given: Mapping[str, QFormat], wide: Collection[str] = ()) -> tuple[str, ...]:
        """Tensors of the device, one of each group that shares a format, that could be int16 and are not `wide`."""
        found: dict[str, None] = {}
        for stage in self.stages:
            if stage.kind == "device":
                sites = stage.sites
                ties = tie(sites, stage.inputs, stage.outputs, given, stage.precision)
                taken = {ties.root[name] for name in wide if name in ties.root}
                roots = candidates(sites, stage.inputs, stage.outputs, self.target, given, stage.precision)
                found |= dict.fromkeys(root for root in roots if root not in taken)
        return tuple(found)

    def _program(self, stage: Stage, numbers: Quantization) -> Program:
        return lower(stage.sites, numbers, self.target, stage.inputs, stage.outputs)

    def _session(self, stage: Stage, numbers: Quantization) -> DeviceSession:
        return DeviceSession(whole_plan(self._program(stage, numbers), self.target), threads=self._threads)


def best(trials: Sequence[Trial]) -> Trial:
    """The first trial that no later one beats."""
    chosen = trials[0]
    for trial in trials[1:]:
        if _beats(trial, chosen):
            chosen = trial
    return chosen


def _beats(trial: Trial, other: Trial) -> bool:
    """More than `GAIN_DB` better on all samples together, and on the average sample too.

    One sample with large errors decides the first figure alone: what it gains says little about other data.
    """
    if trial.sqnr_db is None or other.sqnr_db is None:
        return trial.sqnr_db is not None
    gains = [trial.sqnr_db - other.sqnr_db]
    if trial.each_db and len(trial.each_db) == len(other.each_db):
        gains.append(sum(trial.each_db) / len(trial.each_db) - sum(other.each_db) / len(other.each_db))
    return min(gains) > GAIN_DB
