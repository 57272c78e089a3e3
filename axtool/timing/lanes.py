"""The lanes of the timeline: which engine each is, what it is charged as, and the spans in which it is busy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axtool.types import Event

# Each lane with the category of its cycles; a cycle belongs to the first busy lane of this order.
LANES: Mapping[str, str] = {
    "mac": "mac",
    "vector": "compute",
    "array": "data_array",
    "port": "data_ocm",
    "control": "other",
    "dma read": "data_external",
    "near read": "data_external",
    "dma write": "data_external",
}
TRANSFERS = ("dma read", "near read", "dma write")
ENGINES = tuple(name for name in LANES if name not in TRANSFERS)  # in front of them in the order
NO_CAUSE = -1


class Lane:
    """The busy spans of one engine, in order; none begins before the one in front has ended.

    `causes` has the index of what a span of the control lane is for, NO_CAUSE on other lanes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.merges = name not in TRANSFERS
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.layers: list[int] = []
        self.causes: list[int] = []

    @property
    def free(self) -> int:
        """The cycle from which on the engine has nothing to do."""
        return self.ends[-1] if self.ends else 0

    def add(self, start: int, end: int, layer: int, cause: int = NO_CAUSE) -> None:
        """A span of work. One that continues the span in front becomes part of it; requests stay apart."""
        if end <= start:
            return
        assert start >= self.free, f"{self.name}: {start} is before {self.free}"
        if start == self.free and self.merges and self.layers and (self.layers[-1], self.causes[-1]) == (layer, cause):
            self.ends[-1] = end
            return
        self.starts.append(start)
        self.ends.append(end)
        self.layers.append(layer)
        self.causes.append(cause)

    def events(self) -> Iterator[Event]:
        """The spans as events of the timeline."""
        category = LANES[self.name]
        for start, end, layer in zip(self.starts, self.ends, self.layers, strict=True):
            yield Event(start, end, self.name, category, layer)
