"""A model and what it is compiled with  ->  what each optimisation is worth, in modelled cycles, and what it costs.

Optimisations of phase one move data: each is measured on its own, over the program without any. Those of phase two
change arithmetic: each is measured on top of phase one and of those in front of it. What agrees with the float model
before and after is measured on calibration samples, with the simulated device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import DeviceStage
from axtool.compiler import Compiled, Progress, build_stage, compile_model, open_calibration
from axtool.optimizations import OPTIMIZATIONS, Contract, enabled
from axtool.options import Options
from axtool.quant.decibels import decibels, finite
from axtool.runtime.model import CompiledModel, HostSession
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.timing.detours import places
from axtool.types import Plan

SAMPLES = 2  # that the agreement is measured on
STEM = "space-to-depth-stem"


@dataclass(frozen=True, slots=True)
class PassRow:
    """One optimisation, or one of its places: `cycles` that it adds (below 0: saves), None where it changes nothing."""

    name: str
    phase: int
    contract: Contract
    what: str
    cycles: int | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "phase": self.phase, "contract": self.contract, "what": self.what,
            "cycles_modelled": self.cycles,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much of the float model's output the program keeps: `unit` is "% of labels" or "dB"; None: not finite."""

    unit: str
    before: float | None
    after: float | None
    samples: int

    def to_dict(self) -> dict[str, Any]:
        return {"unit": self.unit, "before": self.before, "after": self.after, "samples": self.samples}


