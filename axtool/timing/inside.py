"""A plan's commands -> the operands that are still in the array when a command wants them.

A command that reads what the command in front of it has just made needs no transfer: the numbers are in the array. That
holds for ops that look at one pixel, and for layers whose commands take turns. What its only reader finds in the array,
pixel by pixel, is not written to on-chip memory either.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from axtool.ops.boxes import Job, contains
from axtool.ops.elements import narrow
from axtool.ops.encoding import dims_of
from axtool.ops.regions import needed, tensor_reads
from axtool.target import Target
from axtool.timing.cost import OUTPUT
from axtool.types import Command, Layer, Plan, Program

# Ops that read of each input the pixel that they write; a LayerNormalization all channels of it.
POINTWISE = (
    "add", "mul", "lut", "requantize", "fx_add", "fx_mul", "fx_requantize", "fx_quantize", "fx_dequantize", "fx_lut",
    "fx_from_fp16", "fp16_from_fx", "layer_norm", "fx_layer_norm",
)  # fmt: skip
LARGE_ARRAY = 256  # elements from which on an output box lies in the array as a whole, each element with a pixel


def operands_inside(plan: Plan, target: Target) -> dict[int, frozenset[int]]:
    """By index of the command, the operands that cross no port: input indexes, OUTPUT; only commands that have any."""
    program, commands = plan.program, plan.commands
    order = [at for at, command in enumerate(commands) if command.kind not in ("load", "store")]
    last = {commands[at].layer: at for at in order}
    readers = _readers(program)
    found: dict[int, set[int]] = {}
    for before, at in pairwise(order):
        maker, taker = commands[before], commands[at]
        if maker.layer == taker.layer or not _keeps(maker, target):
            continue
        made, layer = program.layers[maker.layer].outputs[0], program.layers[taker.layer]
        taken = [k for k in _read_indexes(layer, taker) if layer.inputs[k] == made]
        pointwise = narrow(layer.op) in POINTWISE
        if not taken or not (pointwise or last[maker.layer] > at):
            continue
        if all(contains(maker.tile, needed(_job(program, layer, taker), k)) for k in taken):
            found.setdefault(at, set()).update(taken)
            if pointwise and readers[made] == {taker.layer} and maker.tile == taker.tile:
                found.setdefault(before, set()).add(OUTPUT)
    return {at: frozenset(operands) for at, operands in found.items()}


def flows(plan: Plan, inside: Mapping[int, frozenset[int]]) -> list[int]:
    """For each layer the first one of its flow: layers that hand on inside the array are entered as one.

    `inside` is what `operands_inside` found.
    """
    first = list(range(len(plan.program.layers)))
    before = -1
    for at, command in enumerate(plan.commands):
        if command.kind in ("load", "store"):
            continue
        handed = any(index != OUTPUT for index in inside.get(at, ()))
        if handed and before != command.layer and first[command.layer] == command.layer:
            first[command.layer] = first[before]
        before = command.layer
    return first


def _keeps(maker: Command, target: Target) -> bool:
    """Whether the elements of a large array have room for the box; a small array hands it on as it comes."""
    array = target.array
    return array.rows * array.columns < LARGE_ARRAY or maker.tile.n <= target.memory.lrm_bytes_per_pe


def _readers(program: Program) -> dict[str, set[int]]:
    """The layers that read each tensor; -1 stands for whoever takes the outputs of the program."""
    found: dict[str, set[int]] = {name: set() for layer in program.layers for name in layer.outputs}
    for at, layer in enumerate(program.layers):
        for name in layer.inputs:
            if name in found:
                found[name].add(at)
    for name in program.outputs:
        found.setdefault(name, set()).add(-1)
    return found


def _read_indexes(layer: Layer, command: Command) -> tuple[int, ...]:
    """Indexes of the inputs that a command reads through the port."""
    return (command.part,) if layer.op == "concat" else tuple(range(tensor_reads(layer.op, layer.attrs)))


def _job(program: Program, layer: Layer, command: Command) -> Job:
    source = layer.inputs[command.part if layer.op == "concat" else 0]
    dims = dims_of(program.tensors[source].shape)
    return Job(
        layer.op, dims, dims_of(program.tensors[layer.outputs[0]].shape), layer.attrs, command.tile, command.part
    )
