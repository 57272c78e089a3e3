"""CPU of `axtool compile MODEL --ranges FILE`, beyond its imports, against a budget.

Each run is a fresh process. What its imports cost is measured by another fresh process that imports the same modules
and does nothing else; the two take turns, and the median of the second is subtracted from each of the first.
`--vela FOLDER` names a folder of int8 `NETWORK.tflite` files and adds ethos-u-vela, where it is installed, as a peer.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from axtool import __version__
from benchmarks import table
from benchmarks.measure import Finished, Timing, interleave_processes, run_process, run_python
from benchmarks.networks import NETWORKS
from benchmarks.peer import random_samples
from benchmarks.table import Row

BUDGET_S = {"mobilenet_v2": 1.0, "yolov8n-640": 1.0, "resnet50": 4.0}
VELA_S = {"mobilenet_v2": 0.75, "yolov8n-640": 0.7, "resnet50": 4.0}  # Vela 5.2 on its int8 files, as published here

COMPILE = """
import sys
from axtool.cli.main import main
try:
    main(["compile", "-q", "--force", *sys.argv[1:]])
finally:
    print("\\n".join(sys.modules), file=open(sys.argv[-1] + ".modules", "w"))
"""
IMPORT = """
import contextlib, importlib, sys
for name in open(sys.argv[1]).read().split():
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""


@dataclass(frozen=True)
class Job:
    """A model file, its ranges, and the file to write."""

    model: Path
    ranges: Path
    out: Path


def prepare(name: str, model: onnx.ModelProto, folder: Path) -> Job:
    """Write the model and, from one random sample, its ranges."""
    job = Job(folder / f"{name}.onnx", folder / f"{name}.json", folder / f"{name}.axm")
    onnx.save(model, job.model)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    np.savez(folder / "sample.npz", images=random_samples(shape, 1)[0]["images"])
    run_python(
        COMPILE, str(job.model), "--calib", str(folder / "sample.npz"), "--save-ranges", str(job.ranges),
        "-o", str(job.out),
    )  # fmt: skip
    return job


def compile_once(job: Job) -> Finished:
    """The whole command in a fresh process."""
    return run_python(COMPILE, str(job.model), "--ranges", str(job.ranges), "-o", str(job.out))


def import_once(job: Job) -> Finished:
    """Only the imports of that command."""
    return run_python(IMPORT, f"{job.out}.modules")


def without(timing: Timing, start: Timing) -> Timing:
    """The runs of `timing`, each less the median of `start`."""
    wall, cpu = statistics.median(start.wall_s), statistics.median(start.cpu_s)
    return Timing(tuple(s - wall for s in timing.wall_s), tuple(s - cpu for s in timing.cpu_s))


def compare(name: str, job: Job, *, rounds: int, warm_up: int = 1, vela: Path | None = None) -> list[Row]:
    """The row against the budget and, where it can run, the row against Vela."""
    cases: dict[str, Callable[[], Finished]] = {
        "compile": partial(compile_once, job),
        "imports": partial(import_once, job),
    }
    program, network = shutil.which("vela"), None if vela is None else vela / f"{name}.tflite"
    if program is not None and network is not None and network.exists():
        out = str(job.out.parent / "vela")
        cases["vela"] = partial(run_process, [program, str(network), "--output-dir", out])
        cases["vela imports"] = partial(run_process, [program, "--version"])
    times = interleave_processes(cases, rounds=rounds, warm_up=warm_up)
    own = without(times["compile"], times["imports"])
    ours = table.side("axtool compile --ranges", __version__, own, imports=times["imports"].to_dict())
    cpu_s = own.cpu_median_ms / 1e3
    budget_s = BUDGET_S[name]
    budget = {"name": "budget", "version": "", "cpu_median_ms": 1e3 * budget_s, "vela_ms": 1e3 * VELA_S[name]}
    rows = [table.row(name, "compile, CPU", budget_s / cpu_s, 1.0, ours=ours, peer=budget)]
    if program is not None and "vela" in cases:
        peer = without(times["vela"], times["vela imports"])
        side = table.side("ethos-u-vela", run_process([program, "--version"]).stdout.strip(), peer)
        rows.append(table.row(name, "compile, CPU", peer.cpu_median_ms / own.cpu_median_ms, None, ours=ours, peer=side))
    return rows


def run(names: Sequence[str], *, rounds: int, vela: Path | None = None) -> list[Row]:
    """Every row of the named networks."""
    rows: list[Row] = []
    for name in names:
        table.say(f"{name}: compiling")
        with tempfile.TemporaryDirectory() as folder:
            rows += compare(name, prepare(name, NETWORKS[name](), Path(folder)), rounds=rounds, vela=vela)
    return rows


def main() -> None:
    """`python -m benchmarks.compile`."""
    parser = table.parser("compile", __doc__, rounds=20)
    table.add_names(parser, BUDGET_S)
    parser.add_argument("--vela", type=Path, metavar="FOLDER", help="of int8 NETWORK.tflite files")
    given = parser.parse_args()
    table.show("compile", run(given.names or list(BUDGET_S), rounds=given.rounds, vela=given.vela), as_json=given.json)


if __name__ == "__main__":
    main()
