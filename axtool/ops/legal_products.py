"""What the row of a product of two activations must satisfy: sums that their accumulators hold, sizes that agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from axtool.ops.boxes import Dims
from axtool.ops.elements import in_bytes, out_bytes

MOST_DEPTH = 2**15  # of a sum of products of two activations: it stays within int32
MOST_KEYS = 2**18  # of a sum of exponentials with 12 fraction bits: within int32
MOST_OPERAND = 2**28  # numbers
MOST_BITS = 31  # fraction bits of an fx32


def product_faults(op: str, in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    """Reasons why no engine could run it; dims in numbers."""
    if "out_bytes" in a:
        yield from _fp16(a)
    yield from (_matmul if op.endswith("matmul") else _attention)(in_dims, out_dims, a)


def _fp16(a: Mapping[str, Any]) -> Iterator[str]:
    if {in_bytes(a), in_bytes(a, 1)} != {2}:
        yield "operands are not of two bytes"
    if out_bytes(a) not in (2, 4):
        yield f"out_bytes {out_bytes(a)} is not 2 or 4"
    for name, least in (("f", -MOST_BITS), ("f_s", 0)):
        if not least <= a.get(name, 0) <= MOST_BITS:
            yield f"{name} {a[name]} is not {least}..{MOST_BITS} fraction bits"


def _matmul(in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    (h, m, k), (bh, *sides) = in_dims, a["b"]
    columns = out_dims[2]
    if (h, m) != out_dims[:2] or tuple(sides) != ((columns, k) if a["trans_b"] else (k, columns)):
        yield f"{in_dims} and {tuple(a['b'])} do not make {out_dims}"
    if bh not in (1, h):
        yield f"{bh} matrices b for {h} matrices a"
    if k > MOST_DEPTH:
        yield f"{k} products in a sum, want at most 2^15"
    if k * columns > MOST_OPERAND:
        yield "a matrix b of more than 2^28 numbers"


def _attention(in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    if in_dims[:2] != out_dims[:2]:
        yield f"{in_dims} queries make {out_dims}"
    heads, keys, given, made = a["heads"], a["keys"], in_dims[2], out_dims[2]
    if in_dims[0] != 1:
        yield f"queries in {in_dims[0]} rows, want 1"
    if heads < 1 or given % heads or made % heads:
        yield f"{given} and {made} channels do not divide into {heads} heads"
        return
    if given // heads > MOST_DEPTH:
        yield f"{given // heads} products in a sum, want at most 2^15"
    if not 1 <= keys <= MOST_KEYS:
        yield f"{keys} keys, want 1..2^18"
    if keys * max(given, made) > MOST_OPERAND:
        yield "keys or values of more than 2^28 numbers"
    if not 0 <= a["mask"] <= 2:
        yield f"mask {a['mask']} is not 0..2"
    if not 0 <= a["form"] <= 1:
        yield f"form {a['form']} is not 0..1"
