"""Which nodes the device runs, and why the others do not: over `Site`s and their order alone, no graph library.

1. A node that breaks a limit goes to the host.
2. A device piece ends at its last MAC, pooling or resize op. What trails behind goes to the host (box decoding, DFL,
   Softmax, the Reshapes and Concats before them), except activations right behind a device op, the bias of a MatMul,
   residual sums and products of two device tensors, and an ArgMax of scores that the device has made. A model without
   any such op keeps all that fits, but for a Concat that only feeds results: its parts leave the device with scales of
   their own.
3. An op without weights that only the host reads goes to the host where fewer numbers leave the device without it: the
   mean and the difference of a LayerNorm whose input the host reads as well. Nothing is rounded then but that input.
4. A device piece behind host work must hold 1 % of the model's multiply-accumulates, or the crossing is not worth it.
   The same holds for what follows a Softmax: box decoding (DFL) is computed in float32 as a whole.
5. A Softmax whose scores a mask has changed outside of an attention block goes to the host: numbers that stand for
   minus infinity would take the whole range of int8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from axtool.ops import custom
from axtool.ops.costs import macs
from axtool.ops.limits import Reason
from axtool.ops.moves import MOVES
from axtool.types import Site

MAC_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Attention"})
POOL_OPS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean"})
CORE_OPS = MAC_OPS | POOL_OPS | {"Resize", "Upsample"}
# Functions that follow a layer; Sigmoid, Softmax, Tanh, Exp at the end of a graph are read as the output's own.
ACTIVATIONS = frozenset(
    {
        "Relu", "Clip", "LeakyRelu", "PRelu", "Silu", "Swish", "HardSwish", "Gelu", "Mish", "Elu", "Selu", "Celu",
        "Softplus", "ThresholdedRelu",
    }
)  # fmt: skip
# What the device is there for, however little leaves it in front of them, and picking a maximum, which rounds nothing.
STAYING = MAC_OPS | {"Resize", "Upsample", "MaxPool", "GlobalMaxPool", "ReduceMax"}
RESIDUAL = frozenset({"Add", "Sub", "Mul"})
WORTH = 0.01  # of all multiply-accumulates

TAIL = Reason(
    "No MAC, pooling or resize op follows on the device.", "", "Nothing to do: the tail is computed in float32."
)
FEWER = Reason(
    "Only the host reads it, and fewer numbers leave the device without it.",
    "",
    "Nothing to do: it is computed in float32 from what leaves the device anyway.",
)
MASKED = Reason(
    "A Softmax outside of an attention block reads scores that no mask has changed.",
    "",
    "Nothing to do: it is computed in float32. A mask inside of an attention block runs on the device.",
)
SCORES = frozenset({*MAC_OPS, *MOVES, "Mul", "Div"})  # what makes scores, and positions that are added to them
MOST_BIAS = 32.0  # what a constant adds to scores: more than any position bias, less than what hides a key


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes by position: their sites, and for each the positions it reads from and is read by."""

    sites: tuple[Site, ...]
    before: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """`level` of each node: odd is the device, even the host; a node reads its own level and lower ones."""

    levels: tuple[int, ...]
    reasons: tuple[tuple[Reason, ...], ...]  # why the host; empty for device nodes


def place(
    graph: Graph,
    limits: Sequence[tuple[Reason, ...]],
    wanted: Collection[int] = (),
    precise: Collection[int] = (),
) -> Placement:
    """Place every node. `limits` are the broken limits of each site, empty where it fits the device. A piece with one
    of the `wanted` nodes is always worth the crossing. `precise` ones keep what rounding to int8 would lose: they stay
    where they fit, and so does what moves their values on or lies between them and the device.
    """
    reasons = list(limits)
    total = sum(macs(site) for site in graph.sites)
    trimmed = any(_is_core(site) for site in graph.sites)
    device = {at for at, broken in enumerate(limits) if not broken}
    for at in _masked_softmaxes(graph, device - set(precise)):
        reasons[at] = (MASKED,)
        device.discard(at)
    for at, share in _last_softmaxes(graph, device, total, {*wanted, *precise}).items():
        reasons[at] = (_small_behind(share),)
        device.discard(at)
    while True:
        kept = device & set(precise)
        tail = _tail(graph, device, kept) if trimmed else _joins(graph, device) - kept
        device -= tail
        fewer = _fewer(graph, device) - kept if trimmed else set[int]()
        device -= fewer
        levels = _levels(graph, device)
        small = _not_worth(graph, device, levels, total, kept.union(wanted))
        for at in tail | fewer:
            reasons[at] = (TAIL if at in tail else FEWER,)
        for at, share in small.items():
            reasons[at] = (_small(share),)
            device.discard(at)
        if not tail and not fewer and not small:
            return Placement(_sink(graph, device, levels), tuple(reasons))


