"""A plan and a program with the same layers but other numbers  ->  the plan of that program, without planning anew.

Order, tiles and addresses follow from ops, shapes and windows alone: scales, zero points and multipliers move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from axtool.types import Layer, Plan, Program

NUMBERS = frozenset(
    ("x_zp", "out_zp", "lo", "hi", "zp", "zp_a", "zp_b", "m", "f", "m_a", "f_a", "m_b", "f_b", "value")
)  # fmt: skip


def renumbered(known: Plan, program: Program) -> Plan | None:
    """The plan of `program`, or None where its layers are not those that `known` was made for."""
    old = known.program
    layers = {layer.outputs: layer for layer in program.layers}
    if len(layers) != len(old.layers) or (program.inputs, program.outputs) != (old.inputs, old.outputs):
        return None
    ordered = tuple(layers.get(layer.outputs) for layer in old.layers)
    if not all(new is not None and _same(layer, new) for layer, new in zip(old.layers, ordered, strict=True)):
        return None
    if not _same_tensors(old, program):
        return None
    return replace(known, program=replace(program, layers=tuple(layer for layer in ordered if layer is not None)))


def _same(a: Layer, b: Layer) -> bool:
    return (a.op, a.inputs, a.name) == (b.op, b.inputs, b.name) and _shape_of(a.attrs) == _shape_of(b.attrs)


def _shape_of(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that a plan may depend on; of the parts of a Concat where they lie and whether they are copies."""
    kept = {key: value for key, value in attrs.items() if key not in NUMBERS}
    if "parts" in kept:
        parts = kept["parts"]
        kept["parts"] = [(parts[at], parts[at + 2] == 0) for at in range(0, len(parts), 4)]
    return kept


def _same_tensors(a: Program, b: Program) -> bool:
    shapes = [
        {name: (tensor.shape, tensor.format.kind, tensor.layout) for name, tensor in program.tensors.items()}
        for program in (a, b)
    ]
    arrays = [{n: (array.shape, array.dtype) for n, array in program.constants.items()} for program in (a, b)]
    return shapes[0] == shapes[1] and arrays[0] == arrays[1]
