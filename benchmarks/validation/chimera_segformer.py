"""SegFormer-B0 on QC-U: what each change of a kernel saved, from the primitive costs of the target.

Tile counts follow from the network's shapes: a tile is 32 x 32 elements of the array, idle ones included, as everywhere
in the model. A saving is what the costs say of the tiles that the change touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.cost import array_fills
from benchmarks.validation.chimera_data import read_csv
from benchmarks.validation.rows import LeftOut, Row, fit_line, leave_one_out

TARGET = "qc-u-1d7-16mb"
SET = "SegFormer-B0: cycles that one change of a kernel saved"
TOLERANCE = 0.10
BLOCKS = 2  # of attention and MLP in each stage
KEYS = 8 * 16  # tokens that every attention looks at, after its spatial reduction
BRANCH = 256  # channels of the decode head
ENTRIES_SAVED = 5  # one entry point in place of six


@dataclass(frozen=True)
class Stage:
    """One stage of the backbone: its map, channels, heads of attention, and the stride of its spatial reduction."""

    height: int
    width: int
    channels: int
    heads: int
    reduction: int

    def fills(self, target: Target) -> int:
        return array_fills(target.array, self.height, self.width)


STAGES = (
    Stage(64, 128, 32, 1, 8), Stage(32, 64, 64, 2, 4), Stage(16, 32, 160, 5, 2), Stage(8, 16, 256, 8, 1),
)  # fmt: skip


@dataclass(frozen=True)
class Saving:
    """A published saving, and ours as `base + slope * constant`; `constant` names the cost that it is fitted by."""

    name: str
    published: float
    base: float
    slope: float = 0.0
    constant: str = ""
    note: str = ""

    def ours(self, target: Target) -> float:
        return self.at(target.costs[self.constant] if self.constant else 0.0)

    def at(self, value: float) -> float:
        return self.base + self.slope * value


def rows() -> list[Row]:
    """Every change that a primitive cost explains."""
    target = load_target(TARGET)
    return [
        Row(SET, s.name, "cycles", s.published, s.ours(target), tolerance=TOLERANCE, note=s.note)
        for s in savings(target)
    ]


def left_out() -> list[LeftOut]:
    """Each saving as predicted from the others that the same constant was fitted to."""
    found: list[LeftOut] = []
    every = savings(load_target(TARGET))
    for constant in dict.fromkeys(s.constant for s in every if s.constant):
        of = {s.name: s for s in every if s.constant == constant}
        found += leave_one_out(
            {name: s.published for name, s in of.items()},
            lambda rest, name, of=of: of[name].at(fitted_value([of[other] for other in rest])),  # type: ignore[misc]
            "cycles",
        )
    return found


def fitted_value(savings: list[Saving]) -> float:
    """The value of the constant that meets the published savings best, by relative errors."""
    return fit_line((s.published, s.base, s.slope) for s in savings)


def savings(target: Target) -> list[Saving]:
    """The published savings beside what the costs make of the tiles, for both decode heads where both are printed."""
    made = _explained(target)
    found = []
    for row in read_csv("chimera_segformer"):
        for variant in ("cityscapes", "ade"):
            if row[variant]:
                base, slope, constant, note = made[row["change"]]
                found.append(Saving(f"{row['change']}, {variant}", float(row[variant]), base, slope, constant, note))
    return found


def _explained(target: Target) -> dict[str, tuple[float, float, str, str]]:
    """By the name of the change: base, slope, constant and how it is counted."""
    costs = target.costs
    many, one = score_tiles(target, STAGES[:2]), score_tiles(target, STAGES[2:])
    norms = norm_tiles(target)
    stem_loads = STAGES[0].fills(target) * 3 * 7 * 7
    reduction_loads = 32 * 8 * 8
    stores = 3 * 16 * STAGES[0].fills(target)  # channels of the stem's input by 4 x 4 space-to-depth
    copies = 4 * BRANCH * STAGES[0].fills(target)
    element, lut = costs["gather_per_element"], costs["lut"]
    table = f"tiles of scores, {costs['exp'] - lut:g} cycles each"
    pixels = target.array.rows * target.array.columns
    return {
        "exp table multi-tile": (-many * lut, many, "exp", f"{many:,} {table}"),
        "exp table single-tile": (-one * lut, one, "exp", f"{one:,} {table}"),
        "LayerNorm root": (0, norms, "layernorm_root", f"{norms:,} tiles, {costs['layernorm_root']:g} each"),
        "LayerNorm row sum": (norms * costs["row_sum"], 0, "", f"{norms:,} tiles, {costs['row_sum']:g} each"),
        "stem gather": (
            stem_loads * pixels * element, stem_loads, "gather",
            f"stall of {stem_loads:,} loads of {pixels:,} elements",
        ),
        "reduction gather": (
            reduction_loads * KEYS * element, reduction_loads, "gather",
            f"stall of {reduction_loads:,} loads of {KEYS} elements",
        ),
        "random stores": (
            stores * (pixels * element + costs["fence"]), stores, "gather",
            f"{stores} stores of {pixels:,} elements, a fence after each",
        ),
        "branches in place": (copies * costs["copy_per_kib"], 0, "", f"{copies:,} copies of 1 KiB"),
        "one entry point": (0, ENTRIES_SAVED, "entry", f"{ENTRIES_SAVED} entries less"),
    }  # fmt: skip


def score_tiles(target: Target, stages: tuple[Stage, ...]) -> int:
    """Tiles of attention scores: a query a processing element, one tile a key and head."""
    return sum(BLOCKS * stage.heads * KEYS * stage.fills(target) for stage in stages)


def norm_tiles(target: Target) -> int:
    """Tiles of LayerNorm, tokens down and channels across.

    Six of the whole map in a stage: two in each block, one behind the patches, one at the end; and one of the reduced
    map in each block that reduces.
    """
    rows, columns = target.array.rows, target.array.columns
    count = 0
    for stage in STAGES:
        across = ceil(stage.channels / columns)
        count += 6 * ceil(stage.height * stage.width / rows) * across
        count += BLOCKS * ceil(KEYS / rows) * across * (stage.reduction > 1)
    return count
