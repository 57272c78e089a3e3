"""What a user asked of the planner and what came of it  ->  an error where a wish changed nothing anywhere.

A tile, a residency and a single buffer are kept for each layer or refused on the way. A second buffer and an early load
need something to act on, which a pattern over many layers need not find in each of them, but in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from axtool.errors import UsageError, plural
from axtool.plan.build_directives import NONE, Directive, matches

if TYPE_CHECKING:
    from axtool.plan.addresses import Layout


def require_honoured(directives: Sequence[Directive], wishes: Mapping[str, Directive], layout: Layout) -> None:
    """Raise UsageError for the directives that no layer could follow."""
    faults = []
    for directive in directives:
        layers = layout.program.layers
        final = {at: wishes.get(layer.outputs[0], NONE) for at, layer in enumerate(layers) if matches(directive, layer)}
        double = [at for at, wish in final.items() if directive.buffers == wish.buffers == 2]
        early = [at for at, wish in final.items() if directive.prefetch and wish.prefetch]
        if double and not any(_takes_turns(layout, at) for at in double):
            faults.append(f"'{directive.layers}': no operand of {_layers(double)} comes in more than one box")
        if early and not any(at > 0 and _has_constants(layout, at) for at in early):
            faults.append(f"'{directive.layers}': {_layers(early)} have no constants to load, or nothing in front")
    if faults:
        raise UsageError(
            f"a directive changes nothing: {faults[0]}"
            if len(faults) == 1
            else f"{len(faults)} directives change nothing",
            hint="leave it out; for two buffers also say residency: ext or a smaller tile",
            code="bad-directive",
            details=faults if len(faults) > 1 else (),
        )


def _takes_turns(layout: Layout, at: int) -> bool:
    groups = [*layout.staged.items(), *layout.constants.items()]
    return any(key[0] == at and len(slots) > 1 for key, slots in groups)


def _has_constants(layout: Layout, at: int) -> bool:
    return any(key[0] == at for key in layout.constants)


def _layers(found: Sequence[int]) -> str:
    return f"the {plural(len(found), 'layer')} that it matches"
