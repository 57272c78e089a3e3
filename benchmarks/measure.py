"""Things to time  ->  seconds: cases taken in turn within one run, and whole processes."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Case = Callable[[int], Callable[[], object]]  # number of an input -> what is timed: that input, in place, is run


@dataclass(frozen=True)
class Timing:
    """Seconds of each run: by the clock on the wall, and of CPU over all threads of the process."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        return 1e3 * statistics.median(self.wall_s)

    @property
    def min_ms(self) -> float:
        return 1e3 * min(self.wall_s)

    @property
    def cpu_median_ms(self) -> float:
        return 1e3 * statistics.median(self.cpu_s)

    @property
    def cpu_min_ms(self) -> float:
        return 1e3 * min(self.cpu_s)

    def to_dict(self) -> dict[str, float | int]:
        """Milliseconds, and the number of runs."""
        return {
            "median_ms": round(self.median_ms, 4),
            "min_ms": round(self.min_ms, 4),
            "cpu_median_ms": round(self.cpu_median_ms, 4),
            "cpu_min_ms": round(self.cpu_min_ms, 4),
            "runs": len(self.wall_s),
        }


def interleave(
    cases: Mapping[str, Case], *, rounds: int = 25, warm_up: int = 3, again: bool = True
) -> dict[str, Timing]:
    """The cases in turn, `rounds` times, each round in another order, after `warm_up` rounds that are not counted.

    Each turn begins when no thread of this process is busy, and runs a case twice, on two inputs that no other turn
    has: the first brings its code, its weights and its threads back after the others, the second is timed. With `again`
    False only the second is run.
    """
    order, shuffle = list(cases), random.Random(0).shuffle
    wall: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for index in range(warm_up + rounds):
        shuffle(order)
        for name in order:
            settle()
            if again:
                cases[name](2 * index)()
            run = cases[name](2 * index + 1)
            cpu_start, start = time.process_time(), time.perf_counter()
            run()
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
            if index >= warm_up:
                wall[name].append(seconds)
                cpu[name].append(cpu_seconds)
    return {name: Timing(tuple(wall[name]), tuple(cpu[name])) for name in cases}


def settle(*, step_s: float = 0.002, most_s: float = 0.5) -> None:
    """Wait until the threads of this process sleep: those of onnxruntime spin for a while after each run, and would
    take a core from whatever is timed next.
    """
    end = time.perf_counter() + most_s
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(step_s)
        if time.process_time() - before < step_s / 10:
            return


@dataclass(frozen=True)
class Finished:
    """A process that ended well: its seconds and what it printed."""

    wall_s: float
    cpu_s: float
    stdout: str


def run_process(arguments: Sequence[str]) -> Finished:
    """Run a process to its end, its stderr passed on to ours; CPU is user and system time of all its threads.

    Raises RuntimeError when it fails: what did not work took no time worth comparing.
    """
    start = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # waited for here: Popen must not wait again
    wall_s = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments[:3])[:80]} … ended with {process.returncode}")
    return Finished(wall_s, usage.ru_utime + usage.ru_stime, printed)


def run_python(code: str, *arguments: str) -> Finished:
    """Run Python code in a fresh interpreter."""
    return run_process([sys.executable, "-c", code, *arguments])


def interleave_processes(
    cases: Mapping[str, Callable[[], Finished]], *, rounds: int, warm_up: int = 1
) -> dict[str, Timing]:
    """Processes in turn, `rounds` times, after `warm_up` rounds that bring their files into memory."""
    done: dict[str, list[Finished]] = {name: [] for name in cases}
    for index in range(-warm_up, rounds):
        for name, run in cases.items():
            finished = run()
            if index >= 0:
                done[name].append(finished)
    return {name: Timing(tuple(f.wall_s for f in fs), tuple(f.cpu_s for f in fs)) for name, fs in done.items()}
