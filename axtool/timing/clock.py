"""A Plan's commands on a Target -> Timing.

Every engine is a lane of the timeline with a queue of its own, and takes the commands in order. Where engines take
turns, a command waits for the one in front to be done; the on-chip port runs beside its MACs, the vector unit behind
them. Where they are pipelined, a command starts on each engine as soon as that is free and its operands are there, and
its engines work in a stream: each begins no earlier than the one in front of it and ends no earlier.

A transfer is issued when the commands in front of it have computed; it waits for its path, for stores of what it reads
and for stores out of what it overwrites. A layer that is seen for the first time waits for all engines, and costs a
fence. What each cycle is charged to follows from the lanes alone (`axtool.timing.sweep`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from axtool.ops.encoding import MAC_OPS
from axtool.target import Target
from axtool.timing.array import peak_macs
from axtool.timing.cost import NOTHING, OUTPUT, WEIGHTS, Cost, CostModel
from axtool.timing.inside import operands_inside
from axtool.timing.lanes import LANES, Lane
from axtool.timing.ledger import CAUSES, Timing
from axtool.timing.rows import Account, layer_rows
from axtool.timing.sweep import sweep
from axtool.timing.transfers import Moving, Paths, constants, near_constants, produced, view_bytes
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
        layers=layer_rows(plan.program, target, clock.accounts, charges),
        events=tuple(sorted(events, key=lambda e: (e.start, e.lane, e.end))),
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """The one block of weights of a command that the array holds: of which layer (-1: none) and channels.

    `begun` is when the MACs of the last block that entered begin: from then on the next one may enter.
    """

    layer: int = -1
    channels: tuple[int, int] = (0, 0)
    begun: int = 0


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
        self.ready = 0  # no engine but the array's weights starts before the command in front was ready
        self.layer = -1
        self.seen: set[int] = set()
        self.arriving: list[Moving] = []
        self.leaving: list[Moving] = []
        self.operands: tuple[tuple[View, ...], tuple[View, ...]] = ((), ())  # of the last command: adjacent ones share
        self.block = _Block()
        self.layer_done: dict[int, int] = {}  # when the last command of a layer is done
        self.read_done: dict[int, int] = {}  # when the last reader of an on-chip address is done
        self.makers = _makers(plan)
        self.inside = operands_inside(plan, target)
        self.made, self.constants = produced(plan), constants(plan)
        self.factors = self._weight_factors()
        self.near = near_constants(plan.program, target, self.factors)

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
        ready = max(ready, _until(self.leaving, place))
        slot = self.constants.find(source.offset, command.layer)
        name = slot.tensor if slot is not None else ""
        size = ceil(view_bytes(source) * self.factors.get(name, 1.0))
        near, paths, account = name in self.near, self.paths, self.accounts[command.layer]
        rate = paths.near_rate if near else paths.read_rate
        start, end = (paths.near if near else paths.read).request(ready, paths.cycles(size, rate, source))
        self.lanes["near read" if near else "dma read"].add(start, end, command.layer)
        self._begin(self.arriving, Moving(place, end))
        account.near_bytes += size if near else 0
        account.read_bytes += 0 if near else size
        account.commands += 1

    def _store(self, command: Command) -> None:
        source, paths, account = command.reads[0], self.paths, self.accounts[command.layer]
        size = view_bytes(source)
        cycles = paths.cycles(size, paths.write_rate, command.writes[0])
        start, end = paths.write.request(self.done, cycles)
        self.lanes["dma write"].add(start, end, command.layer)
        self._begin(self.leaving, Moving(source, end))
        account.write_bytes += size
        account.commands += 1

    def _compute(self, at: int, command: Command) -> None:
        layer = command.layer
        if layer not in self.seen:
            self._enter(layer)
        self.layer = layer
        inside = self._inside(at, command)
        cost = self.costs.cost(layer, command.tile, command.part, inside)
        account = self.accounts[layer]
        account.macs += cost.macs
        account.port_bytes += cost.port_bytes
        account.commands += 1
        if (command.reads, command.writes) != self.operands:
            self.operands = (command.reads, command.writes)
            arrived = max(_until(self.arriving, view) for view in command.reads)
            self.ready = max(self.ready, arrived, _until(self.leaving, command.writes[0]))
        if self.pipelined:
            self.ready = max(self.ready, self._hazards(command, inside))
            end = self._stream(command, cost)
            self.layer_done[layer] = end
            self.read_done.update((view.offset, end) for view in command.reads)
        else:
            end = self._turn(layer, cost, max(self.ready, self.done))
        if cost.blocks:
            tile = command.tile
            self.block = replace(self.block, layer=layer if cost.blocks == 1 else -1, channels=(tile.c, tile.n))
        self.done = max(self.done, end)

    def _begin(self, transfers: list[Moving], moving: Moving) -> None:
        """One more transfer is under way; those that no command can wait for any more are forgotten."""
        past = min(self.ready, self.block.begun or self.ready) if self.pipelined else self.done
        transfers[:] = [*(other for other in transfers if other.done > past), moving]
        self.operands = ((), ())

    def _enter(self, layer: int) -> None:
        """One entry for the frame, a fence in front of every other layer."""
        self.seen.add(layer)
        if self.layer < 0:
            self._control("entry", "entry", layer)
        else:
            self._control("drain", "pipeline", self.layer)
            self._control("fence", "fence", layer)

    def _control(self, cause: str, cost: str, layer: int) -> None:
        start, self.done = self.done, self.done + ceil(self.target.costs[cost])
        self.lanes["control"].add(start, self.done, layer, CAUSES.index(cause))
        self.ready = self.done

    def _turn(self, layer: int, cost: Cost, start: int) -> int:
        """The engines take turns: MACs with the port beside them, transfers inside the array, then the vector unit."""
        lanes = self.lanes
        lanes["port"].add(start, start + cost.port, layer)
        lanes["mac"].add(start, start + cost.mac, layer)
        shift = start + max(cost.mac, cost.port if cost.mac or cost.data_ocm == cost.port else 0)
        lanes["array"].add(shift, shift + cost.data_array, layer)
        compute = shift + cost.data_array
        lanes["vector"].add(compute, compute + cost.compute, layer)
        return max(compute + cost.compute, start + cost.port)

    def _stream(self, command: Command, cost: Cost) -> int:
        """Each engine starts when it is free and the engine in front has begun; none ends before that one has."""
        lanes, layer, ready = self.lanes, command.layer, self.ready
        port = max(ready, lanes["port"].free)
        lanes["port"].add(port, port + cost.port, layer)
        mac = max(port, lanes["mac"].free) if cost.mac else port
        array = max(ready, lanes["array"].free)
        last = 0  # MAC cycles of the last block of weights
        if cost.blocks:
            array = max(self._weights_ready(command), lanes["array"].free)
            mac = max(mac, array + ceil(cost.array / cost.blocks))
            last = ceil(cost.mac / cost.blocks)
        moved = array + cost.array
        lanes["array"].add(array, moved, layer)
        macs_done = max(mac + cost.mac, moved + last) if cost.mac else mac
        lanes["mac"].add(macs_done - cost.mac, macs_done, layer)
        if cost.blocks:
            self.block = replace(self.block, begun=macs_done - last)
        done = macs_done
        if cost.compute:
            done = max(max(mac, lanes["vector"].free) + cost.compute, macs_done)
            lanes["vector"].add(done - cost.compute, done, layer)
        return max(done, port + cost.port, moved if cost.array else 0)

    def _weights_ready(self, command: Command) -> int:
        """Weights enter while the block in front is multiplied, when they are on chip, fence or not."""
        return max(self.block.begun, *(_until(self.arriving, view) for view in command.reads[WEIGHTS:]))

    def _inside(self, at: int, command: Command) -> frozenset[int]:
        """The operands in the array; weights among them, where they are one block that is there already."""
        inside = self.inside.get(at, NOTHING)
        tile = command.tile
        rate = self.target.array.weights_bytes_per_cycle
        if rate is None or self.plan.program.layers[command.layer].op not in MAC_OPS:
            return inside
        if (self.block.layer, self.block.channels) == (command.layer, (tile.c, tile.n)):
            return inside | {WEIGHTS}
        return inside

    def _hazards(self, command: Command, inside: frozenset[int]) -> int:
        """When what a command reads is made, and what it overwrites is read, by commands of layers that take turns."""
        made = max((self.layer_done.get(maker, 0) for maker in self.makers[command.layer]), default=0)
        return max(made, 0 if OUTPUT in inside else self.read_done.get(command.writes[0].offset, 0))

    def _weight_factors(self) -> dict[str, float]:
        factors = {
            layer.inputs[WEIGHTS]: self.costs.weight_factor(at)
            for at, layer in enumerate(self.plan.program.layers)
            if layer.op in MAC_OPS
        }
        return {name: factor for name, factor in factors.items() if factor != 1.0}


def _makers(plan: Plan) -> list[tuple[int, ...]]:
    """The layers with commands that make the inputs of each layer, through layers that are done in place."""
    working = {command.layer for command in plan.commands if command.kind not in ("load", "store")}
    maker = {name: at for at, layer in enumerate(plan.program.layers) for name in layer.outputs}
    found: list[tuple[int, ...]] = []
    for layer in plan.program.layers:
        direct = [maker[name] for name in layer.inputs if name in maker]
        found.append(tuple(dict.fromkeys(m for at in direct for m in ((at,) if at in working else found[at]))))
    return found


def _until(transfers: Iterable[Moving], view: View) -> int:
    """When the last of the transfers that meet a view is done."""
    begin, end, memory = view.offset, view.end, view.memory
    met = (moving.done for moving in transfers if moving.view.memory == memory and moving.view.meets(begin, end))
    return max(met, default=0)
