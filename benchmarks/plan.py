"""CPU of planning a network and of timing one frame, against a budget.

`planning` is what `axtool.plan.build.plan` takes for a lowered program, `timing` what `time_plan` takes for its
commands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from axtool import __version__
from axtool.graph.front import Reading
from axtool.plan.build import plan
from axtool.report.profile import plans_of_onnx
from axtool.target import Target
from axtool.target_file import load_target
from axtool.timing.clock import time_plan
from axtool.types import Plan
from benchmarks import table
from benchmarks.measure import Case, interleave
from benchmarks.table import Row
from benchmarks.validation.chimera_data import backbone_model
from benchmarks.validation.shapes import Built
from benchmarks.validation.yolo import yolo_v8

TIMING_S = 1.0


@dataclass(frozen=True)
class Subject:
    """A network, the chip that it is planned for, and the seconds of CPU that planning it may take."""

    build: Callable[[], Built]
    target: str
    planning_s: float


SUBJECTS = {
    "detr-r101-backbone": Subject(backbone_model, "qc-u-1d5-8mb", 10.0),
    "yolov8n-640": Subject(lambda: yolo_v8("n"), "qc-u-1d7-16mb", 2.0),
}


def compare(name: str, subject: Subject, *, rounds: int, warm_up: int = 1) -> list[Row]:
    """One row for the plan, one for the frame."""
    target = load_target(subject.target)
    planned = plan_of(subject, target)
    cases: dict[str, Case] = {
        "planning": lambda number: lambda: plan(planned.program, target),
        "timing": lambda number: lambda: time_plan(planned, target),
    }
    budgets = {"planning": subject.planning_s, "timing": TIMING_S}
    times = interleave(cases, rounds=rounds, warm_up=warm_up, again=False)
    return [
        table.row(
            name, f"{what}, CPU", budgets[what] / (took.cpu_median_ms / 1e3), 1.0,
            ours=table.side("axtool", __version__, took, commands=len(planned.commands)),
            peer={"name": "budget", "version": "", "cpu_median_ms": 1e3 * budgets[what]},
        )
        for what, took in times.items()
    ]  # fmt: skip


def plan_of(subject: Subject, target: Target) -> Plan:
    """The plan of the first device stage."""
    with tempfile.TemporaryDirectory() as folder:
        return plans_of_onnx(subject.build().write(Path(folder)), target, Reading())[0][0]


def run(names: Sequence[str], *, rounds: int) -> list[Row]:
    """Every row of the named networks."""
    rows: list[Row] = []
    for name in names:
        table.say(f"{name}: planning")
        rows += compare(name, SUBJECTS[name], rounds=rounds)
    return rows


def main() -> None:
    """`python -m benchmarks.plan`."""
    parser = table.parser("plan", __doc__, rounds=5)
    table.add_names(parser, SUBJECTS)
    given = parser.parse_args()
    table.show("plan", run(given.names or list(SUBJECTS), rounds=given.rounds), as_json=given.json)


if __name__ == "__main__":
    main()