def _tail(graph: Graph, device: set[int], precise: set[int]) -> set[int]:
    """Device nodes behind the last core op, or precise one, of their piece that do not belong to it."""
    leads: set[int] = set()  # a core op, or on the way to one without leaving the device
    for at in reversed(range(len(graph.sites))):
        core = _is_core(graph.sites[at]) or at in precise
        if at in device and (core or any(after in leads for after in graph.after[at])):
            leads.add(at)
    kept = set(leads)
    for at in sorted(device - leads):
        moves = graph.sites[at].op in MOVES and not precise.isdisjoint(graph.before[at])
        rows = {one for one in graph.before[at] if one in device and _is_rows(graph, one, kept)}
        if moves or _belongs(graph, at, kept | rows):
            kept |= {at, *rows}
            precise = precise | {at} if moves else precise
    return device - kept


def _is_core(site: Site) -> bool:
    """What a device piece may end with: a user asked for a custom op, wherever it stands."""
    return site.op in CORE_OPS or site.domain == custom.DOMAIN


def _joins(graph: Graph, device: set[int]) -> set[int]:
    """Concats that only feed results, and what moves their values there; none where nothing else would be left."""
    last: set[int] = set()  # nothing but joining and moving follows on the device
    for at in reversed(range(len(graph.sites))):
        joins = graph.sites[at].op == "Concat" or graph.sites[at].op in MOVES
        if at in device and joins and all(after in last or after not in device for after in graph.after[at]):
            last.add(at)
    behind: set[int] = set()
    for at in sorted(last):
        if graph.sites[at].op == "Concat" or any(before in behind for before in graph.before[at]):
            behind.add(at)
    return behind if device - last else set()


def _belongs(graph: Graph, at: int, kept: set[int]) -> bool:
    """An activation right behind a kept computation, its bias, a sum or product of two kept tensors, the labels that
    are made of kept scores.
    """
    site = graph.sites[at]
    before = graph.before[at]
    if site.op == "ArgMax":  # only labels leave the device
        return all(one in kept for one in before)
    if site.op in ACTIVATIONS:
        computed = CORE_OPS | RESIDUAL | ACTIVATIONS
        return any(one in kept and graph.sites[one].op in computed for one in before)
    runtime = [name for name in site.inputs if name and name not in site.constants]
    made = {name for one in before if one in kept for name in graph.sites[one].outputs}
    sums = site.op in RESIDUAL and len(runtime) == 2 and all(name in made for name in runtime)
    return sums or _is_bias(graph, at, kept)


def _is_rows(graph: Graph, at: int, kept: set[int]) -> bool:
    """Whether a node makes tokens [1, L, C] of the rows [L, C] of a Gemm: a name for the same numbers."""
    site = graph.sites[at]
    shapes = [site.shapes.get(name, ()) for name in (site.inputs[0], site.outputs[0])]
    made = [one for one in graph.before[at] if one in kept and graph.sites[one].op == "Gemm"]
    return site.op == "Reshape" and bool(made) and shapes[1] == (1, *shapes[0]) and len(shapes[0]) == 2


def _is_bias(graph: Graph, at: int, kept: set[int]) -> bool:
    """Whether a node adds one constant to each channel (..., c) of a MatMul that only it reads: the bias of a layer."""
    site = graph.sites[at]
    if site.op != "Add" or len(site.constants) != 1 or len(graph.before[at]) != 1:
        return False
    (layer,), (vector,) = graph.before[at], site.constants.values()
    made = graph.sites[layer]
    alone = graph.after[layer] == (at,) and "" not in made.readers.get(made.outputs[0], ())
    channels = site.shapes[site.outputs[0]][-1:]
    return layer in kept and made.op == "MatMul" and alone and vector.shape[-1:] == channels == (vector.size,)


def _fewer(graph: Graph, device: set[int]) -> set[int]:
    """Device nodes without weights, read by the host alone, that take more numbers to the host than they save."""
    left = set(device)
    size = {name: prod(shape) for site in graph.sites for name, shape in site.shapes.items()}
    leaving = {name for at in left for name in _crossing(graph, at, left)}
    for at in reversed(range(len(graph.sites))):
        site = graph.sites[at]
        staying = site.op in STAYING or site.domain == custom.DOMAIN
        if at not in left or staying or any(after in left for after in graph.after[at]):
            continue
        made = {name for one in graph.before[at] if one in left for name in graph.sites[one].outputs}
        new = {name for name in site.inputs if name in made} - leaving
        old = leaving.intersection(site.outputs)
        if made and old and sum(size[name] for name in new) < sum(size[name] for name in old):
            left.discard(at)
            leaving = (leaving - old) | new
    return device - left


