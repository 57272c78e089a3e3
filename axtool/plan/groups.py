"""Layers whose commands take turns: what one of them makes is read by the next while it is still near.

A bundle is a layer with the element-wise layers behind it: each tile of the first goes through all of them before the
next tile begins. The tensors between them pass through a small buffer and never live whole anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from axtool.ops.moves import GATHERS
from axtool.plan.build_directives import NONE, Directive
from axtool.plan.order import lifetimes
from axtool.plan.same_numbers import IN_PLACE
from axtool.types import Plan, Program


@dataclass(frozen=True)
class Group:
    """Layers first..last, in bundles of layers that follow each other tile by tile, and what only passes between."""

    bundles: tuple[tuple[int, ...], ...]
    passing: frozenset[str] = frozenset()

    @property
    def first(self) -> int:
        return self.bundles[0][0]

    @property
    def last(self) -> int:
        return self.bundles[-1][-1]

    @cached_property
    def layers(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many layers each bundle has."""
        return tuple(len(bundle) for bundle in self.bundles)


@dataclass(frozen=True)
class Groups:
    """All layers of a program in groups, most of them alone."""

    groups: tuple[Group, ...]

    @cached_property
    def passing(self) -> frozenset[str]:
        """The tensors that only pass from one layer to the next and live whole nowhere."""
        return frozenset(name for group in self.groups for name in group.passing)

    @cached_property
    def number(self) -> tuple[int, ...]:
        """The group of each layer."""
        return tuple(at for at, group in enumerate(self.groups) for _ in group.layers)

    def of(self, layer: int) -> Group:
        return self.groups[self.number[layer]]

    def apart(self, broken: Group) -> Groups:
        """The same with every layer of one group by itself."""
        groups: list[Group] = []
        for group in self.groups:
            groups += [Group(((at,),)) for at in group.layers] if group == broken else [group]
        return Groups(tuple(groups))

    def spans(self, program: Program) -> dict[str, tuple[int, int]]:
        """First and last layer of each tensor that lives whole: a group reads and writes for as long as it runs."""
        found = lifetimes(program, program.layers)
        return {
            name: (self.of(first).first, self.of(last).last)
            for name, (first, last) in found.items()
            if name not in self.passing
        }


def alone(program: Program) -> Groups:
    """Every layer by itself."""
    return Groups(tuple(Group(((at,),)) for at in range(len(program.layers))))


def find_groups(program: Program, wishes: Mapping[str, Directive]) -> Groups:
    """Each layer with the element-wise layers behind it that alone read what comes out of it."""
    readers: dict[str, list[str]] = {}
    for layer in program.layers:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer.outputs[0])
    bundles: list[list[int]] = []
    for at in range(len(program.layers)):
        made = program.layers[at - 1].outputs[0] if at else ""
        rides = at > 0 and _may_lead(program, bundles[-1][0]) and _rides(program, at, made, readers)
        if rides and not fixed(program, (at - 1, at), wishes):
            bundles[-1].append(at)
        else:
            bundles.append([at])
    return Groups(tuple(_group(program, bundle) for bundle in bundles))


def _group(program: Program, bundle: Sequence[int]) -> Group:
    return Group((tuple(bundle),), frozenset(program.layers[at].outputs[0] for at in bundle[:-1]))


def _may_lead(program: Program, at: int) -> bool:
    """Ops that make an output box of their own: no parts, and no elements from all over the input."""
    op = program.layers[at].op
    return op != "concat" and op not in GATHERS


def _rides(program: Program, at: int, made: str, readers: Mapping[str, list[str]]) -> bool:
    """Whether the layer reads of `made`, as nobody else does, the very box that it writes."""
    layer = program.layers[at]
    same = layer.op in IN_PLACE and program.tensors[made].shape == program.tensors[layer.outputs[0]].shape
    return same and readers.get(made, []) == [layer.outputs[0]] and made not in program.outputs


def fixed(program: Program, layers: Iterable[int], wishes: Mapping[str, Directive]) -> bool:
    """Whether a user has said where an output lives or in which boxes it is made."""
    said = [wishes.get(program.layers[at].outputs[0], NONE) for at in layers]
    return any(wish.tile or wish.buffers or wish.residency for wish in said)


def groups_of(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """The layers of a finished plan whose commands take turns, in sets of two and more."""
    spans: dict[int, tuple[int, int]] = {}
    for index, command in enumerate(plan.commands):
        if command.kind == "compute":
            spans[command.layer] = (spans.get(command.layer, (index, index))[0], index)
    found: list[list[int]] = []
    end = -1
    for layer, (first, last) in sorted(spans.items(), key=lambda item: item[1]):
        if first < end:
            found[-1].append(layer)
        else:
            found.append([layer])
        end = max(end, last)
    return tuple(tuple(sorted(layers)) for layers in found if len(layers) > 1)
