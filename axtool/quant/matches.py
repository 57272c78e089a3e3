"""The entries of a recipe and the nodes of a clean model  ->  what each entry means: nodes, and tensors by name.

Which of them the device runs is not known yet: an entry may decide it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate

from axtool.errors import UsageError, nearest, plural
from axtool.ops.unary import UNARY
from axtool.quant.recipe_entry import Entry, Excepted, Match, Region
from axtool.quant.recipe_file import RecipeFile
from axtool.types import Site


@dataclass(frozen=True, slots=True)
class Hit:
    """What one entry means: nodes by their position, and the tensors that they make (or inputs of the model)."""

    nodes: tuple[int, ...]
    tensors: tuple[str, ...]


def hits(file: RecipeFile, sites: Sequence[Site], inputs: Sequence[str], *, check: bool = True) -> tuple[Hit, ...]:
    """What each entry of `layers` means in a model. Raises UsageError that lists every name that means nothing, unless
    that was checked before the model was changed.
    """
    if not file.layers:
        return ()
    names = _Names(sites, inputs)
    faults: list[str] = []
    found = [_hit(entry, at, names, [] if entry.optional else faults) for at, entry in enumerate(file.layers, 1)]
    if faults and check:
        raise UsageError(
            f"the recipe '{file.name}' does not fit the model: {faults[0]}"
            + (f" and {plural(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""),
            hint="names are those of the model after cleaning: `axtool info MODEL.onnx --support` lists them",
            code="unmatched-recipe",
            details=faults,
        )
    return tuple(found)


class _Names:
    """The nodes of a model by what an entry may call them."""

    def __init__(self, sites: Sequence[Site], inputs: Sequence[str]) -> None:
        self.sites, self.inputs = sites, inputs
        self.nodes: dict[str, list[int]] = {}  # by node name, and by the names of its outputs
        self.ops: dict[str, list[int]] = {}
        self.maker: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        for at, site in enumerate(sites):
            self.ops.setdefault(site.op, []).append(at)
            for name in dict.fromkeys((site.name, *site.outputs)):
                if name:
                    self.nodes.setdefault(name, []).append(at)
            for name in site.outputs:
                self.maker[name] = at
            for name in site.inputs:
                self.readers.setdefault(name, []).append(at)

    def made_by(self, site: Site) -> set[str]:
        """The ops that make what a node reads."""
        return {self.sites[self.maker[name]].op for name in site.inputs if name in self.maker}

    def read_by(self, site: Site) -> set[str]:
        """The ops that read what a node makes."""
        return {self.sites[at].op for name in site.outputs for at in self.readers.get(name, ())}

    @property
    def tensors(self) -> tuple[str, ...]:
        return (*self.inputs, *filter(None, self.maker))


def _hit(entry: Entry, number: int, names: _Names, faults: list[str]) -> Hit:
    """What one entry means; what is wrong with it goes to `faults`."""
    match, before = entry.match, len(faults)
    chosen: list[Collection[int]] = []
    entered: list[str] = list(names.inputs) if match.inputs else []
    if match.op:
        chosen.append(_of_ops(match.op, names, number, faults))
    if match.name:
        wanted = {name: _like(name, (*names.nodes, *names.inputs)) for name in match.name}
        missing = [name for name, found in wanted.items() if not found]
        known = sorted({*names.nodes, *names.inputs})
        faults += [f"layer entry {number}: no node or tensor is called '{n}'; {nearest(n, known)}" for n in missing]
        called = [name for found in wanted.values() for name in found]
        chosen.append({at for name in called for at in names.nodes.get(name, ())})
        if not (match.op or match.region or match.after or match.before):
            entered = [name for name in dict.fromkeys(called) if name in names.inputs]
    if match.region:
        chosen.append(_inside(match.region, names, number, faults))
    chosen += [_beside(ops, names.made_by, names, number, faults) for ops in (match.after,) if ops]
    chosen += [_beside(ops, names.read_by, names, number, faults) for ops in (match.before,) if ops]
    nodes = sorted(set.intersection(*map(set, chosen))) if chosen else []
    nodes = _without(nodes, match.except_, names)
    if match.position is not None:
        nodes, entered = _at(nodes, match.position, number, faults), []
    if entry.format in ("float", "fp16"):
        entered = []  # an input of the model is computed nowhere
    if not nodes and not entered and len(faults) == before:
        faults.append(f"layer entry {number}: {_nothing(match, names)}")
    made = [name for at in nodes for name in names.sites[at].outputs if name]
    return Hit(tuple(nodes), tuple(dict.fromkeys((*entered, *made))))


def _of_ops(patterns: Sequence[str], names: _Names, number: int, faults: list[str]) -> set[int]:
    found: set[int] = set()
    for pattern in patterns:
        ops = _like(pattern, names.ops)
        if not ops and not _is_op(pattern):
            faults.append(f"layer entry {number}: no op is called '{pattern}'; {nearest(pattern, sorted(names.ops))}")
        found |= {at for op in ops for at in names.ops[op]}
    return found


def _beside(
    patterns: Sequence[str],
    neighbours: Callable[[Site], Iterable[str]],
    names: _Names,
    number: int,
    faults: list[str],
) -> set[int]:
    """The nodes that have a neighbour of one of these ops."""
    _of_ops(patterns, names, number, faults)  # says which ops there are not
    wanted = {op for pattern in patterns for op in _like(pattern, names.ops)}
    return {at for at, site in enumerate(names.sites) if wanted.intersection(neighbours(site))}


def _without(nodes: Sequence[int], excepted: Excepted | None, names: _Names) -> list[int]:
    """The nodes but those that are left out. What is left out may be of no model: it says what shall not be."""
    if excepted is None:
        return list(nodes)
    ops = {op for pattern in excepted.op or () for op in _like(pattern, names.ops)}
    called = {name for pattern in excepted.name or () for name in _like(pattern, names.nodes)}
    out = {at for name in called for at in names.nodes[name]}
    return [at for at in nodes if at not in out and names.sites[at].op not in ops]


def _at(nodes: Sequence[int], places: Sequence[str], number: int, faults: list[str]) -> list[int]:
    """The nodes at these places among those that fit, in the order of the model."""
    chosen: set[int] = set()
    for place in places:
        if ":" in place:
            first, last = (int(text) if text else None for text in place.split(":"))
            chosen |= set(nodes[first:last])
        elif -len(nodes) <= int(place) < len(nodes):
            chosen.add(nodes[int(place)])
        elif nodes:
            faults.append(f"layer entry {number}: position {place} of {plural(len(nodes), 'node')} that fit")
    return sorted(chosen)


def _is_op(name: str) -> bool:
    """Whether ONNX has such an op: a list for many models may name some that this one lacks."""
    import onnx

    return name in UNARY or any(schema.name == name for schema in onnx.defs.get_all_schemas())


def _inside(region: Region, names: _Names, number: int, faults: list[str]) -> set[int]:
    """The nodes between the tensors of a region, those that make its last tensors included."""
    ends = [name for name in (*(region.from_ or ()), *(region.to or ())) if name not in names.maker]
    known = sorted(names.tensors)
    faults += [
        f"layer entry {number}: no tensor is called '{name}'; {nearest(name, known)}"
        for name in ends
        if name not in names.inputs
    ]
    after = {name: [n for at in ats for n in names.sites[at].outputs] for name, ats in names.readers.items()}
    before = {name: names.sites[at].inputs for name, at in names.maker.items()}
    below = set(range(len(names.sites)))
    if region.from_:
        below = {at for name in _reached(region.from_, after) for at in names.readers.get(name, ())}
    if region.to is None:
        return below
    stopped = set(region.from_ or ())  # what makes the first tensors is outside
    seen = _reached([name for name in region.to if name not in stopped], before, stopped)
    return below & {names.maker[name] for name in seen if name in names.maker and name not in stopped}


def _reached(start: Iterable[str], step: Mapping[str, Iterable[str]], stop: Collection[str] = ()) -> set[str]:
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name and name not in seen:
            seen.add(name)
            waiting += () if name in stop else step.get(name, ())
    return seen


def _like(pattern: str, names: Iterable[str]) -> list[str]:
    """The name itself where there is one (it may hold brackets), else those that the pattern describes."""
    listed = list(dict.fromkeys(names))
    if pattern in listed:
        return [pattern]
    if not any(mark in pattern for mark in "*?["):
        return []
    fits = re.compile(translate(pattern)).match
    return [name for name in listed if fits(name)]


def _nothing(match: Match, names: _Names) -> str:
    parts = [f"op {' or '.join(match.op)}"] if match.op else []
    parts += [f"name {' or '.join(match.name)}"] if match.name else []
    parts += ["that region"] if match.region else []
    parts += ["those neighbours"] if match.after or match.before else []
    parts += ["those places"] if match.position else []
    left = " that is not left out" if match.except_ else ""
    what = f"no node{left} is of {' and of '.join(parts)}"
    return f"{what}; ops of the model: {', '.join(sorted(names.ops))}" if match.op and len(parts) == 1 else what
