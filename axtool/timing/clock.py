"""A Plan's commands on a Target -> Timing.

Every engine is a lane of the timeline with a queue of its own, and takes the commands in order. Where engines take
turns, a command waits for the one in front to be done; the on-chip port runs beside its MACs, the vector unit behind
them. Where they are pipelined, a command starts on each engine as soon as that is free and its operands are there, and
its engines work in a stream: each begins no earlier than the one in front of it and ends no earlier.

A transfer is issued when the commands in front of it have computed; it waits for its path, for stores of what it reads
and for stores out of what it overwrites. A layer that is seen for the first time waits for all engines, and costs a
fence, unless it is handed what the layer in front makes inside the array: then both are one flow. What each cycle is
charged to follows from the lanes alone (`axtool.timing.sweep`).
"""

from __future__ import annotations

from math import ceil

from axtool.ops.encoding import MAC_OPS
from axtool.target import Target
from axtool.timing.array import peak_macs
from axtool.timing.cost import NOTHING, OUTPUT, WEIGHTS, Cost, CostModel
from axtool.timing.detours import Detour, detours_of, port_cycles
from axtool.timing.engines import Engines, Run
from axtool.timing.inside import flows, operands_inside
from axtool.timing.lanes import LANES, Lane
from axtool.timing.ledger import CAUSES, Timing
from axtool.timing.rows import Account, layer_rows
from axtool.timing.sweep import sweep
from axtool.timing.transfers import Paths, UnderWay, constants, near_constants, produced, view_bytes
from axtool.types import Command, Plan, View


def time_plan(plan: Plan, target: Target) -> Timing:
    """Charge every cycle of one frame on one core to one category of one layer."""
    clock = _Clock(plan, target)
    for at, command in enumerate(plan.commands):
        clock.step(at, command)
    clock.finish()
    charges = sweep(clock.lanes, len(plan.program.layers))
    events = (event for lane in clock.lanes.values() for event in lane.events())
    return Timing(
        target=target.name,
        clock_hz=target.clock_hz,
        cores=target.cores,
        peak_macs_per_cycle=peak_macs(target),
        peak_ocm_bytes=plan.sizes["ocm"],
        ocm_bytes=target.memory.ocm_bytes,
        layers=layer_rows(clock.costs, clock.accounts, charges),
        events=tuple(sorted(events, key=lambda e: (e.start, e.lane, e.end))),
    )


