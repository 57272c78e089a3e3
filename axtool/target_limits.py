"""The lists of names among a target's limits: the ops that a chip takes, the rules of the manual that hold there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from axtool.errors import nearest

# What the compiler of a chip refuses beyond what the kernels need: names, not numbers.
LIMIT_LISTS: Mapping[str, str] = {
    "ops": "the ONNX ops that the chip runs; without the list every one that has a device kernel",
    "rules": "rules of the manual that hold on the chip",
}


def take_limit_lists(plain: Any, faults: list[str]) -> dict[str, tuple[str, ...]]:
    """The lists, taken out of the `limits` of `plain`; a name that the manual does not have goes to `faults`."""
    limits = plain.get("limits") if isinstance(plain, dict) else None
    given = {name: limits.pop(name) for name in LIMIT_LISTS if name in limits} if isinstance(limits, dict) else {}
    found: dict[str, tuple[str, ...]] = {name: _names(given.get(name)) for name in LIMIT_LISTS}
    faults += [f"limits.{name}: want a list of names, found {given[name]!r}" for name in given if not found[name]]
    if any(found.values()):
        from axtool.ops.limits import choices, nameable_ops  # the manual costs what only a file with lists pays

        known = {"ops": nameable_ops(), "rules": tuple(choices())}
        for name, names in found.items():
            unknown = [one for one in names if one not in known[name]]
            faults += [f"limits.{name}: unknown name '{one}'; {nearest(one, known[name])}" for one in unknown]
            twice = sorted({one for one in names if names.count(one) > 1})
            faults += [f"limits.{name}: '{one}' stands there twice" for one in twice]
    return found


def _names(value: object) -> tuple[str, ...]:
    """A list of texts as a tuple; empty for anything else."""
    if not isinstance(value, list | tuple):
        return ()
    names = tuple(item for item in value if isinstance(item, str))
    return names if len(names) == len(value) else ()