def _crossing(graph: Graph, at: int, device: set[int]) -> Iterator[str]:
    """The outputs of a device node that the host, or nobody, reads."""
    readers: dict[str, list[int]] = {name: [] for name in graph.sites[at].outputs if name}
    for after in graph.after[at]:
        for name in graph.sites[after].inputs:
            if name in readers:
                readers[name].append(after)
    return (name for name, found in readers.items() if not found or any(one not in device for one in found))


def _levels(graph: Graph, device: set[int]) -> list[int]:
    """The earliest level of each node."""
    levels = [0] * len(graph.sites)
    for at in range(len(graph.sites)):
        lowest = max((levels[one] for one in graph.before[at]), default=0)
        levels[at] = lowest + (lowest % 2 != (1 if at in device else 0))
    return levels


def _not_worth(graph: Graph, device: set[int], levels: list[int], total: int, wanted: set[int]) -> dict[int, float]:
    """Device nodes whose piece holds too few MACs to go to the device for, with the share that it holds."""
    small: dict[int, float] = {}
    if not device:
        return small
    share = {at: macs(graph.sites[at]) / total if total else 0.0 for at in device}
    for piece in _pieces(graph, device, levels):
        held = sum(share[at] for at in piece)
        if levels[piece[0]] > 1 and held < WORTH and wanted.isdisjoint(piece):
            small |= dict.fromkeys(piece, held)
    first = [at for at in device if levels[at] == 1]
    held = sum(share[at] for at in first)
    if total and held < WORTH and held < max(share.values()) and wanted.isdisjoint(first):
        small |= dict.fromkeys(first, held)
    return small


def _pieces(graph: Graph, device: set[int], levels: list[int]) -> list[list[int]]:
    """Device nodes of one level that hang together."""
    parent: dict[int, int] = {}  # a forest: the root of a node names its piece

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = at = parent[parent[at]]
        return at

    for at in sorted(device):
        parent[at] = at
        for one in graph.before[at]:
            if one in parent and levels[one] == levels[at]:
                parent[root(one)] = at
    pieces: dict[int, list[int]] = {}
    for at in sorted(device):
        pieces.setdefault(root(at), []).append(at)
    return list(pieces.values())


def _small(share: float) -> Reason:
    return Reason(
        f"A device piece behind host work holds at least {WORTH:.0%} of the multiply-accumulates.",
        f"this one holds {share:.2%}",
        "Move the host op before it to the end of the graph, or replace it.",
    )


def _last_softmaxes(graph: Graph, device: set[int], total: int, wanted: set[int]) -> dict[int, float]:
    """Softmaxes with too few MACs behind them to stay on the device for, with the share that they have."""
    found: dict[int, float] = {}
    for at in sorted(device - wanted):
        if graph.sites[at].op != "Softmax" or not total:
            continue
        behind: set[int] = set()
        waiting = [at]
        while waiting:
            new = set(graph.after[waiting.pop()]) - behind
            behind |= new
            waiting += new
        share = sum(macs(graph.sites[one]) for one in behind) / total
        if 0 < share < WORTH and behind.isdisjoint(wanted):
            found[at] = share
    return found


def _masked_softmaxes(graph: Graph, device: set[int]) -> list[int]:
    """Softmaxes right behind what may be a mask: a choice, or a sum with a large constant or with what no MAC made."""
    return [
        at
        for at in sorted(device)
        if graph.sites[at].op == "Softmax" and any(_may_mask(graph, one) for one in graph.before[at])
    ]


def _may_mask(graph: Graph, at: int) -> bool:
    site = graph.sites[at]
    if site.op not in ("Add", "Sub"):
        return site.op == "Where"
    if any(not np.abs(array).max(initial=0.0) < MOST_BIAS for array in site.constants.values()):
        return True
    made = [name for name in site.inputs if name not in site.constants]
    return len(made) > 1 and not all(site.makers.get(name) in SCORES for name in made)


def _small_behind(share: float) -> Reason:
    return Reason(
        f"What follows a Softmax on the device holds at least {WORTH:.0%} of the multiply-accumulates.",
        f"this has {share:.2%}",
        "Nothing to do: the tail is computed in float32.",
    )


def _sink(graph: Graph, device: set[int], levels: list[int]) -> tuple[int, ...]:
    """Host nodes as late as their readers allow: nothing is computed, or crosses, before it is needed."""
    last = max((levels[at] for at in device), default=-1) + 1
    sunk = list(levels)
    for at in reversed(range(len(levels))):
        if at not in device:
            sunk[at] = min((sunk[one] - (sunk[one] % 2) for one in graph.after[at]), default=last)
    return tuple(sunk)
