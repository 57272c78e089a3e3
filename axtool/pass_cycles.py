"""The device stages of a model, for any set of optimisations  ->  what each optimisation is worth in modelled cycles.

Those of phase one move data: each is measured on its own, over the program without any. Those of phase two change
arithmetic: each is measured on top of phase one and of those in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from axtool.graph.split import Stage
from axtool.optimizations import OPTIMIZATIONS, Contract
from axtool.plan.build import plan
from axtool.plan.lower import lower
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.timing.detours import places
from axtool.types import Plan, Quantization

Numbered = Sequence[tuple[Stage, Quantization]]  # device stages and their numbers


@dataclass(frozen=True, slots=True)
class PassRow:
    """One optimisation, or one of its places: `cycles` that it adds (below 0: saves), None where it changes nothing."""

    name: str
    phase: int
    contract: Contract
    what: str
    cycles: int | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name, "phase": self.phase, "contract": self.contract, "what": self.what,
            "cycles_modelled": self.cycles,
        }  # fmt: skip


@dataclass(frozen=True)
class Worth:
    """Modelled cycles of a frame without optimisations, with those of phase one, and with all."""

    base: int
    composed: int
    final: int
    rows: tuple[PassRow, ...]


class PassCycles:
    """A model that is lowered, planned and timed with one set of optimisations after another.

    `listed` are those that are looked at; the straightforward program has `own` all the same. `make` gives the device
    stages without some rewrites of the graph, of which those in `fires` find something in the model.
    """

    def __init__(
        self,
        target: Target,
        listed: Sequence[str],
        make: Callable[[frozenset[str]], Numbered],
        fires: Collection[str],
        own: Collection[str] = (),
    ) -> None:
        self.target, self.listed, self.own = target, tuple(listed), tuple(own)
        self._make, self._fires = make, frozenset(fires)
        self._plans: dict[tuple[frozenset[str], frozenset[str]], tuple[Plan, ...]] = {}

    def worth(self) -> Worth:
        """Every row, and the totals that they close against."""
        first = [name for name in self.listed if OPTIMIZATIONS[name].phase == 1]
        second = [name for name in self.listed if OPTIMIZATIONS[name].phase == 2 and name not in self.own]
        base = self.cycles(())
        rows = [_row(label, self.cycles((label,)) - base) for name in first for label in self.labels(name)]
        composed = last = self.cycles(first)
        on = list(first)
        for name in second:
            for label in self.labels(name):
                on.append(label)
                now = self.cycles(on)
                rows.append(_row(label, now - last))
                last = now
        return Worth(base, composed, last, tuple(rows))

    def cycles(self, on: Iterable[str]) -> int:
        """Modelled cycles of all device stages with these optimisations, and `own`; `NAME:2` is one place."""
        off = self.off(on)
        return sum(time_plan(made, self.target).total for made in self.planned(off))

    def labels(self, name: str) -> list[str]:
        """The name, or one name for each place where there are several."""
        numbers = self._numbers.get(name, 0)
        return [f"{name}:{number}" for number in range(1, numbers + 1)] if numbers > 1 else [name]

    def off(self, on: Iterable[str]) -> tuple[str, ...]:
        """What is switched off where these are on: whole names, and the other places of those of which some are on."""
        on, found = {*on, *self.own}, []
        for name in self.listed:
            mine = {label for label in on if label.startswith(f"{name}:")}
            if name not in on:
                found += [label for label in self.labels(name) if label not in mine] if mine else [name]
        return tuple(sorted(found))

    def planned(self, off: Sequence[str]) -> tuple[Plan, ...]:
        """The plans of the device stages without these; other forms of ops need a lowering of their own."""
        rewrites, forms = self.rewrites(off), frozenset(name for name in off if _step(name) == "forms")
        if (rewrites, forms) not in self._plans:
            self._plans[rewrites, forms] = tuple(
                plan(lower(stage.sites, numbers, self.target, stage.inputs, stage.outputs, forms), self.target)
                for stage, numbers in self._make(rewrites)
            )
        return tuple(replace(made, without=tuple(off)) for made in self._plans[rewrites, forms])

    def rewrites(self, off: Iterable[str]) -> frozenset[str]:
        """The rewrites of the graph among these, without those that find nothing in the model."""
        return frozenset(name for name in off if name in self._fires and _step(name) == "graph")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """How many places each optimisation of data movement has in the program without any."""
        off = tuple(name for name in self.listed if name not in self.own)
        most: dict[str, int] = {}
        for made in self.planned(off):
            for place in places(made.program, self.target):
                most[place.name] = max(most.get(place.name, 0), place.number)
        return most


def _step(label: str) -> str:
    one = OPTIMIZATIONS.get(label)
    return one.step if one is not None else ""


def _row(label: str, cycles: int) -> PassRow:
    one = OPTIMIZATIONS[label.partition(":")[0]]
    return PassRow(label, one.phase, one.contract, one.what, cycles or None)
