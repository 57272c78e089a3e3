"""Streams over simulated cores that keep the chip's time: the rate against what the cores can do, and the host's part.

The cores replay outputs that they recorded and take as long as the chip is modelled to take, so that a load of more
cores than this machine has is an honest one: what is left to measure is the scheduler. The peer is the same work in a
plain loop over a ThreadPoolExecutor, in turn within the same run.
"""

from __future__ import annotations

import platform
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import onnx

from axtool import __version__
from axtool.cli.console import Progress
from axtool.compiler import compile_file
from axtool.options import Options
from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from benchmarks import table
from benchmarks.measure import Timing
from benchmarks.networks import yolov8n
from benchmarks.table import Row

PACED = "yolov8n-960"  # 5.4 ms on a core of `metis`: 16 cores leave the host 340 us a frame
EDGE = "yolov8n-640"  # 2.34 ms: 6,800 frames/s of 16 cores are more than Python threads hand on on a busy machine
SIZES = {PACED: 960, EDGE: 640}
BOARDS = {1: "metis-1core", 4: "metis-pcie", 16: "metis-pcie*4"}
RATE_TARGET = 0.97
BUDGET_S = 50e-6  # of the host for each frame
FRAMES = 5_000  # of the rows without pacing


def run(*, rounds: int, seconds: float, cores: Sequence[int], edge: bool) -> list[Row]:
    """Rows of the host's part alone, and of the load on each number of cores."""
    with tempfile.TemporaryDirectory() as folder:
        rows = host_rows(compiled(EDGE, Path(folder)), rounds)
        model = compiled(PACED, Path(folder))
        for count in cores:
            rows += load_rows(PACED, model, count, rounds, seconds, RATE_TARGET)
        if edge:
            rows += load_rows(EDGE, compiled(EDGE, Path(folder)), max(cores), rounds, seconds, None)
    return rows


def host_rows(model: Path, rounds: int) -> list[Row]:
    """What a frame costs the host, with the window that a stream has by default: where nothing is done, and where a
    core gives a recorded output at once. It is the CPU of all threads that counts: the wall time of a quiet machine.
    """
    with machine.simulated(BOARDS[4], replay=True), scheduler.create() as own:
        device, buffers = device_part(model)
        drained(own.stream(buffers * 4, device))  # what is replayed is recorded
        source = [buffers[index % len(buffers)] for index in range(FRAMES)]
        nothing, workers, window = op.seq(op.identity()), 2 * own.core_count, 4 * own.core_count
        times = in_turn(
            {
                "no-op": lambda: drained(own.stream(source, nothing)),
                "model, replayed": lambda: drained(own.stream(source, device)),
                "pool": lambda: drained(pooled(source, lambda frame: frame, workers, window)),
            },
            rounds,
        )
    budget = {"name": "budget", "version": "", "cpu_median_ms": 1e3 * BUDGET_S}
    pool = table.side("ThreadPoolExecutor, no-op", platform.python_version(), times["pool"])
    rows = []
    for name in ("no-op", "model, replayed"):
        ours = table.side("axtool", __version__, times[name])
        ratio = 1e3 * BUDGET_S / times[name].cpu_median_ms
        over_pool = times["pool"].cpu_median_ms / times[name].cpu_median_ms
        rows.append(table.row(name, "host's CPU of a frame", ratio, 1.0, ours=ours, peer=budget))
        rows.append(table.row(name, "the same, over a pool", over_pool, None, ours=ours, peer=pool))
    return rows


def load_rows(name: str, model: Path, cores: int, rounds: int, seconds: float, target: float | None) -> list[Row]:
    """The rate of a stream of device buffers on so many cores, of what those cores are modelled to do."""
    with machine.simulated(BOARDS[cores], realtime=True, replay=True), scheduler.create() as own:
        device, buffers = device_part(model)
        drained(own.stream(buffers * cores, device))
        frame_s = modelled_s(own)
        frames = max(cores, round(seconds * cores / frame_s))
        plain = PlainCores(cores, frame_s)
        source = [buffers[index % len(buffers)] for index in range(frames)]
        times = in_turn(
            {
                "ours": lambda: drained(own.stream(source, device)),
                "pool": lambda: drained(pooled(source, plain.run, 2 * cores, 4 * cores)),
            },
            rounds,
        )
    ideal = {"name": "the cores, modelled", "version": "", "median_ms": 1e3 * frame_s / cores}
    where = f"{name}, {cores} {'core' if cores == 1 else 'cores'}"
    rows = []
    for key, what, wanted in (("ours", "rate of modelled", target), ("pool", "the pool's rate", None)):
        who = "axtool" if key == "ours" else "ThreadPoolExecutor"
        made = table.side(who, __version__ if key == "ours" else platform.python_version(), times[key])
        made["frames_per_s"] = round(1e3 / times[key].median_ms, 1)
        ratio = ideal["median_ms"] / times[key].median_ms
        rows.append(table.row(where, what, ratio, wanted, ours=made, peer=ideal, cores=cores))
    return rows


