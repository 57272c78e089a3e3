"""What is counted of a source while it runs: results, their pace and latency, its queue, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axtool.runtime.durations import Durations
from axtool.runtime.streams.pipeline import Seen
from axtool.runtime.streams.sources import Watched


@dataclass
class Depths:
    """Takes the depths of a source's queue as a list does, but keeps only their mean and maximum."""

    count: int = 0
    total: int = 0
    most: int = 0

    def append(self, depth: int) -> None:
        """One more."""
        self.count, self.total, self.most = self.count + 1, self.total + depth, max(self.most, depth)

    @property
    def mean(self) -> float | None:
        """None where no source said anything."""
        return self.total / self.count if self.count else None


@dataclass
class Pace:
    """When results came. The first `window` of them may come at once, since so many frames are under way together: the
    rate is that of the others, or where there are none that of all since `begun_s`. Behind a source that has a pace of
    its own, what came late is soon made up for, faster than its pace: `window` is None, and the rate that of all.
    """

    window: int | None
    begun_s: float = 0.0  # time.perf_counter(), as all of them
    count: int = 0
    steady_s: float = 0.0
    last_s: float = 0.0

    def add(self, now_s: float) -> None:
        """One more result."""
        self.count += 1
        self.last_s = now_s
        if self.count == self.window:
            self.steady_s = now_s

    @property
    def fps(self) -> float | None:
        """Results a second; None without any."""
        steady = 0 if self.window is None else self.count - self.window
        passed = self.last_s - (self.steady_s if steady > 0 else self.begun_s)
        return (steady if steady > 0 else self.count) / passed if self.count and passed > 0 else None


@dataclass
class SourceRun:
    """What one source gave. `latency` is from the pull of a frame to its result, waiting included; measured.

    `found` has for each label how many objects and in how many frames; of a classifier, the frames it was the best in.
    """

    source: Watched
    saved: Path | None = None
    frames: int = 0
    latency: Durations = field(default_factory=Durations)
    found: dict[str, list[int]] = field(default_factory=dict)
    depths: Depths = field(default_factory=Depths)
    pace: Pace = field(default_factory=lambda: Pace(1))

    @property
    def fps(self) -> float | None:
        """Results a second: see `Pace`."""
        return self.pace.fps

    def add(self, seen: Seen, now_s: float) -> None:
        """One more result."""
        self.frames += 1
        self.pace.add(now_s)
        self.latency.add(now_s - self.source.pulled.popleft())
        for label, count in _labels(seen.result).items():
            counts = self.found.setdefault(label, [0, 0])
            counts[0] += count
            counts[1] += 1


def _labels(result: Mapping[str, Any] | None) -> dict[str, int]:
    """How many of each label are in one frame."""
    found: dict[str, int] = {}
    if result is None or result["kind"] == "semantic":
        return found
    rows = result["classes"][:1] if result["kind"] == "classification" else result["detections"]
    for row in rows:
        found[row["label"]] = found.get(row["label"], 0) + 1
    return found
