"""DETR-R101 on QC-U: the multiply-accumulates of its 104 convolutions, and the cycles of its backbone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from axtool.target_file import load_target
from benchmarks.validation.chimera_data import (
    Timed,
    backbone_model,
    backbone_names,
    convolutions,
    in_model_order,
    say,
    time_model,
    totals,
)
from benchmarks.validation.rows import Row

TARGET = "qc-u-1d5-8mb"
MIB = 2**20
MACS = "DETR-R101: MACs of each convolution"
BACKBONE = "DETR-R101: the backbone's MAC array"
FRAME = "DETR-R101: the backbone beside the whole frame"
OPEN = "the transformer is not in ours"


@dataclass(frozen=True)
class Backbone:
    """ResNet-101 at 750 x 800 on the chip; `macs` by the name that the log gives a convolution."""

    timed: Timed
    macs: dict[str, int]


@cache
def backbone() -> Backbone:
    """The backbone, planned and timed once."""
    timed = time_model(backbone_model(), load_target(TARGET))
    say(
        f"DETR-R101's backbone, measured on this machine: {timed.planning_s:.2f} s of CPU to plan (10 are allowed), "
        f"{timed.timing_s:.2f} s to time one frame (1 is allowed), {len(timed.plan.commands):,} commands"
    )
    layers = [timed.timing.layers[at] for at in in_model_order(timed.plan)]
    return Backbone(timed, {name: layer.macs for name, layer in zip(backbone_names(), layers, strict=True)})


def rows() -> list[Row]:
    """Every figure of the document that a convolutional backbone has."""
    return [*_mac_rows(), _array_row(), *_frame_rows()]


def _mac_rows() -> list[Row]:
    ours = backbone().macs
    found = [Row(MACS, c.layer, "MACs", c.macs, ours[c.layer], tolerance=0, fixed=True) for c in convolutions()]
    whole = totals()["convolution MACs"][1]
    return [*found, Row(MACS, "all 104", "MACs", whole, backbone().timed.timing.macs, tolerance=0, fixed=True)]


def _array_row() -> Row:
    """The array's cycles against the closed form that explains the frame's: padding in both, no constant in either
    but the drain.
    """
    target = load_target(TARGET)
    array, drain = target.array, target.costs["mac_drain"]
    closed = sum(c.mac_cycles(array.rows, array.columns, array.input_channels, drain) for c in convolutions())
    return Row(
        BACKBONE, "mac, of the closed form", "cycles", closed, backbone().timed.timing.ledger["mac"], tolerance=0.03,
        fixed=True, note="T · Cout · (k² · ⌈Cin/16⌉ + 3), which with the transformer's 1.91 M and its drains makes "
        "12.500 M of the 12.448 M published",
    )  # fmt: skip


def _frame_rows() -> list[Row]:
    timing = backbone().timed.timing
    ours = {
        "total": timing.total,
        **timing.ledger,
        "external reads": timing.read_bytes / MIB,
        "external writes": timing.write_bytes / MIB,
        "on-chip peak": timing.peak_ocm_bytes / MIB,
    }
    return [
        Row(FRAME, name, unit, value, ours[name], note=OPEN)
        for name, (unit, value) in totals().items()
        if name in ours
    ]  # fmt: skip
