"""A Program  ->  one layer of it as a Program of its own."""

from __future__ import annotations

from axtool.types import Layer, Program


def alone(program: Program, layer: Layer) -> Program:
    """The program of one layer: its tensors, its constants, nothing else."""
    names = dict.fromkeys((*layer.inputs, *layer.outputs))
    constants = {name: program.constants[name] for name in names if name in program.constants}
    inputs = tuple(dict.fromkeys(name for name in layer.inputs if name not in constants))
    return Program({name: program.tensors[name] for name in names}, (layer,), constants, inputs, layer.outputs)
