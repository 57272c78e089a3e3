"""A model and what it is compiled with  ->  what each optimisation is worth, and what it costs in agreement.

Cycles are modelled (`axtool.pass_cycles`). What agrees with the float model, without optimisations and with all of
them, is measured on calibration samples, with the simulated device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact, DeviceStage
from axtool.compiler import Compiled, Progress, compile_model, open_calibration
from axtool.optimizations import OPTIMIZATIONS, enabled
from axtool.options import Options
from axtool.pass_cycles import Numbered, PassCycles, Worth
from axtool.quant.decibels import decibels, finite
from axtool.runtime.model import CompiledModel, HostSession
from axtool.target_file import load_target

SAMPLES = 2  # that the agreement is measured on
STEM = "space-to-depth-stem"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How much of the float model's output the program keeps: `unit` is "% of labels" or "dB"; None: not finite."""

    unit: str
    before: float | None
    after: float | None
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"unit": self.unit, "before": self.before, "after": self.after, "samples": self.samples}


@dataclass(frozen=True)
class PassTable:
    """What the optimisations are worth on a target; `own` is what the straightforward program has all the same."""

    target: str
    worth: Worth
    own: tuple[str, ...] = ()
    agreement: Agreement | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as the document of `compile` has them."""
        return {
            "base_cycles_modelled": self.worth.base,
            "composed_cycles_modelled": self.worth.composed,
            "final_cycles_modelled": self.worth.final,
            "own": list(self.own),
            "rows": [row.to_dict() for row in self.worth.rows],
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
        }


def pass_table(model: Path, options: Options, progress: Progress) -> PassTable:
    """The table. It compiles the model once for each set of graph rewrites. Raises as `compile_model`."""
    compiler = _Compiler(model, options, progress)
    progress.step("planning")
    worth = compiler.bench.worth()
    return PassTable(compiler.bench.target.name, worth, compiler.bench.own, compiler.agreement())


class _Compiler:
    """Compiles a model without some rewrites of its graph, each set of them once."""

    def __init__(self, model: Path, options: Options, progress: Progress) -> None:
        self.model, self.progress = model, progress
        self.options = replace(options, layer_check=False)
        self._compiled: dict[frozenset[str], Compiled] = {}
        target = load_target(options.target)
        listed = enabled((*target.optimizations, *options.reading.enable), options.reading.disable)
        log = self.compiled(frozenset()).front.cleaned.log
        fires = {result.name for result in log if result.count and result.name in OPTIMIZATIONS}
        self.bench = PassCycles(target, listed, self._numbered, fires, self._own(fires))

    def compiled(self, rewrites: frozenset[str]) -> Compiled:
        """The model without these rewrites of its graph."""
        if rewrites not in self._compiled:
            reading = replace(self.options.reading, disable=(*self.options.reading.disable, *sorted(rewrites)))
            options = replace(self.options, reading=reading)
            self._compiled[rewrites] = compile_model(self.model, options, self.progress)
        return self._compiled[rewrites]

    def agreement(self) -> Agreement | None:
        """Against the user's own model in onnxruntime; None without samples, or where the model is cut short."""
        samples = open_calibration(self.compiled(frozenset()).front, replace(self.options, ranges=None))
        if samples is None or self.options.reading.outputs:
            return None
        self.progress.step("measuring agreement")
        some = samples.select(range(min(SAMPLES, len(samples))))
        reference = HostSession.of_file(self.model, ["CPUExecutionProvider"])
        before, after = (CompiledModel(self._artefact(self.bench.off(on))) for on in ((), self.bench.listed))
        scores: list[tuple[float, float]] = []
        unit = ""
        for feeds in some:
            wanted = reference.run(feeds)
            unit, first = _score(wanted, before.run(feeds).outputs)
            scores.append((first, _score(wanted, after.run(feeds).outputs)[1]))
        means = [finite(float(np.mean(column))) for column in zip(*scores, strict=True)]
        return Agreement(unit, means[0], means[1], len(some))

    def _own(self, fires: set[str]) -> tuple[str, ...]:
        """What the straightforward program has: pixels of int8 are stored in blocks as they arrive."""
        front = self.compiled(frozenset()).front
        entering = {spec.name for spec in front.inputs}
        stored = [stage for stage in front.parts.stages if stage.kind == "device" and entering & set(stage.inputs)]
        bytes_in = bool(stored) and not any(name in stage.precision for stage in stored for name in entering)
        return (STEM,) if STEM in fires and bytes_in else ()

    def _numbered(self, rewrites: frozenset[str]) -> Numbered:
        compiled = self.compiled(rewrites)
        devices = [stage for stage in compiled.front.parts.stages if stage.kind == "device"]
        return list(zip(devices, compiled.numbers, strict=True))

    def _artefact(self, off: Sequence[str]) -> Artefact:
        plans = iter(self.bench.planned(off))
        artefact = self.compiled(self.bench.rewrites(off)).artefact
        stages = tuple(DeviceStage(next(plans)) if isinstance(one, DeviceStage) else one for one in artefact.stages)
        return replace(artefact, stages=stages)


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
