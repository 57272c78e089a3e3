"""A program that a chip has no room for -> an error that names the layer, and the smallest change that would do."""

from __future__ import annotations

from collections.abc import Callable

from axtool.errors import FitError
from axtool.plan.local_memory import parts
from axtool.plan.memory import ALIGNMENT
from axtool.plan.tile_boxes import TileJob, channel_unit
from axtool.target import Target
from axtool.types import Layer, Program


def require_local(program: Program, target: Target) -> None:
    """Raise FitError where the elements of the array have no room for the fewest channels of a layer.

    Every such layer is named. The rule is that of `axtool.plan.local_memory.parts`.
    """
    room = target.memory.lrm_bytes_per_pe
    faults: list[tuple[int, str]] = []
    for at, layer in enumerate(program.layers):
        if layer.op == "concat":
            continue  # parts of other tensors pass through, a channel at a time
        job = TileJob(layer, program, target, frozenset())
        channels = min(channel_unit(job), job.dims[2])
        found = parts(layer, program, target, channels)
        needed = sum(found.values())
        if needed > room:
            largest = max(found, key=lambda name: (found[name], name))
            what = f"{channels} channels need {needed:,} bytes, {found[largest]:,} of them for tensor '{largest}'"
            faults.append((needed, f"{title(at, layer)}: {what}"))
    if faults:
        where, what = faults[0][1].split(": ", 1)
        raise FitError(
            f"does not fit the memory of a processing element: {what}; the chip has {room:,} bytes in each",
            where=where,
            hint=f"a chip with memory.lrm_bytes_per_pe of at least {max(faults)[0]:,} runs every layer of this model",
            code="does-not-fit",
            details=[text for _, text in faults] if len(faults) > 1 else (),
        )


def smallest_room(enough: int, fits: Callable[[int], bool]) -> int:
    """The least on-chip memory, in bytes, with which a plan succeeds: no multiple of 64 below it does.

    `enough` is what the layers need one by one with everything else outside.
    """
    low, high, step = 0, enough, ALIGNMENT
    while not fits(high):  # addresses may need more
        low, high, step = high, high + step, 2 * step
    while low == 0 and high > step:  # operands that share bytes may need less
        low, high, step = (0, high - step, 2 * step) if fits(high - step) else (high - step, high, step)
    while high - low > ALIGNMENT:
        middle = (low + high) // 2 // ALIGNMENT * ALIGNMENT
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def title(at: int, layer: Layer) -> str:
    """The name of a layer for an error: its place, op and name, and the nodes that it came from."""
    origin = ", ".join(layer.origin[:3])
    return f"layer {at} {layer.op} '{layer.name or layer.outputs[0]}'" + (f" (from {origin})" if origin else "")
