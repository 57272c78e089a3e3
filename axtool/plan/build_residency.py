"""Which activations live whole on chip and which in external memory.

All of them on chip where every layer's live set fits. Otherwise the tensor whose absence frees the most memory for
each byte of traffic goes out, then the next, until every layer fits; layers touching it run box by box. A chip that
keeps no activation between layers has all of them outside: each is written once and read by each of its readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from axtool.errors import FitError, UsageError
from axtool.plan.build_directives import NONE, Directive, wanted_bytes
from axtool.plan.fit import title
from axtool.plan.group_tile import group_smallest, jobs_of
from axtool.plan.groups import Group, Groups
from axtool.plan.homes import Homes, find_homes, live_at
from axtool.plan.memory import align
from axtool.plan.order import activation_bytes, lifetimes
from axtool.plan.tile import LEVELS, smallest
from axtool.plan.tile_boxes import TileJob
from axtool.plan.tile_needs import sliceable
from axtool.target import Target
from axtool.types import Program


class GroupFitError(FitError):
    """A group whose layers have no room together; one by one they may have."""

    group: Group


@dataclass(frozen=True)
class Residency:
    """The tensors kept in external memory, where the others share bytes, and those that live at each layer."""

    external: frozenset[str]
    homes: Homes
    live: tuple[int, ...]


def decide(
    program: Program,
    target: Target,
    room: int,
    wishes: Mapping[str, Directive],
    groups: Groups,
    *,
    outside: bool = False,
) -> Residency:
    """Spill, largest benefit first, until each layer fits in `room` bytes. Raises FitError naming the layer.

    `outside` begins with everything spilled that no directive keeps on chip.
    """
    search = _Search(program, target, room, wishes, groups)
    if outside:
        search.spill_all()
    while (at := search.worst()) is not None:
        search.relieve(at)
    return Residency(frozenset(search.external), search.homes, tuple(search.live))


def least_room(program: Program, target: Target, wishes: Mapping[str, Directive]) -> int:
    """On-chip bytes that the layers need one by one, in the smallest boxes, with everything else outside."""
    everything = frozenset(lifetimes(program, program.layers))
    needs = []
    for layer in program.layers:
        job = TileJob(layer, program, target, everything)
        fixed = wanted_bytes(job, wishes.get(layer.outputs[0], NONE))
        needs.append(smallest(job, LEVELS - 1) if fixed is None else fixed)
    return max(needs, default=0)


class _Search:
    """The state of one search: what is out, how thrifty each layer is, what each needs."""

    def __init__(
        self, program: Program, target: Target, room: int, wishes: Mapping[str, Directive], groups: Groups
    ) -> None:
        self.program, self.target, self.room, self.wishes, self.groups = program, target, room, wishes, groups
        self.spans = groups.spans(program)
        self.size = {name: align(activation_bytes(program, name, target)) for name in self.spans}
        self.readers = _count_readers(program)
        self.early = _early_constants(program)
        self.external: set[str] = set()
        self.known: dict[tuple[int, int, frozenset[str]], int] = {}  # bytes that a group needs, worked out once
        self.level = [0] * len(program.layers)
        self.live = self._apart([*self.spans])
        self.extra = [self._smallest(at) for at in range(len(program.layers))]
        outside = target.memory.activations == "external"
        for name in self.spans:
            wish = wishes.get(name, NONE)
            if outside and wish.residency == "ocm":
                raise _homeless(wish, target)
        self._spill(*(name for name in self.spans if outside or wishes.get(name, NONE).residency == "ext"))
        self._share()

    def worst(self) -> int | None:
        """The layer that lacks the most room, the first of them; None where all fit."""
        over = [live + extra - self.room for live, extra in zip(self.live, self.extra, strict=True)]
        most = max(over, default=0)
        return over.index(most) if most > 0 else None

    def relieve(self, at: int) -> None:
        """One step towards a layer that fits: slice its constants, smaller boxes, a spill, the smallest boxes."""
        layers = [self.program.layers[i] for i in self.groups.of(at).layers]
        touches = any(name in self.external for layer in layers for name in (*layer.inputs, *layer.outputs))
        if (touches and self.level[at] < 1) or (any(map(sliceable, layers)) and self.level[at] < 2):
            self._tighten(at, 1 if touches and self.level[at] < 1 else 2)
        elif (name := self._best_spill(at)) is not None:
            self._spill(name)
            self._share()
        elif self.level[at] + 1 < LEVELS:
            self._tighten(at, self.level[at] + 1)
        else:
            raise self._fault(at)

    def _smallest(self, at: int, external: frozenset[str] | None = None, level: int | None = None) -> int:
        out = frozenset(self.external) if external is None else external
        group = self.groups.of(at)
        if len(group.layers) > 1:
            level = self.level[at] if level is None else level
            layers = [self.program.layers[i] for i in group.layers]
            touched = frozenset(name for layer in layers for name in (*layer.inputs, *layer.outputs))
            key = (group.first, level, out & touched)
            if key not in self.known:
                self.known[key] = group_smallest(jobs_of(self.program, self.target, out, group), group, level)
            return self.known[key]
        job = TileJob(self.program.layers[at], self.program, self.target, out)
        fixed = wanted_bytes(job, self.wishes.get(job.layer.outputs[0], NONE))
        return fixed if fixed is not None else smallest(job, self.level[at] if level is None else level)

    def _tighten(self, at: int, level: int) -> None:
        for i in self.groups.of(at).layers:
            self.level[i] = level
        self._measure(at)

    def _measure(self, at: int) -> None:
        extra = self._smallest(at)
        for i in self.groups.of(at).layers:
            self.extra[i] = extra

    def _touches(self, at: int, name: str) -> bool:
        """Whether a layer, or one whose commands take turns with its, reads or makes a tensor."""
        layers = (self.program.layers[i] for i in self.groups.of(at).layers)
        return any(name in layer.inputs or name in layer.outputs for layer in layers)

    def _best_spill(self, at: int) -> str | None:
        """The resident tensor alive at a layer that frees the most overflow for each byte of traffic."""
        over = [max(0, live + extra - self.room) for live, extra in zip(self.live, self.extra, strict=True)]
        best: tuple[float, int, str] | None = None
        for name, (first, last) in self.spans.items():
            if name in self.external or not first <= at <= last or not self._frees(at, name):
                continue
            if self.wishes.get(name, NONE).residency == "ocm":
                continue
            size = self.size[name]
            gain = sum(min(size, over[i]) for i in range(first, last + 1))
            score = (gain / max(self._traffic(name), 1), size, name)
            best = score if best is None or score[:2] > best[:2] else best
        return best[2] if best else None

    def _frees(self, at: int, name: str) -> bool:
        """Whether the layer needs less with the tensor outside: staging may cost as much as the tensor itself."""
        if not self._touches(at, name):
            return True
        before = min(self.extra[at], self._smallest(at, level=LEVELS - 1))
        after = self._smallest(at, frozenset(self.external | {name}), LEVELS - 1)
        return after - before < self.size[name]

    def _traffic(self, name: str) -> int:
        """External bytes more than a resident tensor costs: inputs are read and outputs written in any case."""
        reads = self.readers.get(name, 0) - (name in self.program.inputs)
        writes = 0 if name in self.program.inputs or name in self.program.outputs else 1
        return self.size[name] * (reads + writes)

    def _spill(self, *names: str) -> None:
        """Tensors go outside; what each layer needs is measured once for all of them."""
        self.external.update(names)
        touched: set[int] = set()
        for name in names:
            first, last = self.spans[name]
            for at in range(first, last + 1):
                self.live[at] -= self.size[name]
            groups = {self.groups.of(at).first for at in range(first, last + 1)}
            touched.update(first for first in groups - touched if self._touches(first, name))
        for at in sorted(touched):
            self._measure(at)

    def _share(self) -> None:
        """Homes for what is on chip: none that lacks room for what a layer needs beside it, none above the peak."""
        resident = [name for name in self.spans if name not in self.external]
        beside = [extra + early for extra, early in zip(self.extra, self.early, strict=True)]
        peak = max((live + more for live, more in zip(self._apart(resident), beside, strict=True)), default=0)
        limits = [min(peak - more, self.room - extra) for more, extra in zip(beside, self.extra, strict=True)]
        self.homes = find_homes(self.program, self.target, resident, limits, self.groups)
        self.live = live_at(self.homes, len(self.program.layers), self.target)

    def _apart(self, resident: Sequence[str]) -> list[int]:
        """Bytes that live at each layer where every tensor has bytes of its own."""
        live = [0] * len(self.program.layers)
        for name in resident:
            first, last = self.spans[name]
            for at in range(first, last + 1):
                live[at] += self.size[name]
        return live

    def spill_all(self) -> None:
        """Everything outside that no directive keeps on chip."""
        free = (name for name in self.spans if self.wishes.get(name, NONE).residency != "ocm")
        self._spill(*[name for name in free if name not in self.external])
        self._share()

    def _fault(self, at: int) -> FitError:
        layer = self.program.layers[at]
        needs = self.live[at] + self.extra[at]
        tensor = max((*layer.inputs, *layer.outputs), key=lambda name: (_bytes(self.program, self.size, name), name))
        error = FitError if len(self.groups.of(at).layers) == 1 else GroupFitError
        fault = error(
            f"does not fit the on-chip memory: with the smallest tile it needs {needs:,} bytes, the chip has"
            f" {self.target.memory.ocm_bytes:,}; the largest part is tensor '{tensor}'",
            where=title(at, layer),
            code="does-not-fit",
        )
        if isinstance(fault, GroupFitError):
            fault.group = self.groups.of(at)
        return fault


def _homeless(wish: Directive, target: Target) -> UsageError:
    return UsageError(
        f"directive '{wish.layers}': {target.name} keeps no activation on chip between layers",
        where=target.name,
        hint="leave out residency, or another chip: memory.activations is external",
        code="bad-directive",
    )


def _bytes(program: Program, sizes: Mapping[str, int], name: str) -> int:
    return program.constants[name].nbytes if name in program.constants else sizes.get(name, 0)


def _early_constants(program: Program) -> list[int]:
    """Bytes of the constants of the next layer, which may come while a layer runs."""
    sizes = [
        sum(align(program.constants[name].nbytes) for name in layer.inputs if name in program.constants)
        for layer in program.layers
    ]
    return [*sizes[1:], 0][: len(sizes)]


def _count_readers(program: Program) -> dict[str, int]:
    readers: dict[str, int] = {}
    for layer in program.layers:
        for name in set(layer.inputs):
            readers[name] = readers.get(name, 0) + 1
    return readers