@dataclass(frozen=True)
class PassTable:
    """Modelled cycles of a frame without optimisations, with those of phase one, and with all; `own` is what the
    straightforward program has all the same.
    """

    target: str
    base: int
    composed: int
    final: int
    rows: tuple[PassRow, ...]
    own: tuple[str, ...] = ()
    agreement: Agreement | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the document of `compile` has them."""
        return {
            "base_cycles_modelled": self.base,
            "composed_cycles_modelled": self.composed,
            "final_cycles_modelled": self.final,
            "own": list(self.own),
            "rows": [row.to_dict() for row in self.rows],
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
        }


def pass_table(model: Path, options: Options, progress: Progress) -> PassTable:
    """The table. It compiles the model once for each set of graph rewrites. Raises as `compile_model`."""
    bench = _Bench(model, options, progress)
    listed = bench.listed
    first = [name for name in listed if OPTIMIZATIONS[name].phase == 1]
    second = [name for name in listed if OPTIMIZATIONS[name].phase == 2 and name not in bench.own]
    base = bench.cycles(())
    rows = [
        _row(label, bench.cycles((label,)) - base) for name in first for label in bench.labels(name, more=bench.own)
    ]
    composed = last = bench.cycles(first)
    on = list(first)
    for name in second:
        on.append(name)
        now = bench.cycles(on)
        rows.append(_row(name, now - last))
        last = now
    return PassTable(bench.target.name, base, composed, last, tuple(rows), bench.own, bench.agreement(listed))


def _row(label: str, cycles: int) -> PassRow:
    one = OPTIMIZATIONS[label.partition(":")[0]]
    return PassRow(label, one.phase, one.contract, one.what, cycles or None)


class _Bench:
    """A model, ready to be compiled and timed with one set of optimisations after another."""

    def __init__(self, model: Path, options: Options, progress: Progress) -> None:
        self.model, self.progress = model, progress
        self.target = load_target(options.target)
        self.listed = enabled((*self.target.optimizations, *options.reading.enable), options.reading.disable)
        self.options = replace(options, layer_check=False)
        self._compiled: dict[frozenset[str], Compiled] = {}
        self._plans: dict[tuple[frozenset[str], frozenset[str]], tuple[Plan, ...]] = {}
        self._fires = frozenset(one.name for one in OPTIMIZATIONS.values() if one.step == "graph")
        found = self._compile(()).front.cleaned.log
        self._fires &= {result.name for result in found if result.count}
        self.own = self._own()

    def cycles(self, on: Iterable[str]) -> int:
        """Modelled cycles of all device stages with these optimisations, and `own`; `NAME:2` is one place."""
        names = {*on, *self.own}
        off = self._off(names)
        return sum(time_plan(replace(made, without=off), self.target).total for made in self._planned(off))

    def labels(self, name: str, more: Collection[str]) -> list[str]:
        """The name, or one name for each place where there are several."""
        off = self._off(set(more))
        numbers = sorted(
            {
                place.number
                for made in self._planned(off)
                for place in places(made.program, self.target)
                if place.name == name
            }
        )
        return [f"{name}:{number}" for number in numbers] if len(numbers) > 1 else [name]

    def agreement(self, on: Sequence[str]) -> Agreement | None:
        """Against the user's own model in onnxruntime; None without samples, or where onnxruntime has no such model."""
        before, after = self._compile(self._off(set(self.own))), self._compile(self._off(set(on)))
        samples = open_calibration(after.front, replace(self.options, ranges=None))
        if samples is None or self.options.reading.outputs:
            return None
        self.progress.step("measuring agreement")
        some = samples.select(range(min(SAMPLES, len(samples))))
        reference = HostSession.of_file(self.model, ["CPUExecutionProvider"])
        scores: list[list[float]] = [[], []]
        unit = ""
        runs = [CompiledModel(self._artefact(one, off)) for one, off in
                ((before, self._off(set(self.own))), (after, self._off(set(on))))]  # fmt: skip
        for feeds in some:
            wanted = reference.run(feeds)
            for at, run in enumerate(runs):
                unit, score = _score(wanted, run.run(feeds).outputs)
                scores[at].append(score)
        means = [finite(float(np.mean(found))) for found in scores]
        return Agreement(unit, means[0], means[1], len(some))

    def _own(self) -> tuple[str, ...]:
        """What the straightforward program has: pixels of int8 are stored in blocks as they arrive."""
        front = self._compile(()).front
        entering = {spec.name for spec in front.inputs}
        stored = [stage for stage in front.parts.stages if stage.kind == "device" and entering & set(stage.inputs)]
        bytes_in = bool(stored) and not any(name in stage.precision for stage in stored for name in entering)
        return (STEM,) if STEM in self._fires and bytes_in else ()

    def _off(self, on: Collection[str]) -> tuple[str, ...]:
        """What is switched off where these are on: whole names, and the other places of those of which one is on."""
        found: list[str] = []
        for name in self.listed:
            mine = [label for label in on if label.startswith(f"{name}:")]
            if name not in on and not mine:
                found.append(name)
            elif mine:
                found += [label for label in self._others(name) if label not in mine]
        return tuple(sorted(found))

    def _others(self, name: str) -> list[str]:
        return self.labels(name, more=self.own)

    def _compile(self, off: Sequence[str]) -> Compiled:
        """The model without these rewrites of its graph."""
        rewrites = self._rewrites(off)
        if rewrites not in self._compiled:
            reading = replace(self.options.reading, disable=(*self.options.reading.disable, *sorted(rewrites)))
            self._compiled[rewrites] = compile_model(self.model, replace(self.options, reading=reading), self.progress)
        return self._compiled[rewrites]

    def _rewrites(self, off: Sequence[str]) -> frozenset[str]:
        """The rewrites of the graph among these, without those that find nothing in the model."""
        return frozenset(name for name in off if name in self._fires)

    def _planned(self, off: Sequence[str]) -> tuple[Plan, ...]:
        """The plans of the device stages without these; forms of ops need a lowering of their own."""
        compiled = self._compile(off)
        forms = frozenset(name for name in off if name in OPTIMIZATIONS and OPTIMIZATIONS[name].step == "forms")
        key = (self._rewrites(off), forms)
        if key not in self._plans:
            self.progress.step("planning")
            devices = [stage for stage in compiled.front.parts.stages if stage.kind == "device"]
            self._plans[key] = tuple(
                build_stage(stage, numbers, self.target, (), without=sorted(forms), check=False).plan
                for stage, numbers in zip(devices, compiled.numbers, strict=True)
            )
        return self._plans[key]

    def _artefact(self, compiled: Compiled, off: Sequence[str]) -> Any:
        plans = iter(self._planned(off))
        stages = tuple(
            DeviceStage(next(plans)) if isinstance(stage, DeviceStage) else stage for stage in compiled.artefact.stages
        )
        return replace(compiled.artefact, stages=stages)


def _score(wanted: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]) -> tuple[str, float]:
    """Whole numbers: the share that is equal, in per cent. Others: the lowest SQNR of an output, in dB."""
    names = [name for name in wanted if name in found]
    if all(wanted[name].dtype.kind in "iu" for name in names):
        equal = sum(int(np.count_nonzero(wanted[name] == found[name])) for name in names)
        return "% of labels", 100.0 * equal / max(sum(wanted[name].size for name in names), 1)
    figures = []
    for name in names:
        if wanted[name].dtype.kind == "f":
            a, b = wanted[name].astype(np.float64), found[name].astype(np.float64)
            figures.append(decibels(float((a * a).sum()), float(((a - b) ** 2).sum())))
    return "dB", min(figures)
