"""Groups, residency and tilings -> a Layout: a slot with an address for everything that lives in a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from axtool.ops.encoding import dims_of
from axtool.plan.build_residency import Residency
from axtool.plan.groups import Groups
from axtool.plan.homes import Homes, home_bytes
from axtool.plan.memory import align, live_bytes, place
from axtool.plan.order import activation_bytes
from axtool.plan.tile_cost import Tiling
from axtool.target import Target
from axtool.timing.cost import OUTPUT
from axtool.types import Program, Slot


@dataclass(frozen=True)
class Layout:
    """What the commands are written from: tilings by layer, and slots by what they hold.

    `spilled`: activations outside. `live`: bytes of the resident ones at each layer. `resident`, `external`: slots of
    whole tensors; several may lie in one of the `homes` on chip, or of those `outside`. `constants`: on-chip copies by
    (layer, name), more than one for slices that take turns. `staged`: the buffers by (layer, input index), -1 for the
    output.
    """

    program: Program
    target: Target
    tilings: tuple[Tiling, ...]
    groups: Groups
    spilled: frozenset[str]
    live: tuple[int, ...]
    homes: Homes
    outside: Homes
    resident: Mapping[str, Slot]
    external: Mapping[str, Slot]
    constants: Mapping[tuple[int, str], tuple[Slot, ...]]
    staged: Mapping[tuple[int, int], tuple[Slot, ...]]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, external memory first."""
        groups = (*self.constants.values(), *self.staged.values())
        chip = [*self.resident.values(), *(slot for group in groups for slot in group)]
        return (*self.external.values(), *sorted(chip, key=lambda s: (s.first, s.offset, s.tensor)))


def address(
    program: Program,
    target: Target,
    groups: Groups,
    residency: Residency,
    outside: Homes,
    tilings: tuple[Tiling, ...],
    early: Sequence[bool],
    share: float,
) -> Layout:
    """Slots with addresses.

    Constants of the layers that are `early` begin one group ahead where `share` of the memory leaves room for them.
    """
    homes = [Slot("", "ocm", 0, home_bytes(home.dims, target), home.first, home.last) for home in residency.homes.homes]
    staged, loaded = [], []
    for at, (layer, tiling) in enumerate(zip(program.layers, tilings, strict=True)):
        span = groups.of(at).first, groups.of(at).last
        for key, buffers in tiling.staged.items():
            name = layer.outputs[0] if key == OUTPUT else layer.inputs[key]
            staged += [((at, key), Slot(name, "ocm", 0, buffers.size, *span))] * buffers.count
        if tiling.constant_bytes:
            loaded.append(Slot(str(at), "ocm", 0, tiling.constant_bytes, *span))
    fixed = [*homes, *(slot for _, slot in staged)]
    loaded = _prefetched(fixed, loaded, early, share * target.memory.ocm_bytes, groups)
    placed = place([*fixed, *loaded])
    kept, boxes, rest = placed[: len(homes)], placed[len(homes) : len(fixed)], placed[len(fixed) :]
    buffers_of: dict[tuple[int, int], tuple[Slot, ...]] = {}
    for (key_of, _), slot in zip(staged, boxes, strict=True):
        buffers_of[key_of] = (*buffers_of.get(key_of, ()), slot)
    return Layout(
        program,
        target,
        tilings,
        groups,
        residency.external,
        residency.live,
        residency.homes,
        outside,
        _members_of(program, target, residency.homes, kept, groups),
        _external(program, target, outside, groups),
        _members(tilings, rest),
        buffers_of,
    )


def _prefetched(
    fixed: list[Slot], loaded: list[Slot], allowed: Sequence[bool], room: float, groups: Groups
) -> list[Slot]:
    """Constants whose load may begin before the group in front of theirs computes, where they fit beside it."""
    live = live_bytes([*fixed, *loaded])
    early = []
    for slot in loaded:
        front = groups.of(slot.first - 1) if slot.first else None
        if front is not None and allowed[int(slot.tensor)]:
            more = align(slot.size)
            if all(live[at] + more <= room for at in front.layers):
                for at in front.layers:
                    live[at] += more
                slot = replace(slot, first=front.first)
        early.append(slot)
    return early


def _members(tilings: tuple[Tiling, ...], groups: tuple[Slot, ...]) -> dict[tuple[int, str], tuple[Slot, ...]]:
    """The slots of each constant inside the one that its layer's constants share."""
    found = {}
    for group in groups:
        at, offset = int(group.tensor), group.offset
        for name, buffers in tilings[at].constants.items():
            starts = range(offset, offset + buffers.size * buffers.count, buffers.size)
            found[at, name] = tuple(replace(group, tensor=name, offset=o, size=buffers.size) for o in starts)
            offset += buffers.size * buffers.count
    return found


def _members_of(
    program: Program, target: Target, homes: Homes, kept: Sequence[Slot], groups: Groups
) -> dict[str, Slot]:
    """The slot of each tensor of the homes: their bytes from its first element to its last, for its lifetime."""
    spans = groups.spans(program)
    found = {}
    for name, at in homes.of.items():
        pixel, row = homes.strides(name, target)
        y, x, c = homes.homes[at].origins[name]
        h, w, n = dims_of(program.tensors[name].shape)
        whole = (h, w, n) == homes.homes[at].dims
        size = kept[at].size if whole else (h - 1) * row + (w - 1) * pixel + n
        found[name] = Slot(name, kept[at].memory, kept[at].offset + y * row + x * pixel + c, size, *spans[name])
    return found


def _external(program: Program, target: Target, outside: Homes, groups: Groups) -> dict[str, Slot]:
    """Constants, inputs and outputs for the whole run, one after the other; spilled tensors for their lifetimes."""
    end, last = 0, max(len(program.layers) - 1, 0)
    slots: dict[str, Slot] = {}
    used = {name for layer in program.layers for name in layer.inputs}
    for name, array in program.constants.items():
        if name in used:
            slots[name] = Slot(name, "ext", end, array.nbytes, 0, last)
            end = align(end + array.nbytes)
    for name in dict.fromkeys((*program.inputs, *program.outputs)):
        if name not in slots:
            size = activation_bytes(program, name, target)
            slots[name] = Slot(name, "ext", end, size, 0, last)
            end = align(end + size)
    spilled = [Slot("", "ext", 0, home_bytes(home.dims, target), home.first, home.last) for home in outside.homes]
    fixed = [next((slots[name] for name in home.origins if name in slots), None) for home in outside.homes]
    order = sorted((slot.first, slot.last, at) for at, slot in enumerate(spilled) if fixed[at] is None)
    placed = dict(zip((at for *_, at in order), place([spilled[at] for *_, at in order]), strict=True))
    kept = [fixed[at] or replace(placed[at], offset=end + placed[at].offset) for at in range(len(spilled))]
    return {**_members_of(program, target, outside, kept, groups), **slots}
