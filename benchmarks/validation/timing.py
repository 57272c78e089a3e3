"""A network and a chip  ->  its plan and its timing, on the road that `axtool profile model.onnx` takes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from axtool.graph.front import Reading
from axtool.report.profile import plans_of_onnx
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.timing.ledger import Timing
from axtool.types import Plan
from benchmarks.validation.networks import NETWORKS


def planned(name: str, target: Target) -> Plan:
    """The plan of a network of `NETWORKS`. Raises ValueError where it is not one device stage and nothing else."""
    with tempfile.TemporaryDirectory(prefix="validation-") as folder:
        plans, host_nodes = plans_of_onnx(NETWORKS[name].build().write(Path(folder)), target, Reading())
    if len(plans) != 1 or host_nodes:
        raise ValueError(
            f"{name} on {target.name}: {len(plans)} device stages and {host_nodes} host nodes, want 1 and 0"
        )
    return plans[0]


def timed_stages(name: str, target: Target) -> list[Timing]:
    """The timings of the device stages of one frame, which run one after the other; what the host does is left out."""
    with tempfile.TemporaryDirectory(prefix="validation-") as folder:
        plans, _ = plans_of_onnx(NETWORKS[name].build().write(Path(folder)), target, Reading())
    return [time_plan(plan, target) for plan in plans]


def timed(name: str, target: Target) -> Timing:
    """The timing of one frame."""
    return time_plan(planned(name, target), target)
