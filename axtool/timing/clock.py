"""A Plan's commands on a Target -> Timing.

One cursor follows the array, in order. Each DMA direction is a queue of its own: a request waits for the queue, for
the commands in front of it to have computed, for stores of what it reads, and for stores out of what it overwrites; it
takes the latency and its bytes at bandwidth. The array waits for the loads of its operands and for stores out of memory
that it is about to overwrite; such waits are charged to `data_external`. What a queue does behind the array's back
costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from axtool.ops.moves import COPIES, GATHERS
from axtool.target import Target
from axtool.timing.array import array_fills, peak_macs
from axtool.timing.cost import Cost, CostModel
from axtool.timing.ledger import CATEGORIES, CAUSES, LayerTime, Timing, mib, share, words
from axtool.types import Command, Event, Plan, Slot, View

ARRAY_LANE, READ_LANE, WRITE_LANE = "array", "dma read", "dma write"


def time_plan(plan: Plan, target: Target) -> Timing:
    """Charge every cycle of the critical path of one frame to one category of one layer."""
    clock = _Clock(plan, target)
    for command in plan.commands:
        clock.step(command)
    clock.finish()
    return Timing(
        target=target.name,
        clock_hz=target.clock_hz,
        peak_macs_per_cycle=peak_macs(target),
        peak_ocm_bytes=plan.sizes["ocm"],
        ocm_bytes=target.memory.ocm_bytes,
        layers=tuple(clock.layer_time(at) for at in range(len(plan.program.layers))),
        events=tuple(sorted(clock.events, key=lambda e: (e.start, e.lane, e.end))),
    )


@dataclass
class _Account:
    """What one layer has been charged so far."""

    ledger: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CATEGORIES, 0))
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    waits: dict[str, int] = field(default_factory=lambda: {"reads": 0, "writes": 0})
    macs: int = 0
    port_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    commands: int = 0


@dataclass(frozen=True, slots=True)
class _Store:
    """What is read on chip until `done`, out of a slot that lives until the layer `last`."""

    source: View
    last: int
    done: int


class _Clock:
    """The cursor of the array, the two DMA queues, and who waits for whom."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.target = plan, target
        self.costs = CostModel(plan.program, target)
        self.accounts = [_Account() for _ in plan.program.layers]
        self.events: list[Event] = []
        self.now = 0
        self.layer = -1
        self.read_free = self.write_free = 0
        self.arrived: dict[int, int] = {}  # when the last load to an on-chip address is done
        self.stored: dict[int, int] = {}  # when the last store out of an on-chip address of this layer is done
        self.reads: tuple[View, ...] = ()  # of the last compute command: adjacent ones share them
        self.pending: list[_Store] = []  # those that may still run
        self.run = dict.fromkeys(CATEGORIES, 0)  # cycles since the last event of the array
        self.run_start = 0
        self.made = _Spans(_produced(plan))
        self.kept = _Spans([slot for slot in plan.slots if slot.memory == "ocm"])
        external = target.external
        self.read_rate = external.read_bytes_per_s / target.clock_hz
        self.write_rate = external.write_bytes_per_s / target.clock_hz

    def step(self, command: Command) -> None:
        if command.kind == "load":
            self._load(command)
        elif command.kind == "store":
            self._store(command)
        else:
            self._compute(command)

    def finish(self) -> None:
        """The frame ends when the last store does."""
        if self.layer >= 0:
            self._leave_layer()
            self._wait(self.write_free, "writes")
            self._flush()

    def layer_time(self, at: int) -> LayerTime:
        layer, account = self.plan.program.layers[at], self.accounts[at]
        total = sum(account.ledger.values())
        peak = peak_macs(self.target)
        amounts = {
            "mac": f"{share(account.macs, account.ledger['mac'] * peak)} of it in use",
            "compute": self._busy(at),
            "data_ocm": self._moved(at),
            "reads": f"{mib(account.read_bytes)} at {self.read_rate:.1f} B/cycle",
            "writes": f"{mib(account.write_bytes)} at {self.write_rate:.1f} B/cycle",
        }
        return LayerTime(
            index=at,
            name=layer.name or layer.outputs[0],
            op=layer.op,
            origin=layer.origin,
            ledger=account.ledger,
            causes=account.causes,
            macs=account.macs,
            read_bytes=account.read_bytes,
            write_bytes=account.write_bytes,
            utilisation=account.macs / (total * peak) if total else 0.0,
            bound=words(account.ledger, account.waits, amounts),
            commands=account.commands,
        )

    def _moved(self, at: int) -> str:
        """What crossed the on-chip port, and how fast: ops that only move data are slower than the port."""
        account, moves = self.accounts[at], self.plan.program.layers[at].op in (*COPIES, *GATHERS)
        cycles = account.ledger["data_ocm"]
        rate = account.port_bytes / cycles if moves and cycles else self.target.memory.ocm_bytes_per_cycle
        return f"{mib(account.port_bytes)} at {rate:.3g} B/cycle"

    def _busy(self, at: int) -> str:
        """How many of the array's elements have an output pixel, on average over the tiles that the layer fills."""
        array = self.target.array
        _, h, w, _ = self.plan.program.tensors[self.plan.program.layers[at].outputs[0]].shape
        elements = array_fills(array, h, w) * array.rows * array.columns
        return f"{share(h * w, elements)} of the elements"

    def _load(self, command: Command) -> None:
        size = _bytes(command.reads[0])
        start = max(self.read_free, self.now)
        if self.made.find(command.reads[0].offset, command.layer) is not None:
            start = max(start, self.write_free)
        place = command.writes[0]
        self.pending = [store for store in self.pending if store.done > self.now]
        start = max(start, *(s.done for s in self.pending if s.source.meets(place.offset, place.end)), 0)
        self.read_free = start + self._request(size, self.read_rate)
        self.arrived[command.writes[0].offset] = self.read_free
        account = self.accounts[command.layer]
        account.read_bytes += size
        account.commands += 1
        self.events.append(Event(start, self.read_free, READ_LANE, "data_external", command.layer))

    def _store(self, command: Command) -> None:
        source, size = command.reads[0], _bytes(command.reads[0])
        start = max(self.write_free, self.now)
        self.write_free = start + self._request(size, self.write_rate)
        self.stored[source.offset] = self.write_free
        slot = self.kept.find(source.offset, command.layer)
        self.pending.append(_Store(source, slot.last if slot else command.layer, self.write_free))
        account = self.accounts[command.layer]
        account.write_bytes += size
        account.commands += 1
        self.events.append(Event(start, self.write_free, WRITE_LANE, "data_external", command.layer))

    def _request(self, size: int, rate: float) -> int:
        return self.target.external.latency_cycles + ceil(size / rate)

    def _compute(self, command: Command) -> None:
        if command.layer != self.layer:
            self._enter_layer(command.layer)
        if command.reads is not self.reads:
            self.reads = command.reads
            self._wait(max(self.arrived.get(view.offset, 0) for view in command.reads), "reads")
        self._wait(self.stored.get(command.writes[0].offset, 0), "writes")
        self._spend(self.costs.cost(command.layer, command.tile, command.part))

    def _enter_layer(self, layer: int) -> None:
        """One entry for the frame, a fence between layers; memory that dies is not overwritten before it is stored."""
        if self.layer >= 0:
            self._leave_layer()
            self._flush()
        first, self.layer = self.layer < 0, layer
        self._other("entry" if first else "fence")
        self._wait(max((store.done for store in self.pending if store.last < layer), default=0), "writes")
        self.stored = {}

    def _leave_layer(self) -> None:
        self._other("drain", "pipeline")

    def _other(self, cause: str, cost: str = "") -> None:
        cycles = ceil(self.target.costs[cost or cause])
        self.accounts[self.layer].causes[cause] += cycles
        self._charge("other", cycles)

    def _wait(self, until: int, what: str) -> None:
        if until > self.now:
            self.accounts[self.layer].waits[what] += until - self.now
            self._charge("data_external", until - self.now)

    def _spend(self, cost: Cost) -> None:
        account = self.accounts[self.layer]
        account.macs += cost.macs
        account.port_bytes += cost.port_bytes
        account.commands += 1
        for category, cycles in (
            ("mac", cost.mac),
            ("compute", cost.compute),
            ("data_array", cost.data_array),
            ("data_ocm", cost.data_ocm),
        ):
            if cycles:
                self._charge(category, cycles)

    def _charge(self, category: str, cycles: int) -> None:
        self.accounts[self.layer].ledger[category] += cycles
        self.run[category] += cycles
        self.now += cycles

    def _flush(self) -> None:
        """One event for each category of what the array did for a layer: their order inside it is not kept."""
        for category in ("other", "data_external", "data_ocm", "data_array", "mac", "compute"):
            cycles = self.run[category]
            if cycles:
                end = self.run_start + cycles
                self.events.append(Event(self.run_start, end, ARRAY_LANE, category, self.layer))
                self.run_start = end
        self.run = dict.fromkeys(CATEGORIES, 0)


class _Spans:
    """Finds the slot of an address that lives at a layer."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = sorted(slots, key=lambda s: s.offset)
        self.starts = [slot.offset for slot in self.slots]
        self.known: dict[tuple[int, int], Slot | None] = {}

    def find(self, offset: int, layer: int) -> Slot | None:
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


def _produced(plan: Plan) -> list[Slot]:
    """External slots that a layer fills."""
    made = {name for layer in plan.program.layers for name in layer.outputs}
    return [slot for slot in plan.slots if slot.memory == "ext" and slot.tensor in made]


def _bytes(view: View) -> int:
    return view.tile.h * view.tile.w * view.tile.n
