"""A Layout -> the commands that run it, in order: loads, the tiles of each step, stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from axtool.plan.groups import Group
from axtool.plan.layer_commands import LayerWriter, Prepared
from axtool.plan.tile_boxes import channel_parts, command_size, in_lines
from axtool.types import Command, Tile, View

if TYPE_CHECKING:
    from axtool.plan.addresses import Layout


def emit(layout: Layout) -> Iterator[Command]:
    """The commands of every group. Constants of a layer whose slot lives one group early are loaded there."""
    early: dict[int, list[tuple[int, str]]] = {}
    for at, name in layout.constants:
        early.setdefault(layout.constants[at, name][0].first, []).append((at, name))
    for group in layout.groups.groups:
        yield from _group_commands(layout, group, early.get(group.first, []))


def _group_commands(layout: Layout, group: Group, constants: list[tuple[int, str]]) -> Iterator[Command]:
    """Loads, then each step's loads, tiles and stores, of all layers of the group in turn.

    With two buffers the loads of a step are in front of the tiles of the step before it, but for weights that have one.
    The next layers' constants follow the loads of the first step.
    """
    writers = {at: LayerWriter(layout, at, constants) for at in group.layers}
    for at in group.layers:
        yield from writers[at].begin()
    count = len(writers[group.first].tiling.steps)  # none where all lies in place already
    ready = [writer.prepare(0) for writer in writers.values()] if count else []
    yield from (load for prepared in ready for load in (*prepared.late, *prepared.loads))
    for at, name in constants:
        if at not in writers:
            yield from writers[group.first].load_constant(at, name)
    for step in range(1, count + 1):
        ahead = [writer.prepare(step) for writer in writers.values()] if step < count else []
        double = any(writer.tiling.double for writer in writers.values())
        if double:
            yield from (load for prepared in ahead for load in prepared.loads)
        now = dict(zip(writers, ready, strict=True))
        made: dict[str, View] = {}
        for bundle in group.bundles:
            yield from _compute([writers[at] for at in bundle], [now[at] for at in bundle], made)
        yield from (load for prepared in ahead for load in (*prepared.late, *(() if double else prepared.loads)))
        ready = ahead
    for at in group.layers:
        yield from writers[at].end()


def _compute(writers: Sequence[LayerWriter], ready: Sequence[Prepared], made: dict[str, View]) -> Iterator[Command]:
    """The tiles of a box, each through all layers of a bundle, then the store of what is made for external memory.

    `made` holds where the layers in front have put what passes on; all tiles of a layer share their views.
    """
    step = ready[0].step
    box, last = step.box, writers[-1]
    whole = last.place(box)
    made[last.layer.outputs[0]] = whole
    rows, columns = command_size((box.h, box.w, box.n), last.target, lines=in_lines(writers[0].layer))
    channels = channel_parts([writer.job for writer in writers], box)
    for y in range(box.y, box.y + box.h, rows):
        h = min(rows, box.y + box.h - y)
        for x in range(box.x, box.x + box.w, columns):
            for c, n in channels:
                tile = Tile(y, x, c, h, min(columns, box.x + box.w - x), n)
                for writer, prepared in zip(writers, ready, strict=True):
                    view = whole if writer is last else writer.place(tile)
                    reads = writer.reads(prepared, made)
                    made[writer.layer.outputs[0]] = view
                    yield Command("compute", writer.engine, writer.at, tile, reads, (view,), step.part)
    if last.stores:
        yield last.store(whole, box)
