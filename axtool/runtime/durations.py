"""Seconds, one after another  ->  how many, their sum, extremes and quantiles, in a memory that does not grow."""

from __future__ import annotations

import math
from collections.abc import Iterable

PER_OCTAVE = 32  # buckets from one power of two to the next: a quantile is right within 1.1 %
_SHORTEST_S = 1e-9


class Durations:
    """What is known of many durations. Sums and extremes are exact; quantiles are those of buckets 2.2 % wide.

    Not for use from two threads at once.
    """

    __slots__ = ("_buckets", "count", "max_s", "min_s", "total_s")

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self.count, self.total_s = 0, 0.0
        self.min_s, self.max_s = math.inf, 0.0
        self._buckets: dict[int, int] = {}
        for one in seconds:
            self.add(one)

    def add(self, seconds: float) -> None:
        """One more; a clock that went back counts as nothing."""
        seconds = max(seconds, 0.0)
        bucket = math.floor(PER_OCTAVE * math.log2(max(seconds, _SHORTEST_S)))
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.total_s += seconds
        self.min_s, self.max_s = min(self.min_s, seconds), max(self.max_s, seconds)

    def update(self, other: Durations) -> None:
        """All that another one has seen, as if it had been seen here."""
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.total_s += other.total_s
        self.min_s, self.max_s = min(self.min_s, other.min_s), max(self.max_s, other.max_s)

    @property
    def mean_s(self) -> float:
        """0 where there are none."""
        return self.total_s / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The duration that `share` (0 to 1) of them do not exceed, in seconds; 0 where there are none."""
        if not self.count:
            return 0.0
        wanted = max(1, math.ceil(share * self.count))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                break
        middle = 2.0 ** ((bucket + 0.5) / PER_OCTAVE)
        return float(min(max(middle, self.min_s), self.max_s))
