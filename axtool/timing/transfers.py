"""Requests to the memories beside the chip: how long each takes behind those in front, and what is read from where."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import ceil

from axtool.target import DEFAULT_COSTS, Target
from axtool.types import Plan, Program, Slot, View


class UnderWay:
    """Transfers of one direction that may not be done, by the on-chip bytes that they fill or empty."""

    def __init__(self) -> None:
        self._moving: list[tuple[int, int, int]] = []  # first byte, the byte behind the last one, when it is done

    def begin(self, view: View, done: int, past: int) -> None:
        """One more transfer; those done by `past`, which nobody can wait for any more, are forgotten."""
        self._moving = [moving for moving in self._moving if moving[2] > past]
        self._moving.append((view.offset, view.end, done))

    def until(self, view: View) -> int:
        """When the last of the transfers that meet a view is done; 0 where none does."""
        if not self._moving or view.memory != "ocm":
            return 0
        begin, end, last = view.offset, view.end, 0
        for first, behind, done in self._moving:
            if done > last and first < end and begin < behind:
                last = done
        return last


class Channel:
    """A path to a memory. Its bytes follow one another; the latency of a request hides behind those in front of it.

    A request is under way from its issue until its last byte, `in_flight` of them at most. Directions that share a path
    are one channel.
    """

    def __init__(self, latency: int, in_flight: int = 1) -> None:
        self.latency = latency
        self.free = 0
        self._ends: deque[int] = deque(maxlen=in_flight)

    def request(self, ready: int, cycles: int) -> tuple[int, int]:
        """When a request that could be issued at `ready` begins to occupy the path, and its end."""
        full = len(self._ends) == self._ends.maxlen
        issued = max(ready, self._ends[0]) if full else ready
        start = max(issued, self.free)
        self.free = max(issued + self.latency, self.free) + cycles
        self._ends.append(self.free)
        return start, self.free


class Paths:
    """The channels of one core, and the bytes and cycles of each transfer on them."""

    def __init__(self, target: Target) -> None:
        external = target.external
        self.read = Channel(external.latency_cycles, external.in_flight)
        self.write = Channel(external.latency_cycles, external.in_flight) if external.duplex else self.read
        self.near = Channel(0)
        self.read_rate, self.write_rate = target.read_bytes_per_cycle, target.write_bytes_per_cycle
        self.near_rate = target.memory.near_bytes_per_cycle or 0.0
        self._burst, self._burst_bytes = target.costs.get("burst", DEFAULT_COSTS["burst"]), external.burst_bytes

    def cycles(self, size: int, rate: float, outside: View) -> int:
        """Cycles that a transfer of `size` bytes occupies a path: its bytes, and the start of each burst."""
        bursts = _bursts(outside, self._burst_bytes) if self._burst else 0
        return ceil(size / rate + bursts * self._burst)


class Spans:
    """Finds the slot of an address that lives at a layer, among slots of one memory."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = sorted(slots, key=lambda s: s.offset)
        self.starts = [slot.offset for slot in self.slots]
        self.known: dict[tuple[int, int], Slot | None] = {}

    def find(self, offset: int, layer: int) -> Slot | None:
        """The slot with that byte, None where there is none."""
        key = (offset, layer)
        if key not in self.known:
            self.known[key] = next(
                (
                    slot
                    for slot in reversed(self.slots[: bisect_right(self.starts, offset)])
                    if offset < slot.offset + slot.size and slot.first <= layer <= slot.last
                ),
                None,
            )
        return self.known[key]


def produced(plan: Plan) -> Spans:
    """External slots that a layer fills."""
    made = {name for layer in plan.program.layers for name in layer.outputs}
    return Spans([slot for slot in plan.slots if slot.memory == "ext" and slot.tensor in made])


def constants(plan: Plan) -> Spans:
    """External slots of constants."""
    return Spans([slot for slot in plan.slots if slot.memory == "ext" and slot.tensor in plan.program.constants])


def near_constants(program: Program, target: Target, factors: dict[str, float]) -> frozenset[str]:
    """The constants that stay between frames in the memory beside the core: in the order of the layers, those that fit.

    `factors` are the bytes read for each stored byte of a constant, where they are not 1.
    """
    room: float = target.memory.near_bytes
    kept: list[str] = []
    for name in dict.fromkeys(name for layer in program.layers for name in layer.inputs if name in program.constants):
        size = program.constants[name].nbytes * factors.get(name, 1.0)
        if size <= room:
            room -= size
            kept.append(name)
    return frozenset(kept)


def view_bytes(view: View) -> int:
    """Bytes that a transfer of a view moves."""
    return view.tile.h * view.tile.w * view.tile.n


def _bursts(view: View, burst_bytes: int) -> int:
    """Bursts of a box in memory: each run of consecutive bytes begins one, and another each `burst_bytes`."""
    h, w, n = view.tile.h, view.tile.w, view.tile.n
    if w > 1 and view.pixel_stride != n:
        runs, run = h * w, n
    elif h > 1 and view.row_stride != w * n:
        runs, run = h, w * n
    else:
        runs, run = 1, h * w * n
    return runs * ceil(run / burst_bytes)
