"""Names of tensors  ->  the groups of tensors that are int16 on the device; and which groups can be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from axtool.errors import UsageError, nearest, plural
from axtool.ops.precise import NOTHING
from axtool.ops.wide import why_not_wide
from axtool.quant.ties import Ties, tie
from axtool.target import Target
from axtool.types import Precision, Site


def candidates(
    sites: Sequence[Site],
    inputs: Sequence[str],
    outputs: Sequence[str],
    target: Target,
    given: Collection[str] = (),
    precision: Mapping[str, Precision] = NOTHING,
) -> tuple[str, ...]:
    """The roots of the groups that can be int16, in graph order. Naming any tensor of a group makes it so."""
    ties = tie(sites, inputs, outputs, given, precision)
    faults = _faults(sites, ties, target)
    kept = ties.precise.union(ties.root[name] for name in given if name in ties.root)
    return tuple(root for root in dict.fromkeys(ties.root.values()) if root not in faults and root not in kept)


def narrow_roots(
    sites: Sequence[Site], inputs: Sequence[str], outputs: Sequence[str], target: Target, given: Collection[str] = ()
) -> dict[str, str]:
    """The roots of the groups that cannot be int16, and why."""
    return dict(_faults(sites, tie(sites, inputs, outputs, given), target))


def wide_roots(
    sites: Sequence[Site], ties: Ties, wide: Collection[str], target: Target, given: Collection[str] = ()
) -> frozenset[str]:
    """The roots of the tensors named in `wide`.

    Raises UsageError for names that no tensor of the stage has, and for tensors that cannot be int16, with the reason.
    """
    if not wide:
        return frozenset()
    faults = _faults(sites, ties, target)
    problems = [f"there is no tensor '{name}' on the device" for name in wide if name not in ties.root]
    hint = nearest(next((name for name in wide if name not in ties.root), ""), sorted(ties.root)) if problems else ""
    roots = dict.fromkeys(ties.root[name] for name in wide if name in ties.root)
    members = {root: [name for name in ties.root if ties.root[name] == root] for root in roots}
    for root in roots:
        fixed = [name for name in members[root] if name in given]
        if fixed:
            problems.append(f"the model gives '{fixed[0]}' its format")
        elif root in faults:
            problems.append(faults[root])
    if problems:
        raise UsageError(
            f"{plural(len(problems), 'tensor')} cannot be int16: {'; '.join(problems[:3])}"
            + (f" and {len(problems) - 3} more" if len(problems) > 3 else ""),
            hint=hint or "leave them in int8; values that an op only moves share one format",
            code="not-int16",
            details=problems,
        )
    return frozenset(roots)


def _faults(sites: Sequence[Site], ties: Ties, target: Target) -> Mapping[str, str]:
    """By root: the first reason why its group cannot be int16."""
    found: dict[str, str] = {}
    for site in sites:
        for name in (*site.inputs, *site.outputs):
            root = ties.root.get(name)
            if root is not None and root not in found and name not in site.constants:
                fault = why_not_wide(site, name, target)
                if fault:
                    found[root] = fault
    return found
