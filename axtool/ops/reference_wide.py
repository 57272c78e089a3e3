"""The `wide_` ops: the formulas of their int8 namesakes on numbers of 16 bits, with sums that are never wrapped.

Boxes come and go as bytes, two byte channels for each number of two bytes, little endian.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from axtool.ops import reference_elementwise as elementwise
from axtool.ops import reference_mac as mac
from axtool.ops import reference_pool as pool
from axtool.ops.arithmetic import LIMITS, interpolate, requantize
from axtool.ops.boxes import Box, Job
from axtool.ops.elements import PREFIX, in_bytes, in_numbers, numbers, out_bytes
from axtool.ops.tables import INTERP_ENTRIES

LUT_ENTRIES = 256
Numbers = Callable[[Job, Sequence[Box]], NDArray[np.int64]]


def conv(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """acc = sum(x * w) + bias in 64 bits, requantized; with act 1 the activation on 16 bits."""
    return _finish(job, *mac.conv_sums(job, reads), reads)


def depthwise(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """As `conv`; channel o reads input channel o // multiplier only."""
    return _finish(job, *mac.depthwise_sums(job, reads), reads)


def lut(job: Job, reads: Sequence[Box]) -> NDArray[np.int64]:
    """int8: table[q + 128]; int16: the table of 1,025 points, linearly between them. Clamped."""
    lo, hi = job.attrs["lo"], job.attrs["hi"]
    x = reads[0].cut(job.tile).astype(np.int64)
    if in_bytes(job.attrs) == 2:
        return interpolate(reads[1].flat(0, INTERP_ENTRIES * 4, np.int32), x, lo, hi)
    table = reads[1].flat(0, LUT_ENTRIES * 2, np.int16)
    return np.clip(table[x + LUT_ENTRIES // 2].astype(np.int64), lo, hi)


OF_NUMBERS: Mapping[str, Numbers] = MappingProxyType(
    {
        "conv": conv,
        "depthwise": depthwise,
        "add": elementwise.sums,
        "mul": elementwise.products,
        "requantize": elementwise.in_other_steps,
        "lut": lut,
        "avg_pool": pool.averages,
    }
)


def compute(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The output box of a `wide_` op as bytes: (h, w, n)."""
    tensors = 2 if "b_bytes" in job.attrs else 1
    boxes = [numbers(box, in_bytes(job.attrs, at)) for at, box in enumerate(reads[:tensors])]
    inside = in_numbers(job)
    made = OF_NUMBERS[inside.op](inside, [*boxes, *reads[tensors:]])
    return np.ascontiguousarray(made.astype("<i2" if out_bytes(job.attrs) == 2 else np.int8)).view(np.int8)


WIDE = MappingProxyType({PREFIX + name: compute for name in OF_NUMBERS})


def _finish(job: Job, sums: NDArray[np.int64], params: NDArray[np.int64], reads: Sequence[Box]) -> NDArray[np.int64]:
    a = job.attrs
    bias, m, f = params[:3]
    if a["act"] == 0:
        return requantize(sums + bias, m, f, a["out_zp"], a["lo"], a["hi"])
    v = requantize(sums + bias, m, f, 0, *LIMITS["int16"])
    return interpolate(reads[3].flat(0, INTERP_ENTRIES * 2, np.int16), v, a["lo"], a["hi"])
