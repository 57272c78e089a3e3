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

Box = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Directive:
    """Wishes for the layers that a shell pattern matches, by their name or that of an ONNX node they came from; None
    leaves the choice to the planner.
    """

    layers: str = "*"
    residency: Literal["ocm", "ext"] | None = None  # where the layer's output lives
    tile: Box | None = None  # (h, w, channels) of the output boxes; None for all that there are
    buffers: Literal[1, 2] | None = None  # of each staged operand
    prefetch: bool | None = None  # constants loaded while the layer in front computes


NONE = Directive()


def resolve(directives: Sequence[Directive], program: Program) -> Mapping[str, Directive]:
    """The wishes for each layer by its output; where several patterns match, the last to say something counts.

    Raises UsageError with every pattern that matches no layer.
    """
    require_matched(directives, [program])
    wishes: dict[str, Directive] = {}
    for directive in directives:
        said = {f.name: v for f in fields(directive) if (v := getattr(directive, f.name)) is not None}
        for layer in program.layers:
            if matches(directive, layer):
                wishes[layer.outputs[0]] = replace(wishes.get(layer.outputs[0], NONE), **said)
    return wishes


def matches(directive: Directive, layer: Layer) -> bool:
    """Whether a directive is about a layer."""
    names = (layer.name, *layer.origin)
    return directive.layers in names or any(fnmatchcase(name, directive.layers) for name in names)


def matching(directives: Sequence[Directive], program: Program) -> tuple[Directive, ...]:
    """The directives that are about some layer of a program: one of the stages of a model."""
    return tuple(d for d in directives if any(matches(d, layer) for layer in program.layers))


def require_matched(directives: Sequence[Directive], programs: Sequence[Program]) -> None:
    """Raise UsageError, with the nearest names, for the patterns that match no layer of any of the programs."""
    layers = [layer for program in programs for layer in program.layers]
    names = [layer.name for layer in layers]
    lost = [d.layers for d in directives if not any(matches(d, layer) for layer in layers)]
    if lost:
        raise UsageError(
            f"directive '{lost[0]}' matches no layer" if len(lost) == 1 else f"{len(lost)} directives match no layer",
            hint=nearest(lost[0], names),
            code="unmatched-directive",
            details=[f"'{pattern}': {nearest(pattern, names)}" for pattern in lost] if len(lost) > 1 else (),
        )


def wanted_size(job: TileJob, wish: Directive) -> Size | None:
    """The box that a wish asks for, cut to the output. Raises UsageError for one that the layer cannot have."""
    if wish.tile is None:
        return None
    h, w, n = (whole if want is None else min(want, whole) for want, whole in zip(wish.tile, job.dims, strict=True))
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
    if not tilings:
        raise FitError(
            f"directive '{wish.layers}' asks for double buffering, and {job.target.name} has none of activations",
            where=_title(job.layer),
            hint="leave out buffering, or another chip: memory.double_buffers is false",
            code="directive-does-not-fit",
        )
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


def unbuffered(job: TileJob, wish: Directive, room: int) -> FitError:
    """The refusal of buffers for which there is no room."""
    return FitError(
        f"directive '{wish.layers}': no tile with {wish.buffers} buffers fits the {room:,} bytes that are left",
        where=_title(job.layer),
        hint="buffering: single, or more memory.ocm_bytes",
        code="directive-does-not-fit",
    )


def wanted_bytes(job: TileJob, wish: Directive) -> int | None:
    """On-chip bytes of the tile that a wish fixes, None where it fixes none."""
    size = wanted_size(job, wish)
    return None if size is None else bytes_at(job, size)


def _title(layer: Layer) -> str:
    return f"{layer.op} '{layer.name or layer.outputs[0]}'"
