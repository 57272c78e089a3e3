"""What a user wants of some layers -> what each layer is given, every pattern matched and every value possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Literal

from axtool.errors import FitError, UsageError, nearest
from axtool.plan.tile_boxes import Size, TileJob, channel_unit
from axtool.plan.tile_cost import Tiling, both, bytes_at
from axtool.types import Layer, Program


@dataclass(frozen=True, slots=True)
class Directive:
    """Wishes for the layers whose name a shell pattern matches; None leaves the choice to the planner."""

    layers: str = "*"
    residency: Literal["ocm", "ext"] | None = None  # where the layer's output lives
    tile: Size | None = None  # (h, w, channels) of the output boxes
    buffers: Literal[1, 2] | None = None  # of each staged operand
    prefetch: bool | None = None  # constants loaded while the layer in front computes


NONE = Directive()


def resolve(directives: Sequence[Directive], program: Program) -> Mapping[str, Directive]:
    """The wishes for each layer by its output; where several patterns match, the last to say something counts."""
    wishes: dict[str, Directive] = {}
    names = [layer.name for layer in program.layers]
    for directive in directives:
        matched = [layer for layer in program.layers if fnmatchcase(layer.name, directive.layers)]
        if not matched:
            raise UsageError(
                f"directive '{directive.layers}' matches no layer",
                hint=nearest(directive.layers, names),
                code="unmatched-directive",
            )
        for layer in matched:
            said = {f.name: v for f in fields(directive) if (v := getattr(directive, f.name)) is not None}
            wishes[layer.outputs[0]] = replace(wishes.get(layer.outputs[0], NONE), **said)
    return wishes


def wanted_size(job: TileJob, wish: Directive) -> Size | None:
    """The box that a wish asks for, cut to the output. Raises UsageError for one that the layer cannot have."""
    if wish.tile is None:
        return None
    h, w, n = (min(want, whole) for want, whole in zip(wish.tile, job.dims, strict=True))
    unit = channel_unit(job)
    if min(h, w, n) < 1 or (n < job.dims[2] and n % unit):
        raise UsageError(
            f"directive '{wish.layers}': a tile of {wish.tile} is not possible",
            where=_title(job.layer),
            hint=f"channels in multiples of {unit}, and at least one row, column and channel",
            code="bad-directive",
        )
    return h, w, n


def wanted_tiling(job: TileJob, wish: Directive, room: int) -> Tiling | None:
    """The tiling that a wish fixes, None where it fixes none. Raises FitError where the room is too small for it."""
    size = wanted_size(job, wish)
    if size is None:
        return None
    tilings = [t for t in both(job, size) if wish.buffers in (None, 2 if t.double else 1)]
    fitting = [t for t in tilings if t.bytes <= room]
    if not fitting:
        raise FitError(
            f"directive '{wish.layers}': a tile of {size} needs {min(t.bytes for t in tilings):,} bytes,"
            f" there is room for {room:,}",
            where=_title(job.layer),
            hint="a smaller tile, or more memory.ocm_bytes",
            code="directive-does-not-fit",
        )
    return min(fitting, key=lambda tiling: tiling.cycles)


def wanted_bytes(job: TileJob, wish: Directive) -> int | None:
    """On-chip bytes of the tile that a wish fixes, None where it fixes none."""
    size = wanted_size(job, wish)
    return None if size is None else bytes_at(job, size)


def _title(layer: Layer) -> str:
    return f"{layer.op} '{layer.name or layer.outputs[0]}'"
