"""Numbers of two or four bytes in a legal Program: layers count the bytes that tensors have, and move whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from axtool.ops.elements import in_bytes, is_sized, out_bytes
from axtool.ops.legal import IN_WORDS
from axtool.ops.moves import COPIES, GATHERS
from axtool.types import Layer, Program

# What moves the bytes of pixels as they are. Of the others only some attributes leave numbers whole.
MOVES = (*COPIES, *GATHERS)


def verify_numbers(program: Program, layer: Layer, boxed: Sequence[str]) -> None:
    """Raises ValueError for a layer that takes numbers for larger or smaller ones. `boxed`: operands that are tensors.

    The row itself is known to be legal.
    """
    where = f"layer '{layer.name}' ({layer.op})"
    if is_sized(layer.attrs):
        for at, name in enumerate(boxed):
            _agree(where, name, program.tensors[name].number_bytes, in_bytes(layer.attrs, at))
        out = layer.outputs[0]
        _agree(where, out, program.tensors[out].number_bytes, out_bytes(layer.attrs))
        return
    sizes = {program.tensors[name].number_bytes for name in (*boxed, *layer.outputs)}
    if sizes == {1}:
        return
    fault = "it does not take them" if layer.op not in MOVES or len(sizes) > 1 else _torn(layer, max(sizes))
    if fault:
        raise ValueError(f"{where} has numbers of {IN_WORDS[max(sizes)]} bytes: {fault}")


def _agree(where: str, name: str, has: int, counted: int) -> None:
    if has != counted:
        raise ValueError(f"{where} counts {counted} bytes a number in '{name}', which has {has}")


def _torn(layer: Layer, size: int) -> str:
    """How a move would tear the bytes of a number of `size` bytes apart, or ""."""
    a = layer.attrs
    match layer.op:
        case "concat":
            torn = any(a["parts"][2::4])  # a multiplier: it would rescale bytes
        case "slice":
            torn = a["start"][2] % size or a["step"][2] != 1
        case "pad":
            torn = a["before"][2] % size or (a["value"] if a["mode"] == 0 else a["before"][2])
        case "transpose":
            torn = a["perm"][2] != 2
        case "depth_to_space":
            torn = a["mode"] == 1
        case _:
            torn = False
    return "it tears them apart" if torn else ""
