"""What the device can take: `why_not(site, target)` judges one node, `manual(target)` lists the rules it judges by.

`choices()` are the rules that a target may choose by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from axtool.errors import nearest
from axtool.ops import (
    custom,
    limits_attention,
    limits_chosen_mac,
    limits_chosen_moves,
    limits_chosen_values,
    limits_common,
    limits_elementwise,
    limits_mac,
    limits_movement,
    limits_pool,
    limits_rows,
)
from axtool.ops.limits_core import REGISTRY, Chosen, Limit, Reason
from axtool.target import Target
from axtool.types import Site

__all__ = ["FAMILIES", "ManualRow", "Reason", "choices", "device_ops", "manual", "taken_ops", "why_not"]

FAMILIES = (  # importing one registers it
    limits_common,
    limits_mac,
    limits_attention,
    limits_elementwise,
    limits_pool,
    limits_movement,
    limits_rows,
    limits_chosen_mac,
    limits_chosen_moves,
    limits_chosen_values,
)
DOMAINS = ("", "ai.onnx", "ax")
BLOCKS = frozenset({"Attention", "LayerNormalization"})  # each takes the place of many small ops


@dataclass(frozen=True, slots=True)
class ManualRow:
    """One line of the manual: an op (empty for every op) and the rules it must obey on a target."""

    op: str
    rules: tuple[str, ...]
    advice: tuple[str, ...]


def why_not(site: Site, target: Target) -> tuple[Reason, ...]:
    """Each broken rule with what was seen; empty when the device can run the node."""
    if site.domain == custom.DOMAIN:
        return _broken(REGISTRY.every, site, target) or _of_custom(site, target)
    if site.domain not in DOMAINS or site.op not in REGISTRY.by_op:
        return (Reason(f"There is no device kernel for {_full_name(site)}.", "", _no_kernel_advice(site)),)
    if target.ops and site.op not in target.ops:
        advice = _no_kernel_advice(site, target.ops)
        return (Reason(f"{target.name} runs only some ops.", f"the op is {site.op}", advice),)
    common = _broken(REGISTRY.every, site, target)
    return common or _broken(REGISTRY.of(site.op, target), site, target)  # these read shapes: known ones only


def manual(target: Target) -> tuple[ManualRow, ...]:
    """The rules of every op, then of each device op by name, with the numbers of the target."""
    taken = [op for op in device_ops() if not target.ops or op in target.ops]
    rows = [("", REGISTRY.every), *((op, REGISTRY.of(op, target)) for op in taken)]
    return tuple(
        ManualRow(op, tuple(item.rule(target) for item in limits), tuple(item.advice for item in limits))
        for op, limits in rows
    )


def device_ops() -> tuple[str, ...]:
    """The ops that have a device kernel, by name."""
    return tuple(sorted(REGISTRY.by_op))


def taken_ops(target: Target) -> frozenset[str]:
    """The ops with a device kernel that the target runs: those of its list; without a list all, but blocks only where
    it computes in 32 bits.
    """
    if target.ops:
        return frozenset(REGISTRY.by_op).intersection(target.ops)
    return frozenset(REGISTRY.by_op) - (frozenset() if "fx32" in target.formats else BLOCKS)


def choices() -> dict[str, Chosen]:
    """The rules that a target may choose, by name."""
    return dict(sorted(REGISTRY.chosen.items()))


def nameable_ops() -> tuple[str, ...]:
    """The ops that a target's list may name: those with a kernel, and those that a rule speaks of."""
    return tuple(sorted({*REGISTRY.by_op, *(op for rule in REGISTRY.chosen.values() for op in rule.ops)}))


def _of_custom(site: Site, target: Target) -> tuple[Reason, ...]:
    """Why the device cannot take a user's op: the target has a closed list of ops, or the user's own limit."""
    op = custom.of_site(site)
    if target.ops:
        advice = "Compile for a target without a list of ops."
        return (Reason(f"{target.name} runs only some ops.", f"'{op.name}' is a custom op", advice),)
    seen = custom.limit_of(site)
    return (Reason(f"The custom op '{op.name}' has a limit of its own.", seen, "It runs on the host."),) if seen else ()


def _broken(limits: list[Limit], site: Site, target: Target) -> tuple[Reason, ...]:
    judged = ((item, item.check(site, target)) for item in limits)
    return tuple(Reason(item.rule(target), seen, item.advice) for item, seen in judged if seen is not None)


def _full_name(site: Site) -> str:
    return f"{site.domain}::{site.op}" if site.domain not in DOMAINS else site.op


def _no_kernel_advice(site: Site, known: tuple[str, ...] = ()) -> str:
    hint = nearest(site.op, known or device_ops(), count=2)
    return f"It runs on the host; {hint}" if hint.startswith("did you mean") else "It runs on the host."
