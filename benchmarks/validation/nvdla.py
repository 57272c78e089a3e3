"""NVDLA: ResNet-50 layer by layer on the large design, and frames a second on seven sizes of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from axtool.plan.build import plan
from axtool.target import Target
from axtool.target_file import load_target, set_values
from axtool.timing.clock import time_plan
from axtool.timing.ledger import LayerTime
from axtool.types import Plan
from benchmarks.validation.chip import PUBLISHED
from benchmarks.validation.rows import LeftOut, Row, Rule, median_error, total_error
from benchmarks.validation.timing import planned

TITLE = "NVDLA"
TARGET = "nvdla-2048"
TARGETS = (TARGET,)
NETWORK = "resnet50-v1"  # the stride is in the 1x1, as in the sheet
LAYERS = "ResNet-50 by layer"
SIZES = "ResNet-50 by size of the design"
LARGEST = 2048
ABOUT = """
NVIDIA published a spreadsheet that estimates ResNet-50 layer by layer on 2,048 MACs, and a table of frames a second for
seven sizes of the design. Both are models, "ideal" ones: a layer takes as long as its MACs or its DRAM traffic.
Compared are the sheet's columns without a second memory, at 10 GB/s. Its header speaks of a batch of 16 for the fully
connected layer; these columns, and their sum, count it at a batch of 1, and so do we. The table has 269 frames a second
for the same design at 20 GB/s where the sheet has 140.6 at 10 GB/s: one model, two bandwidths.

A line of the sheet is a convolution with what follows it: pooling behind conv1 and behind the last block, the residual
addition behind the third convolution of a block. We time the layers of the compiled network and add those up.

The seven sizes are one target with other values, by one rule. The atoms halve in turn, kernels first: 64 x 32, 64 x 16,
32 x 16, 32 x 8 (the released nv_large, nv_medium_1024, nv_medium_512, nv_small_256), then 16 x 8, 16 x 4 (the small
example of the hardware specification) and 8 x 4. Only the largest has Winograd: the released designs below it switch it
off. The buffer's port is 16 banks of as many bytes as input channels, and a block of weights takes 16 cycles, as in the
largest. Buffer and bandwidth are those of the table.
"""
WRONG = (
    "The sheet counts a KB of traffic, 1,024 bytes, as 100 cycles at 10 bytes a cycle; we count 102.4.",
    "The sheet stores the weights of strided layers four times over. The hardware's direct convolution need not; "
    "`array.strided_weights` follows the sheet.",
    "The sheet gives res2a_branch2a 256 input channels. It has 64, and takes half as long here.",
    "conv1: the sheet fills 16 lanes with the 3 channels of 2 x 2 pixels, the hardware folds rows of taps into them. "
    "We fold the taps.",
    "Parts of a concat whose formats differ are rescaled in a pass through DRAM; the chip does so as it writes them. "
    "ResNet has none; of Inception-v1 it is a tenth.",
    "The sheet knows no latency, no start of a layer and no limit of SDP and PDP. A simulation of the open hardware on "
    "AlexNet took 2.09 M cycles where the sheet has 0.90 M (its maintainers' tracker at nvdla/hw, number 202).",
)


@dataclass(frozen=True)
class Line:
    """A line of the sheet: KB of DRAM traffic, cycles of the MACs, and the cycles that count."""

    layer: str
    dram_kb: float
    mac_cycles: float
    cycles: float


def rows() -> list[Row]:
    """Every figure."""
    return [*layer_rows(), *size_rows()]


def rules(rows: Sequence[Row]) -> list[Rule]:
    """The layers as a whole: half of them within 10 %, their sum within 5 %."""
    layers = [row for row in rows if row.set == LAYERS]
    return [
        Rule(LAYERS, "median error of a layer", median_error(layers), 0.10, unit="%"),
        Rule(LAYERS, "error of the sum", abs(total_error(layers)), 0.05, unit="%"),
    ]


def leave_one_out() -> list[LeftOut]:
    """Nothing is fitted."""
    return []


def layer_rows() -> list[Row]:
    """Cycles of each line of the sheet on the target as it is."""
    target = load_target(TARGET)
    groups = lines_of(time_plan(network(), target).layers)
    return [
        Row(LAYERS, line.layer, "cycles", line.cycles, sum(layer.total for layer in group))
        for line, group in zip(sheet(), groups, strict=True)
    ]


def size_rows() -> list[Row]:
    """Frames a second of each size."""
    found = []
    for size in _csv("nvdla_resnet50_sizes"):
        chip = design(int(size["macs"]), int(size["buffer_kib"]), float(size["dram_gb_per_s"]))
        timing = time_plan(plan(network().program, chip), chip)
        name = f"{size['macs']} MACs, {size['buffer_kib']} KiB, {size['dram_gb_per_s']} GB/s"
        ours = chip.clock_hz / timing.total
        found.append(Row(SIZES, name, "frames/s", float(size["frames_per_s"]), ours, tolerance=0.15))
    return found


def design(macs: int, buffer_kib: int, dram_gb_per_s: float) -> Target:
    """The design with so many MACs, a buffer and a bandwidth. Raises ValueError where the atoms do not halve to it."""
    inputs, outputs = atoms(macs)
    changes: Mapping[str, object] = {
        "array.input_channels": inputs,
        "array.output_channels": outputs,
        "array.winograd": load_target(TARGET).array.winograd if macs == LARGEST else 1,
        "array.weights_bytes_per_cycle": inputs * outputs / 16,
        "memory.ocm_bytes": f"{buffer_kib}KiB",
        "memory.ocm_bytes_per_cycle": 16 * inputs,
        "external.read_bytes_per_s": dram_gb_per_s * 1e9,
        "external.write_bytes_per_s": dram_gb_per_s * 1e9,
    }
    return set_values(load_target(TARGET), changes)


def atoms(macs: int) -> tuple[int, int]:
    """Input and output channels of a step: halved in turn from those of the largest design, output channels first."""
    array = load_target(TARGET).array
    size = [array.input_channels, array.output_channels]
    turn = 1
    while size[0] * size[1] > macs and size[turn] > 1:
        size[turn] //= 2
        turn = 1 - turn
    if size[0] * size[1] != macs:
        raise ValueError(f"{macs} MACs: want {LARGEST} halved")
    return size[0], size[1]


@cache
def network() -> Plan:
    """ResNet-50, planned once; the Program in it is planned again for other designs."""
    return planned(NETWORK, load_target(TARGET))


def sheet() -> list[Line]:
    """The lines of the spreadsheet, in order."""
    return [
        Line(row["layer"], float(row["dram_kb"]), float(row["mac_cycles"]), float(row["cycles"]))
        for row in _csv("nvdla_resnet50_layers")
    ]


def lines_of(layers: Sequence[LayerTime]) -> list[list[LayerTime]]:
    """Each convolution, in the order of the model, with the layers that run until the next one."""
    groups: dict[int, list[LayerTime]] = {}
    for layer in layers:
        if layer.op == "conv":
            groups[_place(layer)] = group = [layer]
        else:
            group.append(layer)
    return [groups[place] for place in sorted(groups)]


def _place(layer: LayerTime) -> int:
    """The number that the model's node has in its name."""
    return int(layer.origin[0].rsplit("_", 1)[1])


def _csv(name: str) -> Iterator[dict[str, str]]:
    """The rows of published/<name>.csv; lines that begin with # say where they are from."""
    lines = (PUBLISHED / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    yield from csv.DictReader(line for line in lines if not line.startswith("#"))
