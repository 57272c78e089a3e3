"""A command  ->  its seconds, CPU and peak memory, over all processes that it starts.

A process inherits the peak of the one that it was forked from, so the command is started by this very file, run in an
interpreter of its own that has imported next to nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Metered:
    """What a command took, how it ended, and what it said."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    code: int
    stdout: str
    stderr: str


def metered(command: Sequence[str], *, timeout_s: float = 1800, cwd: Path | None = None) -> Metered:
    """Run a command to its end, which is -9 where it takes longer than `timeout_s`."""
    with tempfile.TemporaryDirectory() as folder:
        out, err, told = (Path(folder) / name for name in ("out", "err", "told"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            launcher = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(told), str(timeout_s)]
            subprocess.run([*launcher, *command], stdout=stdout, stderr=stderr, cwd=cwd, check=True)
        said = [path.read_text(encoding="utf-8", errors="replace") for path in (out, err)]
        values = json.loads(told.read_text(encoding="utf-8"))
    return Metered(**values, stdout=said[0], stderr=said[1])


def _main(told: str, timeout_s: str, *command: str) -> None:
    import resource
    import time

    start = time.perf_counter()
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait(float(timeout_s))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        code = process.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    values = {
        "wall_s": time.perf_counter() - start,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,  # of the largest process; Linux counts in KiB
        "code": code,
    }
    Path(told).write_text(json.dumps(values), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
