"""What a module of a chip family has, and the result of running one."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from axtool.target_file import load_target
from benchmarks.validation.rows import LeftOut, Row, Rule

PUBLISHED = Path(__file__).with_name("published")
NAMES = ("limits.ops", "limits.rules")  # of a target file: lists of names, no constants


class Chip(Protocol):
    """A module of this package with figures of a chip family."""

    TITLE: str
    ABOUT: str  # what was published by whom, and how the model is built for it
    TARGETS: Sequence[str]  # the target files whose constants the figures are held against
    WRONG: Sequence[str]  # where the model is known to be wrong, a sentence each

    def rows(self) -> list[Row]:
        """Every figure, from the compile road."""

    def rules(self, rows: Sequence[Row]) -> list[Rule]:
        """What must hold of sets of them as a whole."""

    def leave_one_out(self) -> list[LeftOut]:
        """Each figure that a constant is fitted to, as predicted from the others."""


@dataclass(frozen=True)
class Constant:
    """One number of a target file and where it is from."""

    path: str  # dotted
    value: str
    source: str


@dataclass(frozen=True)
class Section:
    """What one module found, for the page."""

    name: str
    title: str
    about: str
    wrong: Sequence[str]
    rows: Sequence[Row]
    rules: Sequence[Rule]
    left_out: Sequence[LeftOut]
    fitted: Sequence[Constant]
    natural: Sequence[Constant]
    facts: int
    seconds: float = 0.0  # of CPU; never on the page, which is the same on every machine

    @property
    def matched(self) -> int:
        """Figures that hold and that a constant could have changed, single ones and those of whole sets."""
        return sum(bool(row.holds) and not row.fixed for row in self.rows) + sum(rule.holds for rule in self.rules)

    @property
    def holds(self) -> bool:
        """Every figure that is asked for, every rule, and the share of fitted constants."""
        asked = [row.holds for row in self.rows if row.holds is not None]
        return all(asked) and all(rule.holds for rule in self.rules) and self.sparing

    @property
    def sparing(self) -> bool:
        """At most one fitted constant for three figures matched."""
        return 3 * len(self.fitted) <= self.matched


def chip_names() -> list[str]:
    """The modules of this package that describe a chip family: those with a TITLE."""
    package = importlib.import_module(__package__ or "benchmarks.validation")
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__) if info.name != "__main__")
    return [name for name in names if hasattr(_module(name), "TITLE")]


def run_chip(name: str) -> Section:
    """Run one module."""
    chip = cast(Chip, _module(name))
    started = time.process_time()
    rows = chip.rows()
    rules, left_out = chip.rules(rows), chip.leave_one_out()
    origins = constants_of(chip.TARGETS)
    return Section(
        name=name,
        title=chip.TITLE,
        about=chip.ABOUT,
        wrong=tuple(chip.WRONG),
        rows=tuple(rows),
        rules=tuple(rules),
        left_out=tuple(left_out),
        fitted=origins["fitted"],
        natural=origins["natural"],
        facts=len(origins["fact"]),
        seconds=time.process_time() - started,
    )


def constants_of(targets: Sequence[str]) -> dict[str, list[Constant]]:
    """The constants of target files by origin. One that several files share, with the same value, is one constant."""
    found: dict[str, list[Constant]] = {"fact": [], "natural": [], "fitted": []}
    for name in targets:
        target = load_target(name)
        for path, origin in target.provenance.items():
            if path in NAMES:
                continue
            kind, _, source = origin.partition(": ")
            value: object = target
            for part in path.split("."):
                value = value[part] if isinstance(value, dict) else getattr(value, part)
            constant = Constant(path, _shown(value), source)
            if (constant.path, constant.value) not in {(c.path, c.value) for c in found[kind]}:
                found[kind].append(constant)
    return {kind: sorted(constants, key=lambda c: c.path) for kind, constants in found.items()}


def _shown(value: object) -> str:
    """A number with thousands, or the word that the file has."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def _module(name: str) -> object:
    return importlib.import_module(f"benchmarks.validation.{name}")