class PlainCores:
    """Cores that keep time by a plain queue of those that are free: what the peer's frames run on."""

    def __init__(self, cores: int, frame_s: float) -> None:
        self._frame_s = frame_s
        self._free: SimpleQueue[float] = SimpleQueue()  # until when each core is taken
        for _ in range(cores):
            self._free.put(0.0)

    def run(self, frame: Any) -> Any:
        """Take a core for one frame; the core is ready for the next when the frame's time is over, not our sleep."""
        asked = time.perf_counter()
        end = max(asked, self._free.get()) + self._frame_s
        while (wait := end - time.perf_counter()) > 0:
            time.sleep(wait)
        self._free.put(end)
        return frame


def pooled(frames: Iterable[Any], work: Callable[[Any], Any], workers: int, window: int) -> Iterator[tuple[Any, Any]]:
    """(frame, result) in order, at most `window` frames in flight: what a stream is without a scheduler."""
    waiting: deque[tuple[Any, Any]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for frame in frames:
            waiting.append((frame, pool.submit(work, frame)))
            if len(waiting) >= window:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


def drained(results: Iterable[Any]) -> int:
    """How many there are."""
    return sum(1 for _ in results)


def in_turn(cases: dict[str, Callable[[], int]], rounds: int) -> dict[str, Timing]:
    """Seconds a frame of each round of each case; a case gives how many frames it had."""
    wall: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for index in range(rounds + 1):
        for name, case in cases.items():
            cpu_start, start = time.process_time(), time.perf_counter()
            frames = case()
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
            if index:  # the first round warms up
                wall[name].append(seconds / frames)
                cpu[name].append(cpu_seconds / frames)
    return {name: Timing(tuple(wall[name]), tuple(cpu[name])) for name in cases}


def compiled(name: str, folder: Path) -> Path:
    """A network, compiled for `metis` with one random sample: only its time counts."""
    source, made = folder / f"{name}.onnx", folder / f"{name}.axm"
    onnx.save(yolov8n(SIZES[name], tail=False), str(source))
    options = Options(target="metis", calib=("random:1",), optimize=0)
    compile_file(source, made, options, Progress(quiet=True), force=True)
    return made


def device_part(model: Path) -> tuple[op.Seq, list[Any]]:
    """The device operator of a model alone, and buffers that it takes: no work of the host is in between."""
    loaded = op.load(model)
    device = next(step for step in loaded.operators if isinstance(step, op.AxRuntimeModel))
    rng = np.random.default_rng(0)
    infos = [lane.info for lane in device.part.inputs]
    buffers = [rng.integers(-128, 128, infos[0].shape, infos[0].dtype) for _ in range(4)]
    return op.seq(device), buffers


def modelled_s(own: scheduler.Scheduler) -> float:
    """Modelled seconds of one frame on one core, from what the scheduler's cores have run."""
    cores = [core for core in own.stats().cores if core.frames]
    return sum(core.modelled_s for core in cores) / sum(core.frames for core in cores)


def main() -> None:
    """`python -m benchmarks.stream`."""
    parser = table.parser("stream", __doc__, rounds=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each paced run (default %(default)s)")
    parser.add_argument("--cores", type=int, nargs="*", choices=BOARDS, default=list(BOARDS), help="1, 4, 16")
    parser.add_argument("--edge", action="store_true", help=f"{EDGE} too, which is the edge of what the host can do")
    given = parser.parse_args()
    rows = run(rounds=given.rounds, seconds=given.seconds, cores=given.cores, edge=given.edge)
    table.show("stream", rows, as_json=given.json)


if __name__ == "__main__":
    main()
