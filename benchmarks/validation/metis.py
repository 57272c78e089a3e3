"""Axelera Metis: frames a second of the vendor's model zoo."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from axtool.target import Target
from axtool.target_file import load_target, set_values
from benchmarks.validation.chip import PUBLISHED
from benchmarks.validation.rows import LeftOut, Row, Rule, rank_correlation
from benchmarks.validation.rows import leave_one_out as left_out
from benchmarks.validation.timing import timed_stages

TITLE = "Axelera Metis"
TARGETS = ("metis",)
SET = "Frames a second of one card"
LEAST_RANK = 0.9
GROUPED = ("regnet-x-1.6gf", "regnet-x-400mf", "regnet-y-1.6gf", "regnet-y-400mf", "resnext50")
ABOUT = """
The vendor publishes what a whole pipeline reaches: decoding a 720p video, preparing pictures, the device, and what the
host computes behind it. The model is of the device alone, four cores that each run a frame of their own and share the
external memory. So two things are asked: that the networks come in the published order (Spearman's rank correlation),
and that no prediction is below what was published, since a device is at least as fast as the pipeline around it.

No number is fitted. Each unit of a core moves one word of 64 channels a cycle: the array takes 64 inputs by 512 outputs
(512 x 512 in the 8 cycles of its bit-serial arithmetic, small layers copied beside each other), the depthwise unit one
tap of a word, the unit behind the array one word of results. Weights stay in the 32 MiB beside the cores as far as they
fit; the rest comes from external memory each frame, a quarter of its bandwidth for each core.

One choice is made by the figures: convolutions in groups run dense. The published rates of ResNeXt and RegNet are those
of the weights with the zeros between the groups, at the bandwidth of the memory. Left out of the fit, each of the five
is predicted with the choice that the other four make.

A network of which an op is left to the host counts the device's stages alone: the attention of YOLOv10, YOLO11 and
YOLO26, whose MatMul and Softmax have no device kernel yet.
"""
WRONG = (
    "Predictions are about twice what is published, since the pipeline around the device is not part of the model.",
    "SqueezeNet 1.0 is published at a seventh of SqueezeNet 1.1, which has half of its work. One of its pools rounds "
    "its size up (54 to 27), none of 1.1's does: the chip's compiler seems to leave something of it to a slow road.",
    "DenseNet-121 moves some 110 MB a frame on the card, by its rates on cards with one and with two memory channels. "
    "The model keeps its maps on chip; the chip has no concatenation, and its compiler pads and adds instead.",
    "Of weights that do not fit beside the cores a part is read. Wide ResNet-50 and ResNeXt-50 are published at the "
    "rate that reading all of them each frame would give, ResNet-101 at that of reading a half.",
    "The bandwidth of external memory is an estimate from the memory chips: nobody states it.",
)


@dataclass(frozen=True)
class Published:
    """One line of the vendor's table that a network of ours stands for."""

    network: str
    frames_per_s: float
    kept_back: bool


def published() -> list[Published]:
    """The table, in the vendor's order."""
    lines = (PUBLISHED / "axelera_fps.csv").read_text(encoding="utf-8").splitlines()
    table = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [
        Published(line["network"], float(line["frames_per_s"]), line["kept_back"] == "yes") for line in table
    ]  # fmt: skip


def frames_per_s(network: str, target: Target) -> float:
    """Frames a second of all cores, each with a frame of its own."""
    return target.cores * target.clock_hz / sum(timing.total for timing in timed_stages(network, target))


def rows_of(wanted: Iterable[Published]) -> list[Row]:
    """The figures of those networks."""
    target = load_target(TARGETS[0])
    return [
        Row(
            SET, line.network, "frames/s", line.frames_per_s, frames_per_s(line.network, target),
            kept_back=line.kept_back,
        )
        for line in wanted
    ]  # fmt: skip


def rows() -> list[Row]:
    """Every figure."""
    return rows_of(published())


def rules(rows: Sequence[Row]) -> list[Rule]:
    """The order of all networks, that of those kept back, and that none is predicted slower than it was measured."""
    highest = max(rows, key=lambda row: row.published / row.ours)
    back = [row for row in rows if row.kept_back]
    return [
        Rule(SET, "rank correlation of all networks", _rank(rows), LEAST_RANK, "at least"),
        Rule(SET, "rank correlation of those kept back", _rank(back), LEAST_RANK, "at least"),
        Rule(SET, f"published over ours, highest ({highest.name})", highest.published / highest.ours, 1.0),
    ]


def leave_one_out() -> list[LeftOut]:
    """The networks with convolutions in groups, by whose figures it was chosen that those run dense."""
    chip = load_target(TARGETS[0])
    ways = [set_values(chip, {"array.grouped": way}) for way in ("groups", "dense")]
    figures = {line.network: line.frames_per_s for line in published() if line.network in GROUPED}
    ours = {name: [frames_per_s(name, way) for way in ways] for name in figures}

    def refit(rest: Mapping[str, float], name: str) -> float:
        errors = [sum(abs(math.log(ours[n][way] / rest[n])) for n in rest) for way in range(len(ways))]
        return ours[name][errors.index(min(errors))]

    return left_out(figures, refit, "frames/s")


def _rank(rows: Sequence[Row]) -> float:
    return rank_correlation([row.ours for row in rows], [row.published for row in rows])
