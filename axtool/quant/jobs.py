"""Calibration over several processes: each takes its share of the samples, and what they saw is merged."""

from __future__ import annotations

import multiprocessing
import pickle
import tempfile
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.inputs.samples import Samples

if TYPE_CHECKING:
    from axtool.quant.calibrate import Progress, Seen, Work

_PART = 8  # samples of one task: often enough for progress, few enough to open sessions seldom


def observe_in_processes(work: Work, samples: Samples, jobs: int, progress: Progress | None) -> Seen:
    """What `jobs` processes see of the samples; the same bits as one process sees of all."""
    parts = max(jobs, -(-len(samples) // _PART))
    # A fresh interpreter: a forked one would inherit the threads of onnxruntime in the middle of their work.
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="axtool-") as folder:
        path = Path(folder) / "work"
        path.write_bytes(pickle.dumps(work))
        with ProcessPoolExecutor(jobs, context) as pool:
            futures: dict[Future[Seen], range] = {}
            for part in range(parts):
                indices = range(part, len(samples), parts)
                futures[pool.submit(_observe_part, str(path), samples.select(indices), indices)] = indices
            _report(futures, len(samples), progress)
            results = [future.result() for future in futures]
    first = results[0]
    for result in results[1:]:
        first.merge(result)
    return first


def _report(futures: dict[Future[Seen], range], total: int, progress: Progress | None) -> None:
    """Call `progress` as parts come in; stop waiting at the first that failed."""
    waiting, done = set(futures), 0
    while waiting:
        finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        done += sum(len(futures[future]) for future in finished)
        if any(future.exception() for future in finished):
            for future in waiting:
                future.cancel()
            return
        if progress is not None:
            progress(done, total)


_loaded: dict[str, Work] = {}


def _observe_part(path: str, samples: Samples, indices: range) -> Seen:
    """Runs in the other process; the work is read once there."""
    from axtool.quant.calibrate import observe

    if path not in _loaded:
        _loaded[path] = pickle.loads(Path(path).read_bytes())
    seen = observe(_loaded[path], samples)
    seen.facts.renumber(indices)
    return seen
