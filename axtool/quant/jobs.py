"""Calibration over several processes: each takes its share of the samples, and what they saw is merged."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING

from axtool.inputs.samples import Samples
from axtool.processes import processes, without_interrupts

if TYPE_CHECKING:
    from axtool.quant.observe import Progress, Seen, Work
    from axtool.quant.session import FloatSession

_PART = 8  # samples of one task: often enough for progress, few enough to open sessions seldom


def observe_in_processes(
    work: Work, samples: Samples, jobs: int, progress: Progress | None, held: Collection[int] = ()
) -> tuple[Seen, Seen]:
    """What `jobs` processes see of the samples, and of those `held` back; the same bits as one process sees of all.

    Raises what a process raises, and EnvironmentFault when one of them is gone without a word.
    """
    parts = max(jobs, -(-len(samples) // _PART))
    with tempfile.TemporaryDirectory(prefix="axtool-") as folder:
        path = Path(folder) / "work"
        path.write_bytes(pickle.dumps(work))
        with processes(jobs) as pool:
            futures: dict[Future[tuple[Seen, Seen]], range] = {}
            with without_interrupts():  # the processes begin with the first part
                for part in range(parts):
                    indices = range(part, len(samples), parts)
                    futures[pool.submit(_observe_part, str(path), samples.select(indices), indices, held)] = indices
            _report(futures, len(samples), progress)
            results = [future.result() for future in futures]
    first = results[0]
    for result in results[1:]:
        for seen, more in zip(first, result, strict=True):
            seen.merge(more)
    return first


def _report(futures: dict[Future[tuple[Seen, Seen]], range], total: int, progress: Progress | None) -> None:
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


_opened: dict[str, tuple[Work, list[FloatSession]]] = {}


def _observe_part(path: str, samples: Samples, indices: range, held: Collection[int]) -> tuple[Seen, Seen]:
    """Runs in the other process; the work is read, and its sessions are opened, once there."""
    from axtool.quant.observe import observe, open_pieces

    if path not in _opened:
        made: Work = pickle.loads(Path(path).read_bytes())
        _opened[path] = made, open_pieces(made)
    work, sessions = _opened[path]
    both = observe(work, samples, None, {at for at, index in enumerate(indices) if index in held}, sessions)
    for seen in both:
        seen.renumber(indices)
    return both
