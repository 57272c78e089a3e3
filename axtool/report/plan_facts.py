"""A Plan  ->  what a profile says of its layers beside their times: what is spilled, what runs together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from axtool.plan.local_memory import local_bytes
from axtool.target import Target
from axtool.types import Plan, Slot


def spilled_slots(planned: Plan) -> tuple[Slot, ...]:
    """Slots of what layers make and that has no place on the chip, so that later layers load it again."""
    made = {name for layer in planned.program.layers for name in layer.outputs}
    outside = sorted(
        (slot for slot in planned.slots if slot.memory == "ext" and slot.tensor in made),
        key=lambda slot: (slot.offset, slot.size),
    )
    starts = [slot.offset for slot in outside]
    reach = list(accumulate((slot.offset + slot.size for slot in outside), max))  # where the slots up to here end
    found: set[int] = set()
    for offset in {command.reads[0].offset for command in planned.commands if command.kind == "load"}:
        at = bisect_right(starts, offset) - 1
        while at >= 0 and outside[at].offset + outside[at].size <= offset < reach[at]:
            at -= 1  # slots of tensors that share their bytes lie inside each other
        if at >= 0 and offset < outside[at].offset + outside[at].size:
            found.add(at)
    return tuple(outside[at] for at in sorted(found))


def spilled_bytes(planned: Plan, spilled: Sequence[Slot]) -> tuple[int, ...]:
    """By layer: bytes of what it makes that is spilled."""
    sizes = {slot.tensor: slot.size for slot in spilled}
    return tuple(sum(sizes.get(name, 0) for name in layer.outputs) for layer in planned.program.layers)


def peak_bytes(slots: Sequence[Slot]) -> int:
    """The most bytes that are in use at one layer; those that slots share count once."""
    return max((_covered([slot for slot in slots if slot.first <= at.first <= slot.last]) for at in slots), default=0)


def _covered(slots: Sequence[Slot]) -> int:
    total = end = 0
    for slot in sorted(slots, key=lambda slot: slot.offset):
        total += max(slot.offset + slot.size - max(slot.offset, end), 0)
        end = max(end, slot.offset + slot.size)
    return total


def peak_local_bytes(planned: Plan, target: Target) -> int:
    """The most bytes that a command keeps in the memory of each processing element."""
    layers = planned.program.layers
    seen = {(c.layer, c.tile.n) for c in planned.commands if c.kind == "compute" and layers[c.layer].op != "concat"}
    return max((local_bytes(layers[at], planned.program, target, channels) for at, channels in seen), default=0)


def groups(planned: Plan) -> tuple[int | None, ...]:
    """By layer: the first layer of the group that it runs in, whose commands take turns; None where it runs alone.

    Fused pairs and cascades are such groups: a layer begins before the one in front of it has ended.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, command in enumerate(planned.commands):
        if command.kind == "compute":
            first.setdefault(command.layer, at)
            last[command.layer] = at
    found: list[int | None] = [None] * len(planned.program.layers)
    end, members = -1, list[int]()
    for layer in sorted(first, key=lambda one: first[one]):
        if first[layer] > end:
            members = []
        members.append(layer)
        end = max(end, last[layer])
        if len(members) > 1:
            for member in members:
                found[member] = min(members)
    return tuple(found)
