"""A Program and a Target -> a Plan: order, residency, tiles, addresses, commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from axtool.errors import FitError
from axtool.ops.copies import copied_boxes
from axtool.ops.encoding import dims_of
from axtool.plan.build_directives import NONE, Directive, resolve, unbuffered, wanted_tiling
from axtool.plan.build_residency import GroupFitError, Residency, decide
from axtool.plan.cascade import find_cascades
from axtool.plan.commands import emit
from axtool.plan.group_tile import choose_group, jobs_of
from axtool.plan.groups import Groups, alone, find_groups, fixed
from axtool.plan.homes import Homes, home_bytes
from axtool.plan.honoured import require_honoured
from axtool.plan.memory import align, live_bytes, peak, place
from axtool.plan.order import activation_bytes, order
from axtool.plan.tile import choose
from axtool.plan.tile_boxes import TileJob
from axtool.plan.tile_cost import Tiling
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.timing.cost import OUTPUT
from axtool.types import Layer, Plan, Program, Slot

ATTEMPTS = 12  # times that a fragmented placement is tried again with less room
PREFETCH_SHARES = (1.0, 0.9, 0.75, 0.0)  # of the on-chip memory that may be full with the next layer's constants


@dataclass(frozen=True)
class Layout:
    """What the commands are written from: tilings by layer, and slots by what they hold.

    `spilled`: activations outside. `live`: bytes of the resident
    ones at each layer. `resident`, `external`: slots of whole tensors; several may lie in one of the
    `homes` on chip. `constants`: on-chip copies by (layer, name), more than one for slices that take turns. `staged`:
    the buffers by (layer, input index), -1 for the output.
    """

    program: Program
    target: Target
    tilings: tuple[Tiling, ...]
    groups: Groups
    spilled: frozenset[str]
    live: tuple[int, ...]
    homes: Homes
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


def plan(program: Program, target: Target, directives: Sequence[Directive] = ()) -> Plan:
    """An address for every byte and an order for every step.

    Raises FitError where the chip is too small, UsageError for a directive that no layer can follow.
    """
    wishes = resolve(directives, program)
    layout = lay_out(order(program, target), target, wishes)
    require_honoured(directives, wishes, layout)
    return _planned(layout)


def _planned(layout: Layout) -> Plan:
    sizes = {"ext": peak(layout.external.values()), "ocm": peak(s for s in layout.slots if s.memory == "ocm")}
    return Plan(layout.program, layout.target.name, layout.slots, tuple(emit(layout)), sizes)


def lay_out(program: Program, target: Target, wishes: Mapping[str, Directive]) -> Layout:
    """Groups, residency, tiles and addresses. Where tensors spill, groups run in bands if that is faster."""
    layout = _grouped(program, target, wishes, find_groups(program, wishes))
    memory = target.memory
    banded = memory.bands and memory.activations == "resident"  # a band that waits for its reader is an activation
    if not layout.spilled or not banded:
        return layout
    cascades = _cascades(layout, wishes)
    if cascades == layout.groups:
        return layout
    candidates = layout, _grouped(program, target, wishes, cascades)
    return min(candidates, key=lambda choice: time_plan(_planned(choice), target).total)


def _cascades(layout: Layout, wishes: Mapping[str, Directive]) -> Groups:
    program, target = layout.program, layout.target
    jobs = [TileJob(layer, program, target, layout.spilled) for layer in program.layers]
    free = []
    for group in layout.groups.groups:
        free += [target.memory.ocm_bytes - layout.live[group.first]] * len(group.layers)
    may_join = [not fixed(program, group.layers, wishes) for group in layout.groups.groups]
    return find_cascades(program, layout.groups, may_join, jobs, layout.tilings, free)


def _grouped(program: Program, target: Target, wishes: Mapping[str, Directive], groups: Groups) -> Layout:
    """Residency, tiles and addresses. A group that has no room on chip is taken apart."""
    while True:
        try:
            return _lay_out(program, target, wishes, groups)
        except FitError as error:
            if groups == alone(program):
                raise
            groups = groups.apart(error.group) if isinstance(error, GroupFitError) else alone(program)


def _lay_out(program: Program, target: Target, wishes: Mapping[str, Directive], groups: Groups) -> Layout:
    """Residency, tiles and addresses, with less room each time that fragmentation breaks the on-chip memory."""
    room = target.memory.ocm_bytes
    for _ in range(ATTEMPTS):
        residency = decide(program, target, room, wishes, groups)
        tilings = _tile(program, target, residency, room, wishes, groups)
        for share in PREFETCH_SHARES:
            layout = _place(program, target, residency, tilings, share, wishes, groups)
            top = peak(s for s in layout.slots if s.memory == "ocm")
            if top <= target.memory.ocm_bytes and _prefetches(layout, wishes):
                return layout
        room -= max(top - target.memory.ocm_bytes, align(room // 64))
    if top <= target.memory.ocm_bytes:
        wish = next(wish for wish in wishes.values() if wish.prefetch)
        raise FitError(
            f"directive '{wish.layers}' asks for prefetch, and its constants have no room beside the layer in front",
            where=target.name,
            hint="leave prefetch to the planner, or a larger memory.ocm_bytes; slices of weights are never early",
            code="directive-does-not-fit",
        )
    raise FitError(
        f"no placement of {len(program.layers)} layers in {target.memory.ocm_bytes:,} bytes of on-chip memory",
        where=target.name,
        hint=f"the closest needs {top:,} bytes: set memory.ocm_bytes to that",
    )


def _tile(
    program: Program,
    target: Target,
    residency: Residency,
    room: int,
    wishes: Mapping[str, Directive],
    groups: Groups,
) -> tuple[Tiling, ...]:
    tilings: list[Tiling] = []
    for group in groups.groups:
        at, left = group.first, room - residency.live[group.first]
        if len(group.layers) > 1:
            found = choose_group(jobs_of(program, target, residency.external, group), group, left)
            assert found is not None, f"{program.layers[at].name}: a group that fits has tilings"
            tilings += found
            continue
        layer = program.layers[at]
        job, wish = TileJob(layer, program, target, residency.external), wishes.get(layer.outputs[0], NONE)
        tiling = wanted_tiling(job, wish, left) or choose(job, left, wish.buffers)
        if tiling is None:
            assert wish.buffers == 2, f"{layer.name}: a layer that fits has a tiling"
            raise unbuffered(job, wish, left)
        tilings.append(_without_copies(tiling, layer, program, residency.homes))
    return tuple(tilings)


def _without_copies(tiling: Tiling, layer: Layer, program: Program, homes: Homes) -> Tiling:
    """The tiling without the steps that would copy numbers to where they are."""
    if not copied_boxes(layer, program):
        return tiling
    return replace(tiling, steps=tuple(s for s in tiling.steps if not homes.in_place(layer, s.part, program)))


def _prefetches(layout: Layout, wishes: Mapping[str, Directive]) -> bool:
    """Whether every layer that wants its constants early has them early, as far as it has any."""
    return all(
        slots[0].first < layout.groups.of(at).first
        for (at, _), slots in layout.constants.items()
        if layout.groups.of(at).first > 0 and wishes.get(layout.program.layers[at].outputs[0], NONE).prefetch
    )


def _place(
    program: Program,
    target: Target,
    residency: Residency,
    tilings: tuple[Tiling, ...],
    share: float,
    wishes: Mapping[str, Directive],
    groups: Groups,
) -> Layout:
    """Slots with addresses. Constants begin one group early where `share` of the memory leaves room for them."""
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
    early = [
        not tiling.sliced and wishes.get(layer.outputs[0], NONE).prefetch is not False
        for layer, tiling in zip(program.layers, tilings, strict=True)
    ]
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
        _residents(program, target, residency.homes, kept, groups),
        _external(program, target, residency, groups),
        _members(tilings, rest),
        buffers_of,
    )


def _prefetched(fixed: list[Slot], loaded: list[Slot], allowed: list[bool], room: float, groups: Groups) -> list[Slot]:
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


def _residents(program: Program, target: Target, homes: Homes, kept: Sequence[Slot], groups: Groups) -> dict[str, Slot]:
    """The slot of each resident tensor: the bytes of its home from its first element to its last, for its lifetime."""
    spans = groups.spans(program)
    found = {}
    for name, at in homes.of.items():
        pixel, row = homes.strides(name, target)
        y, x, c = homes.homes[at].origins[name]
        h, w, n = dims_of(program.tensors[name].shape)
        whole = (h, w, n) == homes.homes[at].dims
        size = kept[at].size if whole else (h - 1) * row + (w - 1) * pixel + n
        found[name] = Slot(name, "ocm", kept[at].offset + y * row + x * pixel + c, size, *spans[name])
    return found


def _external(program: Program, target: Target, residency: Residency, groups: Groups) -> dict[str, Slot]:
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
    spans = groups.spans(program)
    spilled = [
        Slot(name, "ext", 0, activation_bytes(program, name, target), *spans[name])
        for name in sorted(residency.external, key=lambda name: (spans[name], name))
        if name not in slots
    ]
    for slot in place(spilled):
        slots[slot.tensor] = replace(slot, offset=end + slot.offset)
    return slots
