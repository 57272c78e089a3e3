"""Program -> the same program with its layers in an order that keeps less memory alive, never more, and how large
its tensors are and how long they live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from axtool.ops.encoding import dims_of
from axtool.plan.memory import lower_bound
from axtool.plan.order_search import search
from axtool.target import Target
from axtool.types import Layer, Program, Slot


def order(program: Program, target: Target) -> Program:
    """The given order, or one that a search finds where that has the lower peak of live activations."""
    sizes = {name: activation_bytes(program, name, target) for name in activations(program)}
    found = search(program, sizes)
    return program if found is None else replace(program, layers=tuple(program.layers[i] for i in found))


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
    return target.stored_channels(channels)


def live_peak(program: Program, layers: Sequence[Layer], sizes: Mapping[str, int]) -> int:
    """Bytes of the largest set of activations alive at one time when the layers run in that order."""
    spans = lifetimes(program, layers)
    return lower_bound([Slot(name, "ocm", 0, sizes[name], first, last) for name, (first, last) in spans.items()])
