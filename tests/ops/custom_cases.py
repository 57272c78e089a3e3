"""Random layers of custom ops: one that mixes the channels of a pixel, one that looks at all of each input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from axtool.ops import custom

if TYPE_CHECKING:
    from tests.ops.cases import Case, Dice


def _mixed(inputs: Sequence[NDArray[np.int8]], numbers: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Each output channel is a weighted sum of all channels of the pixel in every input, modulo 256."""
    height, width = (max(x.shape[axis] for x in inputs) for axis in (0, 1))
    ahead = [np.broadcast_to(x, (height, width, x.shape[2])) for x in inputs]
    x = np.concatenate(ahead, axis=2).astype(np.int64)
    weights = numbers.view(np.int8).reshape(x.shape[2], -1).astype(np.int64)
    return (x @ weights).astype(np.int8)


def _from_peak(inputs: Sequence[NDArray[np.int8]], numbers: NDArray[np.uint8]) -> NDArray[np.int8]:
    """The first input minus the peaks of all inputs, and a number, modulo 256."""
    peak = sum(int(x.max()) for x in inputs) + int(numbers[0])
    return (inputs[0].astype(np.int64) - peak).astype(np.int8)


MIXED = custom.CustomOp("MixedForTests (x, y, z) => (w) { a = Sum (x, y, z) w = Sin (a) }", _mixed)
FROM_PEAK = custom.CustomOp(
    "PeakForTests (x, y, z) => (w) { a = Sum (x, y, z) w = Cos (a) }", _from_peak, reads="whole"
)


def custom_case(d: Dice) -> Case:
    """One to three inputs, some of one row or column, and numbers."""
    from tests.ops.cases import CHANNELS, Case

    for op in (MIXED, FROM_PEAK):
        custom.add(op)
    h, w, c = d.dims()
    shapes = [(h, w, c)]
    more = range(d.between(0, custom.MOST_INPUTS - 1))
    shapes += [(d.pick((1, h)), d.pick((1, w)), d.pick(CHANNELS)) for _ in more]
    op = d.pick((MIXED, FROM_PEAK))
    out = d.pick(CHANNELS) if op is MIXED else c
    numbers = d.array(sum(shape[2] for shape in shapes) * out if op is MIXED else 1)
    dims = tuple(n for shape in shapes for n in shape)
    attrs = {"id": op.id, "whole": int(op is FROM_PEAK), "count": numbers.size, "boxes": dims}
    return Case("custom", (h, w, c), (h, w, out), attrs, (*(d.array(*shape) for shape in shapes), numbers))
