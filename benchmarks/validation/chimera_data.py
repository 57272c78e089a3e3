"""What Quadric published, from published/chimera_*.csv, and models of it on the road that `axtool profile` takes."""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from axtool.graph.front import Reading
from axtool.report.profile import plans_of_onnx
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.timing.ledger import Timing
from axtool.types import Layer, Plan
from benchmarks.validation.chip import PUBLISHED
from benchmarks.validation.shapes import Built, Shapes, finish

HEIGHT, WIDTH = 750, 800  # of DETR's picture
BLOCKS = (3, 4, 23, 3)  # of ResNet-101, by stage


@dataclass(frozen=True)
class Conv:
    """One convolution of DETR's backbone and its published multiply-accumulates."""

    layer: str
    cin: int
    cout: int
    kernel: int
    stride: int
    out_h: int
    out_w: int
    macs: int

    def mac_cycles(self, rows: int, columns: int, input_channels: int, drain: float) -> float:
        """Cycles by the closed form T * Cout * (k^2 * ceil(Cin / 16) + 3), T tiles of rows x columns pixels."""
        tiles = ceil(self.out_h / rows) * ceil(self.out_w / columns)
        return tiles * self.cout * (self.kernel**2 * ceil(self.cin / input_channels) + drain)


def read_csv(name: str) -> list[dict[str, str]]:
    """The rows of published/<name>.csv; lines that begin with # say where they are from."""
    lines = (PUBLISHED / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def convolutions() -> list[Conv]:
    """The 104 convolutions as the compile log lists them."""
    return [
        Conv(row["layer"], *(int(row[key]) for key in ("cin", "cout", "kernel", "stride", "out_h", "out_w", "macs")))
        for row in read_csv("chimera_detr_convs")
    ]


def totals() -> dict[str, tuple[str, float]]:
    """Unit and value by figure of DETR's whole frame."""
    return {row["figure"]: (row["unit"], float(row["value"])) for row in read_csv("chimera_detr_totals")}


def backbone_names() -> list[str]:
    """What the log calls each convolution, in the order in which the model writes them: the shortcut goes first."""
    names = ["conv1"]
    for stage, blocks in enumerate(BLOCKS, 1):
        for block in range(blocks):
            names += [f"layer{stage}.{block}/downsample.0"] * (block == 0)
            names += [f"layer{stage}.{block}/conv{at}" for at in (1, 2, 3)]
    return names


def backbone_model() -> Built:
    """ResNet-101 with the stride in the 3x3, as far as its last map: 2048 channels of 24 x 25."""
    net = Shapes("resnet101", HEIGHT, WIDTH)
    x = net.max_pool(net.conv("images", 64, 7, 2, act="relu"), 3, 2, 1)
    for stage, blocks in enumerate(BLOCKS):
        inner, cout = 64 << stage, 256 << stage
        for block in range(blocks):
            s = 2 if stage and block == 0 else 1
            short = net.conv(x, cout, 1, s) if block == 0 else x
            y = net.conv(net.conv(x, inner, 1, act="relu"), inner, 3, s, act="relu")
            x = net.add(net.conv(y, cout), short, "relu")
    return finish(net, x)


@dataclass(frozen=True)
class Timed:
    """One device stage on a chip, and the CPU seconds of this machine that its plan and its timing took."""

    plan: Plan
    timing: Timing
    planning_s: float
    timing_s: float


def time_model(built: Built, target: Target) -> Timed:
    """Plan and time a model. Raises ValueError where it is not one device stage and nothing else."""
    with tempfile.TemporaryDirectory(prefix="validation-") as folder:
        path = built.write(Path(folder))
        marks: list[float] = []
        plans, host_nodes = plans_of_onnx(path, target, Reading(), lambda name: marks.append(time.process_time()))
        planned = time.process_time()
    if len(plans) != 1 or host_nodes:
        raise ValueError(f"{len(plans)} device stages and {host_nodes} host nodes on {target.name}, want 1 and 0")
    timing = time_plan(plans[0], target)
    return Timed(plans[0], timing, planned - marks[-1], time.process_time() - planned)


def in_model_order(plan: Plan) -> list[int]:
    """The indices of the convolution layers, in the order in which the model writes them."""
    layers = [(at, layer) for at, layer in enumerate(plan.program.layers) if layer.op == "conv"]
    return [at for at, _ in sorted(layers, key=lambda pair: _node_number(pair[1]))]


def say(line: str) -> None:
    """Progress and measured times, on stderr."""
    print(line, file=sys.stderr, flush=True)


def _node_number(layer: Layer) -> int:
    """Nodes are named by kind and number, such as conv_17."""
    return next(int(name.rsplit("_", 1)[1]) for name in layer.origin if name.startswith("conv_"))
