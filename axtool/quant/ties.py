"""The sites of a device stage  ->  which tensors share one format, and whose range decides it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from axtool.ops.moves import MOVES
from axtool.ops.precise import NOTHING, PRECISE, computes_in, is_bias, moves_whole
from axtool.types import Precision, QFormat, Site

# The device moves or picks values here, it never rescales: the output has the format of the first input.
KEEPING = frozenset({*MOVES, "GlobalMaxPool", "ReduceMax", "Dropout", "Pad"})
# With one operand that has elements these only pass it on.
JOINING = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})
# Their range is known whatever the data: calibration need not look.
NATURAL: Mapping[str, tuple[float, float]] = {"Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0)}
CLAMPS = frozenset({"Relu", "Clip"})


@dataclass(frozen=True)
class Ties:
    """`root` leads from each float tensor to the one whose range decides its format; `why` says why, in words.

    `moved_to`: root -> tensors with given formats, where all that reads the root's tensors moves their values there.
    Such a root needs no range of its own: nothing beyond those formats is ever seen. `precise`: roots that are stored
    in fx32 or fp16.
    """

    root: Mapping[str, str]
    why: Mapping[str, str]
    moved_to: Mapping[str, tuple[str, ...]]
    precise: frozenset[str] = frozenset()


def tie(
    sites: Sequence[Site],
    inputs: Sequence[str],
    outputs: Sequence[str],
    given: Collection[str] = (),
    precision: Mapping[str, Precision] = NOTHING,
) -> Ties:
    """Ties of the float tensors of one stage, of which those in `given` have formats of their own.

    A move's output follows its input. A value that only a Relu or Clip reads follows that one's output: clamping it in
    the coarser of the two formats, or in the producer, gives the same bits. Not so where one of the two is of a
    `precision` that the other has not (by first output of a site and by input): each then has a range of its own.
    """
    readers = _readers(sites)
    parent: dict[str, str] = {}
    why: dict[str, str] = {}
    precise: set[str] = set()  # what is stored in fx32 or fp16
    for name in inputs:
        parent[name], why[name] = name, "input"
        if precision.get(name, "int8") in PRECISE:
            precise.add(name)
    for site in sites:
        computed = computes_in(site, precision, precise)
        if computed in PRECISE:
            precise.update(site.outputs)
        for name in site.outputs:
            if not name or site.dtypes.get(name, "float32") not in ("float32", "float16"):
                continue
            reader = readers[name][0] if len(readers.get(name, ())) == 1 else None
            source = site.inputs[0] if site.op in CLAMPS and site.inputs[0] in given else moved(site)
            if site.inputs and site.inputs[0] in precise and not moves_whole(site):
                source = None  # it takes the values in int8, but for a clamp of fx32
                if computed == "fx32" and site.op in CLAMPS:
                    source = site.inputs[0]
            alike = reader is not None and computes_in(reader, precision, precise) == computed
            if name in given:
                parent[name], why[name] = name, "given"
            elif source is not None:
                parent[name], why[name] = source, f"as the input of {site}"
            elif reader is not None and alike and _follows(reader, computed) and name not in outputs:
                parent[name], why[name] = reader.outputs[0], f"only {reader} reads it"
            else:
                parent[name], why[name] = name, "natural" if site.op in NATURAL else "observed"
    root = {name: _follow(parent, name) for name in parent}
    stored = frozenset(root[name] for name in precise if name in root)
    return Ties(root, why, _moved_to(root, readers, outputs, given), stored)


def _moved_to(
    root: Mapping[str, str], readers: Mapping[str, Sequence[Site]], outputs: Sequence[str], given: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """`Ties.moved_to` of every root without a given format that is seen in given formats only."""
    ends: dict[str, list[str]] = {}
    other = {root[name] for name in outputs if name in root}
    for name, top in root.items():
        for site in readers.get(name, ()):
            leaving = [out for out in site.outputs if out and root.get(out) != top]
            if all(out in given for out in leaving) and (not leaving or moved(site) == name):
                ends.setdefault(top, []).extend(leaving)
            else:
                other.add(top)
    return {top: tuple(dict.fromkeys(ends[top])) for top in ends if ends[top] and top not in other and top not in given}


def moved(site: Site) -> str | None:
    """The input whose values the site moves, and whose format the device gives to its outputs; else None."""
    if site.op in JOINING:
        full = [name for name in site.inputs if name and 0 not in site.shapes.get(name, ())]
        return full[0] if len(full) == 1 and full[0] not in site.constants else None
    moves = site.op in KEEPING or (site.op in ("Resize", "Upsample") and site.attrs.get("mode") == "nearest")
    return site.inputs[0] if moves and site.inputs[0] not in site.constants else None


def given_names(given: Mapping[str, QFormat], sites: Sequence[Site]) -> tuple[str, ...]:
    """What keeps a format that the model brings: weights of int8, tensors of int8 or int16 with one scale."""
    constants = {name for site in sites for name in site.constants}
    return tuple(
        name
        for name, fmt in given.items()
        if fmt.kind == "int8" or (fmt.kind == "int16" and len(fmt.scale) == 1 and name not in constants)
    )


def observed_names(
    sites: Sequence[Site],
    inputs: Sequence[str],
    outputs: Sequence[str],
    given: Collection[str] = (),
    precision: Mapping[str, Precision] = NOTHING,
) -> tuple[str, ...]:
    """The tensors of a stage whose range calibration has to see, in graph order.

    Those in `given` have a format, and what only moves on to them needs none.
    """
    ties = tie(sites, inputs, outputs, given, precision)
    roots = set(ties.root.values()) - set(given) - set(ties.moved_to)
    dtypes = {name: dtype for site in sites for name, dtype in site.dtypes.items()}
    return tuple(
        name
        for name in ties.root
        if name in roots and ties.why[name] != "natural" and dtypes.get(name, "float32") in ("float32", "float16")
    )


def natural_ranges(sites: Sequence[Site]) -> dict[str, tuple[float, float]]:
    """Ranges that hold for any data, by tensor."""
    return {site.outputs[0]: NATURAL[site.op] for site in sites if site.op in NATURAL}


def _readers(sites: Sequence[Site]) -> dict[str, list[Site]]:
    readers: dict[str, list[Site]] = {}
    for site in sites:
        for name in site.inputs:
            readers.setdefault(name, []).append(site)
    return readers


def _clamps(site: Site) -> bool:
    """Relu, or Clip with constant bounds: the first input is the data."""
    return site.op in CLAMPS and all(name in site.constants for name in site.inputs[1:] if name)


def _follows(reader: Site, computed: Precision) -> bool:
    """Whether a value that only this site reads, both of one precision, has the format of what the site makes."""
    if computed == "fp16":
        return is_bias(reader) or reader.op == "Relu"
    return computed not in PRECISE and _clamps(reader)


def _follow(parent: Mapping[str, str], name: str) -> str:
    # Ends: a move leads back to a value that a move reads, a clamp forward to a value that no move made.
    while parent.get(name, name) != name:
        name = parent[name]
    return name