class _Clock:
    """The lanes, the paths to the memories beside the chip, and who waits for whom."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.target = plan, target
        self.costs = CostModel(plan.program, target)
        self.pipelined = target.engines.pipelined
        self.accounts = [Account() for _ in plan.program.layers]
        self.lanes = {name: Lane(name) for name in LANES}
        self.paths = Paths(target)
        self.done = 0  # when all commands in front have computed
        self.floor = 0  # no engine starts before the last fence; the weights of the array may
        self.arrived = 0  # when the operands of the last command are on chip and its output is free
        self.layer = -1
        self.seen: set[int] = set()
        self.arriving, self.leaving = UnderWay(), UnderWay()
        self.operands: tuple[View, ...] = ()  # of the last command, and where it writes: adjacent ones share them
        self.results: tuple[View, ...] = ()
        self.engines = Engines(self.lanes, holds_weights=target.array.weights_bytes_per_cycle is not None)
        self.held: tuple[int, int, int] | None = None  # the one block of weights in the array: layer, channels
        self.runs: dict[int, Run] = {}  # the last command of each layer
        self.read_done: dict[int, int] = {}  # when the last reader of an on-chip address is done
        self.makers = _makers(plan)
        self.inside = operands_inside(plan, target)
        self.flows = flows(plan, self.inside)
        self.made, self.constants = produced(plan), constants(plan)
        self.factors = self._weight_factors()
        self.near = near_constants(plan.program, target, self.factors)
        self.detours = detours_of(plan.program, target, plan.without)

    def step(self, at: int, command: Command) -> None:
        if command.kind == "load":
            self._load(command)
        elif command.kind == "store":
            self._store(command)
        else:
            self._compute(at, command)

    def finish(self) -> None:
        """The last layer drains; the frame ends with its last store."""
        if self.layer >= 0:
            self._control("drain", "pipeline", self.layer)

    def _load(self, command: Command) -> None:
        source, place = command.reads[0], command.writes[0]
        ready = self.done
        if self.made.find(source.offset, command.layer) is not None:
            ready = max(ready, self.lanes["dma write"].free)
        ready = max(ready, self.leaving.until(place))
        slot = self.constants.find(source.offset, command.layer)
        name = slot.tensor if slot is not None else ""
        size = ceil(view_bytes(source) * self.factors.get(name, 1.0))
        near, paths, account = name in self.near, self.paths, self.accounts[command.layer]
        rate = paths.near_rate if near else paths.read_rate
        start, end = (paths.near if near else paths.read).request(ready, paths.cycles(size, rate, source))
        self.lanes["near read" if near else "dma read"].add(start, end, command.layer)
        self._begin(self.arriving, place, end)
        account.near_bytes += size if near else 0
        account.read_bytes += 0 if near else size
        account.commands += 1

    def _store(self, command: Command) -> None:
        source, paths, account = command.reads[0], self.paths, self.accounts[command.layer]
        size = view_bytes(source)
        cycles = paths.cycles(size, paths.write_rate, command.writes[0])
        start, end = paths.write.request(self.done, cycles)
        self.lanes["dma write"].add(start, end, command.layer)
        self._begin(self.leaving, source, end)
        account.write_bytes += size
        account.commands += 1

    def _compute(self, at: int, command: Command) -> None:
        layer = command.layer
        if self.flows[layer] not in self.seen:
            self._enter(layer)
        if self.layer != layer:
            for detour in self.detours.pop(layer, ()):
                self._detour(detour)
        self.layer = layer
        inside = self._inside(at, command)
        cost = self.costs.cost(layer, command.tile, command.part, inside)
        account = self.accounts[layer]
        account.macs += cost.macs
        account.port_bytes += cost.port_bytes
        account.commands += 1
        if command.reads is not self.operands or command.writes is not self.results:
            self.operands, self.results = command.reads, command.writes
            arrived = max(self.arriving.until(view) for view in command.reads)
            self.arrived = max(arrived, self.leaving.until(command.writes[0]))
        run = self._streamed(command, cost, inside) if self.pipelined else self._turned(layer, cost, inside)
        if cost.blocks:
            tile = command.tile
            self.held = (layer, tile.c, tile.n) if cost.blocks == 1 else None
        self.done = max(self.done, run.done)

    def _turned(self, layer: int, cost: Cost, inside: frozenset[int]) -> Run:
        handed = any(index in inside for index, _ in self.makers[layer])
        from_ = max(self.arrived, self.floor) if handed else None
        return self.engines.turn(layer, cost, max(self.arrived, self.done), from_)

    def _streamed(self, command: Command, cost: Cost, inside: frozenset[int]) -> Run:
        """Waits for what layers whose commands take turns have made and read, unless it stays in the array."""
        layer, ready, source = command.layer, max(self.floor, self.arrived), Run()
        for index, maker in self.makers[layer]:
            run = self.runs.get(maker, Run())
            if index in inside:
                source = Run(max(source.begun, run.begun), max(source.done, run.done))
            else:
                ready = max(ready, run.done)
        if OUTPUT not in inside:
            ready = max(ready, self.read_done.get(command.writes[0].offset, 0))
        weights = self._weights_ready(command) if cost.blocks else 0
        run = self.runs[layer] = self.engines.stream(layer, cost, ready, weights, source)
        self.read_done.update((view.offset, run.done) for view in command.reads)
        return run

    def _begin(self, transfers: UnderWay, view: View, end: int) -> None:
        transfers.begin(view, end, self.engines.earliest if self.pipelined else self.done)
        self.operands = ()

    def _enter(self, layer: int) -> None:
        """One entry for the frame, a fence in front of every other flow of layers."""
        self.seen.add(self.flows[layer])
        if self.layer < 0:
            self._control("entry", "entry", layer)
        else:
            self._control("drain", "pipeline", self.layer)
            self._control("fence", "fence", layer)

    def _control(self, cause: str, cost: str, layer: int) -> None:
        start, self.done = self.done, self.done + ceil(self.target.costs[cost])
        self.lanes["control"].add(start, self.done, layer, CAUSES.index(cause))
        self.floor = self.done

    def _detour(self, detour: Detour) -> None:
        """What the program does in front of a layer for want of an optimisation: nothing else runs meanwhile."""
        at, size = detour.layer, detour.size
        account = self.accounts[at]
        if detour.kind == "entry":
            for _ in range(detour.count):
                self._control("entry", "entry", at)
        elif detour.kind == "constants":  # the bytes of loads that have been counted: only their time is exposed
            self._wait("dma read", 1, size, at)
        elif detour.kind == "spill":  # written in one go, fetched a tile at a time
            self._wait("dma write", 1, detour.count * size, at)
            self._wait("dma read", detour.count, size, at)
            account.write_bytes += detour.count * size
            account.read_bytes += detour.count * size
        else:
            start = max(self.done, self.lanes["port"].free)
            self.done = start + port_cycles(detour, self.target, self.target.costs)
            self.lanes["port"].add(start, self.done, at)
            account.port_bytes += detour.count * size
        self.floor = max(self.floor, self.done)

    def _wait(self, lane: str, count: int, size: int, layer: int) -> None:
        """Requests of `size` bytes that the program waits for; those under way hide behind one another."""
        reads = lane == "dma read"
        channel, rate = (self.paths.read, self.paths.read_rate) if reads else (self.paths.write, self.paths.write_rate)
        ready = max(self.done, self.lanes[lane].free)
        for _ in range(count):
            start, self.done = channel.request(ready, ceil(size / rate))
            self.lanes[lane].add(start, self.done, layer)

    def _weights_ready(self, command: Command) -> int:
        """When the weights are on chip: they enter the array ahead of their command, fence or not."""
        return max((self.arriving.until(view) for view in command.reads[WEIGHTS:]), default=0)

    def _inside(self, at: int, command: Command) -> frozenset[int]:
        """The operands in the array; weights among them, where they are one block that is there already."""
        inside = self.inside.get(at, NOTHING)
        tile = command.tile
        rate = self.target.array.weights_bytes_per_cycle
        if rate is None or self.plan.program.layers[command.layer].op not in MAC_OPS:
            return inside
        if self.held == (command.layer, tile.c, tile.n):
            return inside | {WEIGHTS}
        return inside

    def _weight_factors(self) -> dict[str, float]:
        factors = {
            layer.inputs[WEIGHTS]: self.costs.weight_factor(at)
            for at, layer in enumerate(self.plan.program.layers)
            if layer.op in MAC_OPS
        }
        return {name: factor for name, factor in factors.items() if factor != 1.0}


def _makers(plan: Plan) -> list[tuple[tuple[int, int], ...]]:
    """By layer, the input indexes with the layers that make them; those done in place pass on their own makers."""
    working = {command.layer for command in plan.commands if command.kind not in ("load", "store")}
    maker = {name: at for at, layer in enumerate(plan.program.layers) for name in layer.outputs}
    found: list[tuple[tuple[int, int], ...]] = []
    for layer in plan.program.layers:
        pairs: list[tuple[int, int]] = []
        for index, name in enumerate(layer.inputs):
            at = maker.get(name)
            if at is not None:
                pairs += [(index, at)] if at in working else [(index, before) for _, before in found[at]]
        found.append(tuple(dict.fromkeys(pairs)))
    return found
