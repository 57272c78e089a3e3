"""A Program and a Target -> a Plan: order, residency, tiles, addresses, commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from axtool.errors import FitError
from axtool.ops.copies import copied_boxes
from axtool.plan.addresses import Layout, address
from axtool.plan.alike import Alike
from axtool.plan.build_directives import NONE, Directive, resolve, unbuffered, wanted_tiling
from axtool.plan.build_residency import GroupFitError, Residency, decide, least_room
from axtool.plan.cascade import find_cascades
from axtool.plan.commands import emit
from axtool.plan.fit import require_local, smallest_room
from axtool.plan.group_tile import choose_group, jobs_of
from axtool.plan.groups import Groups, alone, find_groups, fixed
from axtool.plan.homes import Homes, find_outside
from axtool.plan.honoured import require_honoured
from axtool.plan.memory import align, peak
from axtool.plan.order import order
from axtool.plan.tile import choose
from axtool.plan.tile_boxes import TileJob
from axtool.plan.tile_cost import Tiling
from axtool.target import Target
from axtool.timing.clock import time_plan
from axtool.types import Layer, Plan, Program

ATTEMPTS = 12  # times that a fragmented placement is tried again with less room
PREFETCH_SHARES = (1.0, 0.9, 0.75, 0.0)  # of the on-chip memory that may be full with the next layer's constants


def plan(program: Program, target: Target, directives: Sequence[Directive] = (), without: Collection[str] = ()) -> Plan:
    """An address for every byte and an order for every step. `without` names optimisations that are switched off.

    Raises FitError where the chip is too small, UsageError for a directive that no layer can follow.
    """
    wishes = resolve(directives, program)
    require_local(program, target)
    program = order(program, target)
    try:
        layout, planned = _fastest(program, target, wishes)
    except FitError as error:
        if error.code == "does-not-fit":
            error.advise(_smallest_change(program, target, wishes))
        raise
    require_honoured(directives, wishes, layout)
    return replace(planned, without=tuple(without)) if without else planned


def _planned(layout: Layout) -> Plan:
    sizes = {"ext": peak(layout.external.values()), "ocm": peak(s for s in layout.slots if s.memory == "ocm")}
    return Plan(layout.program, layout.target.name, layout.slots, tuple(emit(layout)), sizes)


def _fastest(program: Program, target: Target, wishes: Mapping[str, Directive]) -> tuple[Layout, Plan]:
    """Groups, residency, tiles, addresses and commands. Where tensors spill, groups run in bands if that is faster."""
    layout = _grouped(program, target, wishes, find_groups(program, wishes))
    planned = _planned(layout)
    if not layout.spilled or not target.memory.bands:
        return layout, planned
    cascades = _cascades(layout, wishes)
    if cascades == layout.groups:
        return layout, planned
    banded = _grouped(program, target, wishes, cascades)
    candidates = (layout, planned), (banded, _planned(banded))
    return min(candidates, key=lambda choice: time_plan(choice[1], target).total)


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


def _smallest_change(program: Program, target: Target, wishes: Mapping[str, Directive]) -> str:
    """The least on-chip memory with which a plan succeeds, as the hint of an error."""

    def fits(ocm_bytes: int) -> bool:
        try:
            chip = replace(target, memory=replace(target.memory, ocm_bytes=ocm_bytes))
            _lay_out(program, chip, wishes, alone(program))
        except FitError:
            return False
        return True

    least = smallest_room(least_room(program, target, wishes), fits)
    return f"a chip with memory.ocm_bytes of at least {least:,} runs every layer of this model"


def _lay_out(program: Program, target: Target, wishes: Mapping[str, Directive], groups: Groups) -> Layout:
    """Residency, tiles and addresses, with less room each time that fragmentation breaks the on-chip memory."""
    room = target.memory.ocm_bytes
    single = groups == alone(program)
    for attempt in range(ATTEMPTS + single):
        outside = attempt == ATTEMPTS  # nothing that lives on is in the way of a layer then
        room = target.memory.ocm_bytes if outside else room
        try:
            residency = decide(program, target, room, wishes, groups, outside=outside)
        except FitError:
            if attempt == 0 or outside or not single:
                raise
            continue
        spilled = find_outside(program, target, sorted(residency.external), groups)
        tilings = _tile(program, target, residency, room, wishes, groups)
        tilings = tuple(
            _without_copies(tiling, layer, program, residency.homes, spilled)
            for tiling, layer in zip(tilings, program.layers, strict=True)
        )
        early = [
            not tiling.sliced and wishes.get(layer.outputs[0], NONE).prefetch is not False
            for layer, tiling in zip(program.layers, tilings, strict=True)
        ]
        for share in PREFETCH_SHARES:
            layout = address(program, target, groups, residency, spilled, tilings, early, share)
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
        code="does-not-fit",
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
    alike = Alike()
    for group in groups.groups:
        at, left = group.first, room - residency.live[group.first]
        if len(group.layers) > 1:
            jobs = jobs_of(program, target, residency.external, group)
            found = alike.once(jobs, (left, group.shape), partial(choose_group, jobs, group, left))
            assert found is not None, f"{program.layers[at].name}: a group that fits has tilings"
            tilings += found
            continue
        layer = program.layers[at]
        job, wish = TileJob(layer, program, target, residency.external), wishes.get(layer.outputs[0], NONE)
        tiling = wanted_tiling(job, wish, left) or alike.one(
            job, (left, wish.buffers), partial(choose, job, left, wish.buffers)
        )
        if tiling is None:
            assert wish.buffers == 2, f"{layer.name}: a layer that fits has a tiling"
            raise unbuffered(job, wish, left)
        tilings.append(tiling)
    return tuple(tilings)


def _without_copies(tiling: Tiling, layer: Layer, program: Program, *homes: Homes) -> Tiling:
    """The tiling without the steps that would copy numbers to where they are."""
    copies = copied_boxes(layer, program)
    in_place = {copied.index for copied in copies if any(home.in_place(layer, copied) for home in homes)}
    if not in_place:
        return tiling
    steps = tuple(step for step in tiling.steps if step.part not in in_place)
    return replace(tiling, steps=steps) if steps else Tiling(())


def _prefetches(layout: Layout, wishes: Mapping[str, Directive]) -> bool:
    """Whether every layer that wants its constants early has them early, as far as it has any."""
    return all(
        slots[0].first < layout.groups.of(at).first
        for (at, _), slots in layout.constants.items()
        if layout.groups.of(at).first > 0 and wishes.get(layout.program.layers[at].outputs[0], NONE).prefetch
    )
