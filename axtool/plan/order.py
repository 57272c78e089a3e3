"""Program -> the same program with its layers in an order that keeps less memory alive, never more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from axtool.ops.encoding import dims_of
from axtool.plan.memory import lower_bound
from axtool.target import Target
from axtool.types import Layer, Program, Slot


def order(program: Program, target: Target) -> Program:
    """The given order, or a greedy one by lifetime where that has the lower peak of live activations."""
    sizes = {name: activation_bytes(program, name, target) for name in activations(program)}
    greedy = tuple(program.layers[i] for i in _greedy(program, sizes))
    if live_peak(program, greedy, sizes) >= live_peak(program, program.layers, sizes):
        return program
    return replace(program, layers=greedy)


def activations(program: Program) -> list[str]:
    """The tensors that a run fills: inputs, then what each layer makes."""
    return [*program.inputs, *(name for layer in program.layers for name in layer.outputs)]


def lifetimes(program: Program, layers: Sequence[Layer]) -> dict[str, tuple[int, int]]:
    """First and last layer of each activation. An input begins at its first reader; one without readers is absent."""
    spans: dict[str, tuple[int, int]] = {}
    inputs = set(program.inputs)
    for at, layer in enumerate(layers):
        for name in layer.inputs:
            if name in spans or name in inputs:
                spans[name] = (spans.get(name, (at, at))[0], at)
        for name in layer.outputs:
            spans[name] = (at, at)
    return spans


def activation_bytes(program: Program, name: str, target: Target) -> int:
    """Bytes of a whole tensor in a memory, channels padded to the target's multiple: exactly its pixels."""
    h, w, c = dims_of(program.tensors[name].shape)
    return h * w * padded(c, target)


def padded(channels: int, target: Target) -> int:
    """Bytes from one pixel to the next."""
    return -(-channels // target.channel_multiple) * target.channel_multiple


def live_peak(program: Program, layers: Sequence[Layer], sizes: Mapping[str, int]) -> int:
    """Bytes of the largest set of activations alive at one time when the layers run in that order."""
    spans = lifetimes(program, layers)
    return lower_bound([Slot(name, "ocm", 0, sizes[name], first, last) for name, (first, last) in spans.items()])


def _greedy(program: Program, sizes: Mapping[str, int]) -> list[int]:
    """Always the ready layer that leaves the fewest bytes alive; ties in the given order."""
    made_by = {name: i for i, layer in enumerate(program.layers) for name in layer.outputs}
    readers: dict[str, int] = {}
    waits: list[set[int]] = []
    wakes: dict[int, list[int]] = {}
    for i, layer in enumerate(program.layers):
        names = set(layer.inputs)
        for name in names:
            readers[name] = readers.get(name, 0) + 1
        waits.append({made_by[name] for name in names if name in made_by})
        for source in waits[-1]:
            wakes.setdefault(source, []).append(i)
    ready = [i for i, sources in enumerate(waits) if not sources]
    done: list[int] = []
    while ready:
        best = min(ready, key=lambda i: (_growth(program.layers[i], readers, sizes), i))
        ready.remove(best)
        done.append(best)
        for name in set(program.layers[best].inputs):
            readers[name] -= 1
        for i in wakes.get(best, ()):
            waits[i].discard(best)
            if not waits[i]:
                ready.append(i)
    return done


def _growth(layer: Layer, readers: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    made = sum(sizes[name] for name in layer.outputs if readers.get(name))
    freed = sum(sizes[name] for name in set(layer.inputs) if name in sizes and readers[name] == 1)
    return made - freed
