"""Tensors of a memory that share bytes -> homes: boxes of bytes in each of which several tensors lie.

Two reasons to share. The numbers are the same: a part of a concat is made where the concat will be, a slice is read
where its tensor is, and neither is copied. Or the one dies as the other is made: an elementwise op writes its result
over an operand that nobody reads again. No sharing raises the most on-chip memory that lives at one time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from axtool.ops.boxes import intersect, is_empty
from axtool.ops.copies import Copied, copied_boxes
from axtool.ops.encoding import dims_of
from axtool.plan.groups import Groups
from axtool.plan.memory import align
from axtool.plan.order import lifetimes, padded
from axtool.plan.same_numbers import IN_PLACE, Held, Origin, corner, held_numbers, itself, minus, plus
from axtool.target import Target
from axtool.types import Layer, Program, Tile


@dataclass(frozen=True)
class Home:
    """A box of (h, w, channel bytes) of a memory, for layers first..last, and where its tensors begin in it."""

    dims: Origin
    first: int
    last: int
    origins: Mapping[str, Origin]


@dataclass(frozen=True)
class Homes:
    """The homes of all tensors that live whole in one memory, by number, and the number of the home of each tensor."""

    homes: tuple[Home, ...]
    of: Mapping[str, int]

    def home(self, name: str) -> Home:
        return self.homes[self.of[name]]

    def strides(self, name: str, target: Target) -> tuple[int, int]:
        """Bytes from one pixel of a tensor to the next, and from one row to the next."""
        _, w, c = self.home(name).dims
        pixel = padded(c, target)
        return pixel, w * pixel

    def in_place(self, layer: Layer, copied: Copied) -> bool:
        """Whether what a copying layer would copy lies where it should already."""
        source, out = layer.inputs[copied.index], layer.outputs[0]
        if source not in self.of or self.of[source] != self.of.get(out, -1):
            return False
        origins = self.home(out).origins
        return plus(origins[source], copied.start) == plus(origins[out], corner(copied.box))


@dataclass(frozen=True)
class _Join:
    """`inner` begins at `at` inside `outer`. Copies hold the same numbers; the others take turns at layer `layer`."""

    outer: str
    inner: str
    at: Origin
    copies: bool


@dataclass
class _Cluster:
    """A home that may still grow: tensors with their origins, and the lifetime of all of them together."""

    dims: Origin
    first: int
    last: int
    origins: dict[str, Origin] = field(default_factory=dict)


def find_homes(
    program: Program, target: Target, resident: Sequence[str], limits: Sequence[int], groups: Groups
) -> Homes:
    """Homes for the tensors that live on chip. At each layer, no more bytes than the limit or than without sharing."""
    search = _Search(program, target, resident, limits, groups)
    waiting = [join for join in _copy_joins(program) if not search.join(join)]
    for join in _turn_joins(program, search.used):
        search.join(join)
    for join in waiting:  # taking turns has made room
        search.join(join)
    return search.homes()


def find_outside(program: Program, target: Target, external: Sequence[str], groups: Groups) -> Homes:
    """Homes for the activations in external memory, where only copies share. The host finds outputs whole."""
    search = _Search(program, target, external, None, groups)
    for join in _copy_joins(program):
        search.join(join)
    return search.homes()


def home_bytes(dims: Origin, target: Target) -> int:
    """Bytes of a box that is all of a home."""
    return dims[0] * dims[1] * padded(dims[2], target)


def live_at(homes: Homes, layers: int, target: Target) -> list[int]:
    """Bytes of the homes that live at each layer."""
    live = [0] * layers
    for home in homes.homes:
        size = align(home_bytes(home.dims, target))
        for at in range(home.first, home.last + 1):
            live[at] += size
    return live


def _copy_joins(program: Program) -> Iterator[_Join]:
    for layer in program.layers:
        for copied in copied_boxes(layer, program):
            source, out = layer.inputs[copied.index], layer.outputs[0]
            if layer.op == "concat":
                yield _Join(out, source, corner(copied.box), copies=True)
            else:
                yield _Join(source, out, copied.start, copies=True)


def _turn_joins(program: Program, used: Mapping[str, tuple[int, int]]) -> Iterator[_Join]:
    for at, layer in enumerate(program.layers):
        if layer.op in IN_PLACE:
            out = layer.outputs[0]
            for name in dict.fromkeys(layer.inputs):
                same = program.tensors[name].shape == program.tensors[out].shape
                if same and name in used and used[name][1] == at:
                    yield _Join(out, name, (0, 0, 0), copies=False)


class _Search:
    """Clusters that are joined one pair at a time, while the numbers stay right and the memory within its limits."""

    def __init__(
        self, program: Program, target: Target, names: Sequence[str], limits: Sequence[int] | None, groups: Groups
    ) -> None:
        self.program, self.target, self.groups = program, target, groups
        self.whole = frozenset(program.outputs) if limits is None else frozenset()  # homes of their own, or all of one
        self.used = lifetimes(program, program.layers)
        self.spans = groups.spans(program)
        self.dims = {name: dims_of(program.tensors[name].shape) for name in names}
        self.clusters = {name: _Cluster(self.dims[name], *self.spans[name], {name: (0, 0, 0)}) for name in names}
        self.live = [0] * len(program.layers)
        for name in names:
            self._count(self.clusters[name], 1)
        self.limits = None if limits is None else [max(pair) for pair in zip(self.live, limits, strict=True)]
        self.held = held_numbers(program)

    def homes(self) -> Homes:
        """The clusters as they are now."""
        clusters = {id(cluster): cluster for cluster in self.clusters.values()}.values()
        found = tuple(Home(one.dims, one.first, one.last, one.origins) for one in clusters)
        return Homes(found, {name: at for at, home in enumerate(found) for name in home.origins})

    def join(self, join: _Join) -> bool:
        """One cluster of two, where that is possible. An input of the program arrives whole: it shares with no copy."""
        outer, inner = self.clusters.get(join.outer), self.clusters.get(join.inner)
        if outer is None or inner is None or outer is inner:
            return outer is not None and outer is inner
        inputs = self.program.inputs
        if any(name in inputs for name in (*outer.origins, *inner.origins)):
            return False
        shift = minus(plus(outer.origins[join.outer], join.at), inner.origins[join.inner])
        if not _inside(inner.dims, shift, outer.dims):
            outer, inner, shift = inner, outer, (-shift[0], -shift[1], -shift[2])
        wide = _inside(inner.dims, shift, outer.dims)
        if (
            not wide
            or not self.whole.isdisjoint(inner.origins)
            or shift[2] % self.target.channel_multiple
            or not self._agree(outer, inner, shift)
        ):
            return False
        both = _Cluster(outer.dims, min(outer.first, inner.first), max(outer.last, inner.last), dict(outer.origins))
        both.origins.update({name: plus(origin, shift) for name, origin in inner.origins.items()})
        if not self._fits(outer, inner, both):
            return False
        self.clusters.update(dict.fromkeys(both.origins, both))
        return True

    def _fits(self, outer: _Cluster, inner: _Cluster, both: _Cluster) -> bool:
        """Whether the memory stays within its limits; the live bytes are those of the joined clusters then."""
        for cluster, sign in ((outer, -1), (inner, -1), (both, 1)):
            self._count(cluster, sign)
        if self.limits is None or all(self.live[at] <= self.limits[at] for at in range(both.first, both.last + 1)):
            return True
        for cluster, sign in ((outer, 1), (inner, 1), (both, -1)):
            self._count(cluster, sign)
        return False

    def _count(self, cluster: _Cluster, sign: int) -> None:
        size = sign * align(home_bytes(cluster.dims, self.target))
        for at in range(cluster.first, cluster.last + 1):
            self.live[at] += size

    def _agree(self, outer: _Cluster, inner: _Cluster, shift: Origin) -> bool:
        """Whether no tensor of one cluster destroys what a tensor of the other still has to say."""
        return all(
            self._same(a, origin_a, b, plus(origin_b, shift)) or self._take_turns(a, origin_a, b, plus(origin_b, shift))
            for a, origin_a in outer.origins.items()
            for b, origin_b in inner.origins.items()
            if not is_empty(intersect(self._box(a, origin_a), self._box(b, plus(origin_b, shift))))
        )

    def _box(self, name: str, origin: Origin) -> Tile:
        return Tile(*origin, *self.dims[name])

    def _same(self, a: str, at_a: Origin, b: str, at_b: Origin) -> bool:
        """Whether both hold the same numbers in every byte that they share."""
        for one in self._parts(a):
            for other in self._parts(b):
                if is_empty(intersect(_moved(one.box, at_a), _moved(other.box, at_b))):
                    continue
                if one.source != other.source or plus(one.shift, at_a) != plus(other.shift, at_b):
                    return False
        return True

    def _parts(self, name: str) -> tuple[Held, ...]:
        return self.held.get(name) or itself(self.program, name)

    def _take_turns(self, a: str, at_a: Origin, b: str, at_b: Origin) -> bool:
        """Whether one is dead when the other is made, or read for the last time byte by byte as it is made.

        Dead is what no layer of the group still reads: their commands take turns.
        """
        early, late = (a, b) if self.used[a][1] <= self.used[b][0] else (b, a)
        if early in self.whole:  # the host reads an output in external memory after the last layer
            return False
        dies, made = self.used[early][1], self.used[late][0]
        if self.groups.number[dies] < self.groups.number[made]:
            return True
        layer, layers = self.program.layers[made], self.groups.of(made).layers
        same_place = at_a == at_b and self.dims[a] == self.dims[b]
        others = any(early in self.program.layers[i].inputs for i in layers if i != made)
        return dies == made and layer.op in IN_PLACE and layer.outputs[0] == late and same_place and not others


def _inside(dims: Origin, at: Origin, outer: Origin) -> bool:
    return all(start >= 0 and start + size <= most for start, size, most in zip(at, dims, outer, strict=True))


def _moved(box: Tile, by: Origin) -> Tile:
    return replace(box, y=box.y + by[0], x=box.x + by[1], c=box.c + by[2])
