"""A Plan  ->  what a profile says of its layers beside their times: what is spilled, what runs together."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from axtool.types import Plan


def spilled_bytes(planned: Plan) -> tuple[int, ...]:
    """By layer: bytes of what it makes that has no place on the chip, so that later layers load it again."""
    makers = {name: at for at, layer in enumerate(planned.program.layers) for name in layer.outputs}
    outside = sorted(
        (slot.offset, slot.offset + slot.size, slot.tensor)
        for slot in planned.slots
        if slot.memory == "ext" and slot.tensor in makers
    )
    starts = [begin for begin, _, _ in outside]
    reach = list(accumulate((end for _, end, _ in outside), max))  # where the slots up to here end
    found = [0] * len(planned.program.layers)
    seen: set[str] = set()
    for offset in {command.reads[0].offset for command in planned.commands if command.kind == "load"}:
        at = bisect_right(starts, offset) - 1
        while at >= 0 and offset < reach[at] and offset >= outside[at][1]:
            at -= 1  # slots of tensors that share their bytes lie inside each other
        if at >= 0 and offset < outside[at][1] and outside[at][2] not in seen:
            begin, end, name = outside[at]
            seen.add(name)
            found[makers[name]] += end - begin
    return tuple(found)


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
