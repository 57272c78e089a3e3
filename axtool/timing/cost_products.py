"""A box of a product of two activations -> cycles of the MAC array and of the vector unit, from the target's costs.

Elements hold an output row each (a query); the other operand passes by, one column of b or one key after the other, as
weights do. Heads take turns: a step multiplies with the numbers of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from axtool.ops.boxes import Job
from axtool.target import Array

# Instructions for a score beside its requantization and its exponential: largest so far, difference to it, sum.
SCORE_STEPS = 3
DIVISION = 32  # a reciprocal for a row of scores, one bit an instruction


@dataclass(frozen=True, slots=True)
class ProductCycles:
    """Busy cycles of the MAC array and of the vector unit, and products by definition."""

    mac: int
    compute: int
    macs: int


def product_cycles(job: Job, array: Array, costs: Mapping[str, float], passes: float = 1.0) -> ProductCycles:
    """The cycles of a box, counted in numbers; `passes`: how many times int8 a product takes."""
    tile, a = job.tile, job.attrs
    drain = costs["mac_drain"]

    def outputs(count: int, depth: int) -> float:
        """Cycles of so many outputs of an element, each a sum of `depth` products."""
        steps = ceil(depth / array.input_channels) * array.cycles * passes
        return ceil(count / array.output_channels) * (steps + drain)

    fills = tile.h * ceil(tile.w / (array.rows * array.columns))
    depth = job.in_dims[2]
    if job.op.endswith("matmul"):
        compute = ceil(fills * tile.n * costs["requantize"])
        return ProductCycles(ceil(fills * outputs(tile.n, depth)), compute, prod((tile.h, tile.w, tile.n, depth)))
    made, depth, keys = job.out_dims[2] // a["heads"], depth // a["heads"], a["keys"]
    heads = ceil(tile.n / made)
    exponential = costs["lut"] if a["form"] else costs["exp"]
    score = costs["requantize"] + SCORE_STEPS + exponential + (costs["add"] if a["mask"] else 0)
    mac = fills * heads * (outputs(keys, depth) + outputs(made, keys))
    compute = fills * heads * (keys * score + DIVISION + made * costs["requantize"])
    return ProductCycles(ceil(mac), ceil(compute), tile.w * heads * keys * (depth + made))
