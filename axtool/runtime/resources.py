"""`ResourceMonitor`: what a block of code costs this process, in processor time and memory. Measured."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType


class ResourceMonitor:
    """Watches this process while the block runs; the figures can be read inside the block and after it.

        with ResourceMonitor() as used:
            ...
        print(used)

    Every thread of the process counts, whoever started it; other processes do not. Monitors may overlap.
    """

    def __init__(self) -> None:
        self._begun = self._cpu = 0.0
        self._ended: tuple[float, float] | None = None
        self._peak: int | None = None

    def __enter__(self) -> ResourceMonitor:
        with _LOCK:
            for other in _WATCHING:  # the system keeps one peak, which is about to begin anew
                other._note_peak()
            restart_peak()
            _WATCHING.append(self)
        self._peak, self._ended = None, None
        self._begun, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = self._passed()
        with _LOCK:
            self._note_peak()
            _WATCHING.remove(self)

    @property
    def elapsed_s(self) -> float:
        """Seconds by the clock on the wall."""
        return (self._ended or self._passed())[0]

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all threads of this process."""
        return (self._ended or self._passed())[1]

    @property
    def cpu_percent(self) -> float:
        """Processor time of the elapsed time: 100 is one core at work all the time, so it may exceed 100."""
        elapsed, cpu = self._ended or self._passed()
        return 100 * cpu / elapsed if elapsed > 0 else 0.0

    @property
    def core_count(self) -> int:
        """Cores of this machine that the process may use."""
        return usable_cores()

    @property
    def peak_rss_bytes(self) -> int | None:
        """The most memory in use at once; None where the system does not say. Where it cannot begin anew (outside
        Linux), that of the whole life of the process.
        """
        if self._ended is None:
            with _LOCK:
                self._note_peak()
        return self._peak

    def __str__(self) -> str:
        peak = self.peak_rss_bytes
        memory = "" if peak is None else f", {peak / 2**20:,.1f} MiB of memory at the peak"
        return (
            f"{self.cpu_percent:.1f} % of a processor core ({self.core_count} usable) for {self.elapsed_s:.2f} s"
            f"{memory}; measured"
        )

    def _passed(self) -> tuple[float, float]:
        return time.perf_counter() - self._begun, time.process_time() - self._cpu

    def _note_peak(self) -> None:
        now = peak_bytes()
        if now is not None:
            self._peak = max(now, self._peak or 0)


_LOCK = threading.Lock()
_WATCHING: list[ResourceMonitor] = []


def usable_cores() -> int:
    """Cores of this machine that the process may use: fewer than there are where it is pinned."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def restart_peak() -> None:
    """From here on `peak_bytes` counts anew, where the system can; elsewhere it is that of the whole process."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_bytes() -> int | None:
    """The most memory that this process had in use."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
