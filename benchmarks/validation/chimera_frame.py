"""DETR-R101 whole on QC-U: backbone, transformer and heads as one program, beside every figure of the job summary."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import onnx

from axtool.graph.front import Reading
from axtool.report.feed_forward import feed_forward_blocks
from axtool.report.plan_facts import peak_bytes, peak_local_bytes, spilled_slots
from axtool.report.profile import plans_of_onnx
from axtool.target_file import load_target, set_values
from axtool.timing.clock import time_plan
from axtool.timing.ledger import Timing
from axtool.types import Plan
from benchmarks.attention import detr_r101
from benchmarks.validation.chimera_data import say, totals
from benchmarks.validation.rows import Row, Rule

TARGET, RECIPE = "qc-u-1d5-8mb", "detr-mixed"
MIB, GIGA = 2**20, 1e9
NETWORK = "DETR-R101: the network as it is compiled"
LEDGER = "DETR-R101: a whole frame"
WHOLE_GMACS, OUTSIDE_GMACS, BLOCKS = 101.358, 96.954, 12  # the summary prints those outside the feed-forward blocks
TOLERANCES = {
    "total": 0.05, "mac": 0.03, "compute": 0.10, "data_ocm": 0.05, "data_array": 0.10, "data_external": 0.10,
    "external reads": 0.20, "external writes": 0.03,
}  # fmt: skip
TEMPORARY_MIB, LOCAL_KIB = 26.936, 3.0


@dataclass(frozen=True)
class Frame:
    """The one device stage of the network, timed, and how many nodes the host runs behind it."""

    plan: Plan
    timing: Timing
    host_nodes: int


@cache
def frame() -> Frame:
    """The network, planned and timed once, without what the published plan does not have either: cascades, and boxes
    of activations that come and go while the array computes.

    Raises ValueError where it is not one device stage with nothing but a Sigmoid on the host.
    """
    target = set_values(load_target(TARGET), {"memory.bands": False, "memory.double_buffers": False})
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="validation-") as folder:
        path = Path(folder) / "detr.onnx"
        onnx.save(detr_r101(), path)
        plans, host_nodes = plans_of_onnx(path, target, Reading(), recipe=RECIPE)
    if len(plans) != 1 or host_nodes > 1:
        raise ValueError(f"{len(plans)} device stages and {host_nodes} host nodes, want 1 and at most 1")
    timing = time_plan(plans[0], target)
    say(f"DETR-R101 whole, measured on this machine: {time.process_time() - began:.1f} s of CPU to compile and to time")
    return Frame(plans[0], timing, host_nodes)


def rows() -> list[Row]:
    """The network's size, the ledger, and what each memory holds."""
    return [*_size_rows(), *_ledger_rows(), *_memory_rows()]


def rules() -> list[Rule]:
    """What is left to the host, and room on the chip."""
    made = frame()
    return [
        Rule(NETWORK, "nodes beside the one program", made.host_nodes, 1, "at most"),
        Rule(LEDGER, "on-chip peak", made.timing.peak_ocm_bytes / MIB, 8, "at most", "MiB"),
    ]


def _size_rows() -> list[Row]:
    made = frame()
    blocks = feed_forward_blocks(made.plan.program)
    inside = sum(made.timing.layers[at].macs for block in blocks for at in block)
    convolutions = sum(made.timing.layers[at].macs for at in _backbone(made.plan))
    return [
        Row(NETWORK, "convolutions of the backbone", "MACs", totals()["convolution MACs"][1], convolutions,
            tolerance=0, fixed=True),
        Row(NETWORK, "feed-forward blocks", "", BLOCKS, len(blocks), tolerance=0, fixed=True),
        Row(NETWORK, "outside the feed-forward blocks", "GMACs", OUTSIDE_GMACS, (made.timing.macs - inside) / GIGA,
            tolerance=0.0005, absolute=True, fixed=True, note="what the summary prints as Network GMACs"),
        Row(NETWORK, "with them", "GMACs", WHOLE_GMACS, made.timing.macs / GIGA,
            tolerance=0.0005, absolute=True, fixed=True),
    ]  # fmt: skip


def _ledger_rows() -> list[Row]:
    timing, published = frame().timing, totals()
    ours = {
        "total": timing.total, **timing.ledger, "external reads": timing.read_bytes / MIB,
        "external writes": timing.write_bytes / MIB,
    }  # fmt: skip
    return [
        Row(LEDGER, name, published[name][0], published[name][1], ours[name], tolerance=tolerance)
        for name, tolerance in TOLERANCES.items()
    ]


def _memory_rows() -> list[Row]:
    made, published = frame(), totals()
    local = peak_local_bytes(made.plan, load_target(TARGET)) / 1024
    outside = peak_bytes(spilled_slots(made.plan)) / MIB
    peak = made.timing.peak_ocm_bytes / MIB
    return [
        Row(LEDGER, "on-chip peak", "MiB", published["on-chip peak"][1], peak, note="how full a packed memory is"),
        Row(LEDGER, "local memory", "KiB", LOCAL_KIB, local, note="of 4 in each processing element"),
        Row(LEDGER, "temporary external memory", "MiB", TEMPORARY_MIB, outside),
    ]


def _backbone(plan: Plan) -> Sequence[int]:
    """The convolutions of the model but the last, which projects the features for the transformer."""
    found = [
        (max(numbers), at)
        for at, layer in enumerate(plan.program.layers)
        if (numbers := [int(name.split("_")[1]) for name in layer.origin if name.startswith("conv_")])
    ]
    return [at for _, at in sorted(found)[:-1]]
