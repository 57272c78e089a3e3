"""A box of a product of two activations -> cycles of the MAC array and of the vector unit, from the target's costs.

Elements hold an output row each (a query); the other operand passes by, one column of b or one key after the other, as
weights do. Heads take turns: a step multiplies with the numbers of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from axtool.ops.boxes import Job
from axtool.target import Array

# Instructions for a score beside its requantization and its exponential: largest so far, difference to it, sum.
SCORE_STEPS = 3
POWER_STEPS = 3  # from a difference to an exponent of 2: product by log2 e, shift, whole part
DIVISION = 32  # a reciprocal for a row of scores, one bit an instruction


@dataclass(frozen=True, slots=True)
class ProductCycles:
    """Busy cycles of the MAC array and of the vector unit, and products by definition."""

    mac: int
    compute: int
    macs: int


def product_cycles(job: Job, array: Array, costs: Mapping[str, float]) -> ProductCycles:
    """The cycles of a box, counted in numbers. A product of fp16 takes several passes of one of int8."""
    tile, a = job.tile, job.attrs
    fp16 = job.op.startswith("fp16_")
    passes, drain = costs["fp16_passes"] if fp16 else 1.0, costs["mac_drain"]
    result = 1 + costs["fp16_convert"] if fp16 else costs["requantize"]

    def outputs(count: int, depth: int) -> float:
        """Cycles of so many outputs of an element, each a sum of `depth` products."""
        steps = ceil(depth / array.input_channels) * array.cycles_per_step * passes
        return ceil(count / array.output_channels) * (steps + drain)

    fills = tile.h * ceil(tile.w / (array.rows * array.columns))
    depth = job.in_dims[2]
    if job.op.endswith("matmul"):
        compute = ceil(fills * tile.n * result)
        return ProductCycles(ceil(fills * outputs(tile.n, depth)), compute, prod((tile.h, tile.w, tile.n, depth)))
    made, depth, keys = job.out_dims[2] // a["heads"], depth // a["heads"], a["keys"]
    heads = ceil(tile.n / made)
    score = SCORE_STEPS + (_fp16_score if fp16 else _int8_score)(a, costs)
    mac = fills * heads * (outputs(keys, depth) + outputs(made, keys))
    compute = fills * heads * (keys * score + DIVISION + made * result)
    return ProductCycles(ceil(mac), ceil(compute), tile.w * heads * keys * (depth + made))


def _int8_score(a: Mapping[str, Any], costs: Mapping[str, float]) -> float:
    """Requantized, the mask added, its exponential looked up or iterated."""
    exponential = costs["lut"] if a["form"] else costs["exp"]
    return costs["requantize"] + exponential + (costs["add"] if a["mask"] else 0)


def _fp16_score(a: Mapping[str, Any], costs: Mapping[str, float]) -> float:
    """To fx32, the mask with it, its exponential between the points of a table or iterated, to fp16."""
    exponential = POWER_STEPS + (costs["interpolate"] if a["form"] else costs["exp"])
    return costs["fp16_convert"] * 2 + exponential + (1 + costs["fp16_convert"] if a["mask"] else 0)
