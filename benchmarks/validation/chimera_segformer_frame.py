"""SegFormer-B0 on QC-U: the whole frame, without optimisations and with all, and what each of them saves.

Both networks are planned and timed as `axtool compile --explain-passes` does, with ranges [-1, 1]: cycles need shapes.
Cityscapes takes pixels in int8 and enlarges logits, ADE takes fx32 and repeats the labels of the small map.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from axtool.graph.front import Reading, read_front
from axtool.graph.split import Wishes
from axtool.optimizations import enabled
from axtool.pass_cycles import Numbered, PassCycles, Worth
from axtool.quant.formats import quantize_stage
from axtool.quant.ties import observed_names
from axtool.target import Target
from axtool.target_file import load_target
from axtool.types import Precision, Site
from benchmarks.validation.chimera_data import read_csv
from benchmarks.validation.rows import Row, Rule
from benchmarks.validation.segformer import Head, segformer_b0

TARGET = "qc-u-1d7-16mb"
FRAME = "SegFormer-B0: cycles of a frame"
DELTAS = "SegFormer-B0: cycles that each optimisation saves in the program"
TOTAL_TOLERANCE, DELTA_TOLERANCE = 0.10, 0.15
# Their size follows from where a kernel ends, which is not published: sign and rank alone are asked.
OPEN = ("prefetch-weights:2", "prefetch-weights:3")
LEAST_RANK = 0.8


@dataclass(frozen=True)
class Variant:
    """A decode head, what its input is stored in, and the printed cycles."""

    name: str
    classes: int
    head: Head
    before: int
    after: int
    gain: float  # share of the cycles, as printed
    input_precision: Precision | None = None
    enable: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


VARIANTS = (
    Variant("cityscapes", 19, "linear", 6_933_597, 4_725_194, 0.318, own=("space-to-depth-stem",)),
    Variant("ade", 150, "conv", 7_203_688, 4_633_283, 0.357, "fx32", ("replicate-labels",)),
)


def rows() -> list[Row]:
    """Totals and deltas of both networks."""
    found = []
    for variant in VARIANTS:
        made = worth(variant)
        for name, published, ours in (
            ("without optimisations", variant.before, made.base), ("with all", variant.after, made.final),
        ):  # fmt: skip
            found.append(Row(FRAME, f"{name}, {variant.name}", "cycles", published, ours, tolerance=TOTAL_TOLERANCE))
    for name, place, printed, saved in deltas():
        tolerance = None if place in OPEN else DELTA_TOLERANCE
        note = "sign and rank are asked" if place in OPEN else ""
        found.append(Row(DELTAS, name, "cycles", printed, saved, tolerance=tolerance, note=note))
    return found


def rules() -> list[Rule]:
    """Gains, signs and ranks."""
    pairs = [(published, ours) for _, _, published, ours in deltas()]
    signs = sum(ours > 0 for _, ours in pairs)
    gains = [
        Rule(FRAME, f"gain, {one.name}", 1 - worth(one).final / worth(one).base, one.gain, "at least", "%")
        for one in VARIANTS
    ]
    return [
        *gains,
        Rule(DELTAS, f"of {len(pairs)} deltas save cycles, as printed", signs, len(pairs), "at least"),
        Rule(DELTAS, "rank correlation of the deltas", rank_correlation(pairs), LEAST_RANK, "at least"),
    ]


@cache
def deltas() -> tuple[tuple[str, str, float, float], ...]:
    """(name, place, printed saving, ours) of every printed delta."""
    found = []
    for row in read_csv("chimera_segformer_deltas"):
        for variant in VARIANTS:
            if row[variant.name]:
                ours = -_cycles(worth(variant), row["place"])
                found.append((f"{row['change']}, {variant.name}", row["place"], float(row[variant.name]), float(ours)))
    return tuple(found)


@cache
def worth(variant: Variant) -> Worth:
    """What the optimisations are worth on one of the networks."""
    target = load_target(TARGET)
    with tempfile.TemporaryDirectory(prefix="validation-") as folder:
        path = segformer_b0(variant.classes, variant.head).write(Path(folder))
        listed = enabled((*target.optimizations, *variant.enable), ())
        listed = tuple(name for name in listed if name not in variant.enable)
        fires = [name for name in listed if name.startswith(("split", "fuse", "space"))]
        made = PassCycles(target, listed, lambda off: _numbered(path, target, variant, off), fires, variant.own)
        return made.worth()


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's: the correlation of the ranks of printed and modelled deltas."""
    first, second = (_ranks([pair[at] for pair in pairs]) for at in (0, 1))
    mean = (len(pairs) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    spread = [sum((a - mean) ** 2 for a in ranks) for ranks in (first, second)]
    return float(both / (spread[0] * spread[1]) ** 0.5)


def _numbered(path: Path, target: Target, variant: Variant, off: frozenset[str]) -> Numbered:
    """The device stages without some rewrites of the graph, with ranges [-1, 1]. Raises ValueError with host nodes."""

    def wish(sites: Sequence[Site], inputs: Sequence[str]) -> Wishes:
        kinds = {} if variant.input_precision is None else dict.fromkeys(inputs, variant.input_precision)
        return Wishes(input_precision=kinds)

    front = read_front(path, target, Reading(disable=tuple(off), enable=variant.enable), wish=wish)
    if [stage.kind for stage in front.parts.stages] != ["device"]:
        raise ValueError(f"{variant.name}: {[stage.kind for stage in front.parts.stages]}, want one device stage")
    (stage,) = front.parts.stages
    names = observed_names(stage.sites, stage.inputs, stage.outputs, (), stage.precision)
    ranges = dict.fromkeys(names, (-1.0, 1.0))
    numbers = quantize_stage(
        stage.sites,
        ranges,
        target,
        stage.inputs,
        stage.outputs,
        front.cleaned.given,
        symmetric=True,
        precision=stage.precision,
    )
    return [(stage, numbers)]


def _cycles(made: Worth, place: str) -> int:
    return next((row.cycles or 0 for row in made.rows if row.name in (place, place.removesuffix(":1"))), 0)


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
