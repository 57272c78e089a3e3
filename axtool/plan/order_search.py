"""The layers of a program and the bytes of its tensors -> an order with a lower peak of live bytes, or None.

All orders grow at once, a layer at a time. Of those with the same layers done only the one with the lowest peak goes
on: what is alive then, and so all that follows, is the same for them. Of the rest a fixed number goes on, lowest peak
and fewest live bytes first, none that reaches the peak of the given order. Few enough layers are searched in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from axtool.plan.memory import align
from axtool.types import Program

WIDTH = 64  # orders that go on from one layer to the next


class _State(NamedTuple):
    """Orders that begin with the same layers, by the best of them. Sorted, the best comes first."""

    peak: int
    live: int
    done: int  # a bit for each layer
    ready: tuple[int, ...]
    last: tuple[object, int]  # the layers in front, as a chain, and the last one


@dataclass(frozen=True)
class _Graph:
    """Layers by what they wait for, keep alive and free. Bits of integers are layers."""

    waits: list[int]  # the makers of what a layer reads
    wakes: list[list[int]]  # the readers of what it makes
    reads: list[list[tuple[int, int, bool]]]  # bytes, readers, and whether the tensor arrives with its first one
    makes: list[tuple[int, int]]  # bytes of all outputs, and of those that somebody reads


def search(program: Program, sizes: Mapping[str, int]) -> list[int] | None:
    """The numbers of the layers in a better order; None where there is none among those that were looked at."""
    graph = _graph(program, sizes)
    given = _peak(graph)
    if given <= max(map(_alone, graph.reads, graph.makes), default=0):
        return None  # one layer alone has this peak: every order does
    first = tuple(i for i, waits in enumerate(graph.waits) if not waits)
    states = [_State(0, 0, 0, first, (None, -1))]
    for _ in program.layers:
        best: dict[int, _State] = {}
        for state in states:
            for layer in state.ready:
                after = _after(graph, state, layer)
                if after.peak < given and (after.done not in best or after[:2] < best[after.done][:2]):
                    best[after.done] = after
        states = sorted(best.values())[:WIDTH]
    return _path(states[0]) if states else None


def _after(graph: _Graph, state: _State, layer: int) -> _State:
    """The state when one more layer has run."""
    done = state.done | 1 << layer
    made, kept = graph.makes[layer]
    arrives = freed = 0
    for size, readers, is_input in graph.reads[layer]:
        arrives += size if is_input and not readers & state.done else 0
        freed += size if not readers & ~done else 0
    woken = tuple(i for i in graph.wakes[layer] if not graph.waits[i] & ~done)
    ready = tuple(i for i in state.ready if i != layer) + woken
    busy = state.live + arrives + made
    live = state.live + arrives + kept - freed
    return _State(max(state.peak, busy), live, done, ready, (state.last, layer))


def _peak(graph: _Graph) -> int:
    """The peak of the given order."""
    state = _State(0, 0, 0, (), (None, -1))
    for layer in range(len(graph.waits)):
        state = _after(graph, state, layer)
    return state.peak


def _alone(reads: list[tuple[int, int, bool]], makes: tuple[int, int]) -> int:
    """Bytes that a layer reads and makes."""
    return sum(size for size, _, _ in reads) + makes[0]


def _path(state: _State) -> list[int]:
    layers: list[int] = []
    chain: object = state.last
    while isinstance(chain, tuple) and chain[1] >= 0:
        layers.append(chain[1])
        chain = chain[0]
    return layers[::-1]


def _graph(program: Program, sizes: Mapping[str, int]) -> _Graph:
    made_by = {name: i for i, layer in enumerate(program.layers) for name in layer.outputs}
    readers: dict[str, int] = {}
    for i, layer in enumerate(program.layers):
        for name in layer.inputs:
            readers[name] = readers.get(name, 0) | 1 << i
    waits, reads, makes = [], [], []
    wakes: list[list[int]] = [[] for _ in program.layers]
    for i, layer in enumerate(program.layers):
        names = [name for name in dict.fromkeys(layer.inputs) if name in sizes]
        sources = {made_by[name] for name in names if name in made_by}
        for source in sorted(sources):
            wakes[source].append(i)
        waits.append(sum(1 << source for source in sources))
        reads.append([(align(sizes[name]), readers[name], name not in made_by) for name in names])
        outs = [(align(sizes[name]), name in readers) for name in layer.outputs]
        makes.append((sum(size for size, _ in outs), sum(size for size, read in outs if read)))
    return _Graph(waits, wakes, reads, makes)
