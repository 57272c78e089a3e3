"""How many cores each model may hold: `core_allocation` of the models in use -> a number of cores for each."""

from __future__ import annotations

from collections.abc import Sequence


def shares(wanted: Sequence[int | str | None], cores: int) -> list[int]:
    """The cores of each model, in the order in which the models came into use; at least one each.

    A number is so many cores, '50%' that share of what the numbers and the shares before it leave, rounded down, and
    None an equal part of what is left behind them; what cannot be divided goes to those that came first. Where more is
    wanted than there is, models share cores.
    """
    given = [1] * len(wanted)
    left = cores
    for at, want in enumerate(wanted):
        if isinstance(want, int):
            given[at] = max(1, min(want, left))
            left = max(0, left - given[at])
    for at, want in enumerate(wanted):
        if isinstance(want, str):
            given[at] = max(1, int(left * float(want.removesuffix("%")) / 100))
            left = max(0, left - given[at])
    equal = [at for at, want in enumerate(wanted) if want is None]
    for place, at in enumerate(equal):
        given[at] = max(1, left // len(equal) + (place < left % len(equal)))
    return given
