"""DETR-R101 on QC-U: the multiply-accumulates of its 104 convolutions, and the cycles of its backbone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from axtool.target_file import load_target, set_values
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
MACS = "DETR-R101: MACs of each convolution"
ARRAY = "DETR-R101: the MAC array"
# The transformer, whose matrices the document prints: projections and heads in fp16 as (inputs, outputs, how many),
# keys that the queries of its attentions look at in all, feed-forward blocks in int8.
WIDE, HIDDEN, FFN_BLOCKS = 256, 2048, 12
LINEARS = (
    (2048, 256, 1), (256, 768, 11), (256, 512, 6), (256, 256, 22), (256, 92, 1), (256, 256, 2), (256, 4, 1),
)  # fmt: skip
ATTENTION_TOKENS = 6 * 600 + 5 * 100 + 6 * 600


@dataclass(frozen=True)
class Backbone:
    """ResNet-101 at 750 x 800 on the chip; `macs` by the name that the log gives a convolution."""

    timed: Timed
    macs: dict[str, int]


@cache
def backbone() -> Backbone:
    """The backbone, planned and timed once, without the cascades that the published plan does not have either."""
    timed = time_model(backbone_model(), set_values(load_target(TARGET), {"memory.bands": False}))
    layers = [timed.timing.layers[at] for at in in_model_order(timed.plan)]
    return Backbone(timed, {name: layer.macs for name, layer in zip(backbone_names(), layers, strict=True)})


@cache
def cascaded() -> Timed:
    """The backbone as the planner likes it best."""
    timed = time_model(backbone_model(), load_target(TARGET))
    say(
        f"DETR-R101's backbone, measured on this machine: {timed.planning_s:.2f} s of CPU to plan (10 are allowed), "
        f"{timed.timing_s:.2f} s to time one frame (1 is allowed), {len(timed.plan.commands):,} commands"
    )
    return timed


def rows() -> list[Row]:
    """Every figure of the document that a convolutional backbone has."""
    return [*_mac_rows(), *_array_rows()]


def _mac_rows() -> list[Row]:
    ours = backbone().macs
    found = [Row(MACS, c.layer, "MACs", c.macs, ours[c.layer], tolerance=0, fixed=True) for c in convolutions()]
    whole = totals()["convolution MACs"][1]
    return [*found, Row(MACS, "all 104", "MACs", whole, backbone().timed.timing.macs, tolerance=0, fixed=True)]


def _array_rows() -> list[Row]:
    """The array's cycles against the closed form, and against the whole frame with the transformer added by it."""
    target = load_target(TARGET)
    array, drain = target.array, target.costs["mac_drain"]
    ours = backbone().timed.timing.ledger["mac"]
    closed = sum(c.mac_cycles(array.rows, array.columns, array.input_channels, drain) for c in convolutions())
    rest = transformer_mac_cycles(array.input_channels, drain)
    return [
        Row(ARRAY, "mac, backbone", "cycles", closed, ours, tolerance=0.03, fixed=True,
            note="against the closed form T · Cout · (k² · ⌈Cin/16⌉ + 3), T tiles of 32 x 32"),
        Row(ARRAY, "mac, whole frame", "cycles", totals()["mac"][1], ours + rest, tolerance=0.03,
            note=f"{round(rest):,} of ours are the transformer by the closed form, not by a plan"),
    ]  # fmt: skip


def transformer_mac_cycles(input_channels: int, drain: float) -> float:
    """What the transformer adds by the closed form: 600 or 100 tokens fill one tile, fp16 runs at half the rate."""
    half = input_channels / 2
    linear = sum(times * inputs * outputs for inputs, outputs, times in LINEARS) / half
    scores = ATTENTION_TOKENS * 2 * WIDE / half
    feed_forward = FFN_BLOCKS * 2 * WIDE * HIDDEN / input_channels
    outputs = sum(times * outputs for _, outputs, times in LINEARS) + FFN_BLOCKS * (HIDDEN + WIDE)
    return linear + scores + feed_forward + drain * outputs
