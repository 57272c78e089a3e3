"""One command's work on free engines -> when each of them is busy with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from axtool.timing.cost import Cost
from axtool.timing.lanes import Lane


@dataclass(frozen=True, slots=True)
class Run:
    """When the first engine of a command begins and when all of them are done."""

    begun: int = 0
    done: int = 0


class Engines:
    """The engines of a core as lanes.

    `weights_begun` is when the MACs of the last block of weights begin: from then on the next block may enter.
    """

    def __init__(self, lanes: Mapping[str, Lane], *, holds_weights: bool) -> None:
        self._lanes, self._holds_weights = lanes, holds_weights
        self.weights_begun = 0
        self._macs = Run()  # of the last command with MACs, or without operands from it, where engines take turns

    @property
    def earliest(self) -> int:
        """Nothing of a command begins before, where engines are pipelined."""
        free = self._lanes["port"].free
        return min(free, self.weights_begun) if self._holds_weights else free

    def turn(self, layer: int, cost: Cost, start: int, handed_from: int | None = None) -> Run:
        """The engines take turns: MACs with the port beside them, transfers inside the array, then the vector unit.

        A command that finds an operand in the array, `handed_from` when its other operands are on chip, is one with the
        command in front: its transfers use what MAC cycles of that were left by transfers, and the rest is in front of
        its vector unit. Any other command without MACs has its transfers beside the vector unit.
        """
        lanes, port = self._lanes, cost.port
        if handed_from is not None:
            early = max(self._macs.begun, lanes["port"].free, handed_from)
            beside = max(0, min(port, self._macs.done - early))
            lanes["port"].add(early, early + beside, layer)
            port -= beside
        if cost.mac or handed_from is None:
            self._macs = Run(start, start + cost.mac)
        lanes["port"].add(start, start + port, layer)
        lanes["mac"].add(start, start + cost.mac, layer)
        in_front = cost.mac or handed_from is not None or cost.data_ocm == cost.port
        shift = start + max(cost.mac, port if in_front else 0)
        lanes["array"].add(shift, shift + cost.data_array, layer)
        compute = shift + cost.data_array
        lanes["vector"].add(compute, compute + cost.compute, layer)
        return Run(start, max(compute + cost.compute, start + port))

    def stream(self, layer: int, cost: Cost, ready: int, weights_ready: int, source: Run) -> Run:
        """Each engine starts when it is free and the engine in front has begun; the command is done when all are.

        Weights may enter from `weights_ready` on, earlier than the rest. The vector unit takes its work as it comes:
        its span is where the cycles fit first, and its last results follow the last MACs. `source` is the command that
        hands on what it makes inside the array.
        """
        lanes = self._lanes
        port = max(ready, lanes["port"].free)
        lanes["port"].add(port, port + cost.port, layer)
        begun = max(port, lanes["mac"].free) if cost.mac else port
        moving, last = max(ready, lanes["array"].free), 0
        if cost.blocks:
            moving = max(weights_ready, self.weights_begun, lanes["array"].free)
            begun = max(begun, moving + ceil(cost.array / cost.blocks))
            last = ceil(cost.mac / cost.blocks)
        moved = moving + cost.array
        lanes["array"].add(moving, moved, layer)
        macs_done = max(begun + cost.mac, moved + last) if cost.mac else begun
        lanes["mac"].add(macs_done - cost.mac, macs_done, layer)
        if cost.blocks:
            self.weights_begun = macs_done - last
        compute = max(begun, source.begun, lanes["vector"].free)
        lanes["vector"].add(compute, compute + cost.compute, layer)
        computed = compute + cost.compute if cost.compute else begun
        return Run(begun, max(macs_done, computed, port + cost.port, moved if cost.array else 0, source.done))
