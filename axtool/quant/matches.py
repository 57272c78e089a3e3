"""The entries of a recipe and the nodes of a clean model  ->  what each entry means: nodes, and tensors by name.

Which of them the device runs is not known yet: an entry may decide it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate

from axtool.errors import UsageError, nearest, plural
from axtool.graph.split import Wishes
from axtool.ops.limits import Reason
from axtool.ops.unary import UNARY
from axtool.quant.recipe_file import Entry, Match, RecipeFile, Region
from axtool.types import Site


@dataclass(frozen=True, slots=True)
class Hit:
    """What one entry means: nodes by their position, and the tensors that they make (or inputs of the model)."""

    nodes: tuple[int, ...]
    tensors: tuple[str, ...]


def hits(file: RecipeFile, sites: Sequence[Site], inputs: Sequence[str]) -> tuple[Hit, ...]:
    """What each entry of `layers` means in a model. Raises UsageError that lists every name that means nothing."""
    if not file.layers:
        return ()
    names = _Names(sites, inputs)
    faults: list[str] = []
    found = [_hit(entry, at, names, faults) for at, entry in enumerate(file.layers, 1)]
    if faults:
        raise UsageError(
            f"the recipe '{file.name}' does not fit the model: {faults[0]}"
            + (f" and {plural(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""),
            hint="names are those of the model after cleaning: `axtool info MODEL.onnx --support` lists them",
            code="unmatched-recipe",
            details=faults,
        )
    return tuple(found)


def wishes(file: RecipeFile, sites: Sequence[Site], inputs: Sequence[str]) -> Wishes:
    """The nodes that the recipe wants in float, on the host, and in a format of the device. Raises as `hits`."""
    host: dict[int, Reason] = {}
    device: set[int] = set()
    for number, (entry, hit) in enumerate(zip(file.layers, hits(file, sites, inputs), strict=True), 1):
        for at in hit.nodes if entry.format else ():
            host.pop(at, None)
            device.discard(at)
            if entry.format == "float":
                rule = f"The recipe '{file.name}' keeps it on the host (layer entry {number})."
                host[at] = Reason(rule, "", "Nothing to do, or take that entry out of the recipe.")
            else:
                device.add(at)
    return Wishes(host, frozenset(device))


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

    @property
    def tensors(self) -> tuple[str, ...]:
        return (*self.inputs, *filter(None, self.maker))


def _hit(entry: Entry, number: int, names: _Names, faults: list[str]) -> Hit:
    """What one entry means; what is wrong with it goes to `faults`."""
    match, before = entry.match, len(faults)
    chosen: list[Collection[int]] = []
    entered: list[str] = []
    if match.op:
        chosen.append(_of_ops(match.op, names, number, faults))
    if match.name:
        wanted = {name: _like(name, (*names.nodes, *names.inputs)) for name in match.name}
        missing = [name for name, found in wanted.items() if not found]
        known = sorted({*names.nodes, *names.inputs})
        faults += [f"layer entry {number}: no node or tensor is called '{n}'; {nearest(n, known)}" for n in missing]
        called = [name for found in wanted.values() for name in found]
        chosen.append({at for name in called for at in names.nodes.get(name, ())})
        if not (match.op or match.region):
            entered = [name for name in dict.fromkeys(called) if name in names.inputs]
    if match.region:
        chosen.append(_inside(match.region, names, number, faults))
    nodes = sorted(set.intersection(*map(set, chosen))) if chosen else []
    if entry.format == "float":
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
    what = f"no node is of {' and of '.join(parts)}"
    return f"{what}; ops of the model: {', '.join(sorted(names.ops))}" if match.op and len(parts) == 1 else what
