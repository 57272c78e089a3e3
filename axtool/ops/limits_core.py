"""A limit: one function that is the check, the message and the manual. The registry the families fill.

Most limits hold on every chip. A chosen one holds on the targets that name it (`limits.rules`): what a chip's own
compiler asks beyond what the kernels need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from axtool.target import Target
from axtool.types import Site

Check = Callable[[Site, Target], str | None]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node stays on the host: the rule it breaks, what was seen, and what would avoid it."""

    rule: str
    seen: str
    advice: str = ""

    def __str__(self) -> str:
        text = f"{self.rule} Here {self.seen}." if self.seen else self.rule
        return f"{text} {self.advice}" if self.advice else text


@dataclass(frozen=True, slots=True)
class Limit:
    """A check with its advice. The docstring of the check is the rule, with the target's numbers in braces."""

    check: Check
    advice: str

    def rule(self, target: Target) -> str:
        return " ".join((self.check.__doc__ or "").split()).format_map(_Numbers(target))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A limit on these ops (empty: on every op) that holds where a target chooses it by name."""

    ops: tuple[str, ...]
    limit: Limit


@dataclass
class Registry:
    """The limits of every op, in the order in which they are judged."""

    every: list[Limit] = field(default_factory=list)
    by_op: dict[str, list[Limit]] = field(default_factory=dict)
    chosen: dict[str, Chosen] = field(default_factory=dict)

    def of(self, op: str, target: Target) -> list[Limit]:
        """The limits of an op on a target: those that hold everywhere, then those that the target chooses."""
        picked = [self.chosen[name] for name in target.rules]
        return [*self.by_op.get(op, ()), *(rule.limit for rule in picked if not rule.ops or op in rule.ops)]


REGISTRY = Registry()


def limit(*ops: str, advice: str = "") -> Callable[[Check], Check]:
    """Register a check for these ops (for every op, when none is named)."""

    def add(check: Check) -> Check:
        item = Limit(check, advice)
        if not ops:
            REGISTRY.every.append(item)
        for op in ops:
            REGISTRY.by_op.setdefault(op, []).append(item)
        return check

    return add


def choice(*ops: str, advice: str = "") -> Callable[[Check], Check]:
    """Register a check that holds where a target chooses it: by the name of the function."""

    def add(check: Check) -> Check:
        assert check.__name__ not in REGISTRY.chosen, f"two rules are called {check.__name__}"
        REGISTRY.chosen[check.__name__] = Chosen(ops, Limit(check, advice))
        return check

    return add


def has_kernel(ops: Iterable[str]) -> None:
    """These ops run on the device, with the limits of every op and whatever is registered for them."""
    for op in ops:
        REGISTRY.by_op.setdefault(op, [])


def shape_of(site: Site, name: str) -> tuple[int, ...]:
    """The static shape of a tensor of the site. Raises KeyError when it is not known."""
    if name in site.constants:
        return tuple(int(n) for n in site.constants[name].shape)
    return site.shapes[name]


def data_inputs(site: Site) -> tuple[str, ...]:
    """The inputs whose values are known only at run time."""
    return tuple(name for name in site.inputs if name and name not in site.constants)


def data_outputs(site: Site) -> tuple[str, ...]:
    """The outputs that the node names."""
    return tuple(name for name in site.outputs if name)


def bound(target: Target, name: str) -> int | None:
    """The number of a limit, or None where the target sets none. Pools without limits of their own have those of the
    convolutions.
    """
    return target.limits.get(name, target.limits.get(name.replace("max_pool_", "max_")))


class _Numbers(dict[str, object]):
    """The numbers of a target by name; one that the target does not set reads as `any`."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.limits, channel_multiple=target.channel_multiple)
        self.target = target

    def __missing__(self, key: str) -> object:
        number = bound(self.target, key)
        return "any number" if number is None else number
