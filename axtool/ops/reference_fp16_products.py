"""fp16_matmul and fp16_attention: products of two activations of fp16, summed in float32.

Products of fp16 are exact in float32; sums begin at 0 and take one product after the other, in ascending order. Results
are fx32, half to even and saturating, or fp16. An attention is the steps of its parts, head by head:

1. scores: q times the transposed k, times the scale, as fx32 with `f_s` fraction bits, to which a mask is added.
2. exponentials: 2^-(difference to the largest of the row * log2 e) with 30 fraction bits, then fp16.
3. context: the exponentials times v, times one reciprocal of their sum. That sum is exact, rounded to float32 once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job
from axtool.ops.elements import REALS, in_numbers, numbers, out_bytes, shrunk
from axtool.ops.exponential import LOG_BITS, POWER_BITS, negative_power
from axtool.ops.fixed_point import from_fx, to_fx
from axtool.ops.reference_attention import cut_heads
from axtool.ops.regions import needed, tensor_reads

LOG2_E_BITS = 26
LOG2_E = 96817625  # log2 e with these fraction bits, rounded
UNIT_BITS = 24  # every fp16 up to 1 is a multiple of 2^-24

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def matmul(job: Job, left: Floats, right: Floats) -> Floats:
    """sum over k of a * b."""
    return products(left, right, transposed=job.attrs["trans_b"])


def products(left: Floats, right: Floats, *, transposed: int) -> Floats:
    """left (h, m, k) times right (h or 1, k, n), or (h or 1, n, k) transposed: a float32 addition for each k."""
    turned = right.swapaxes(1, 2) if transposed else right
    sums = np.zeros((*left.shape[:2], turned.shape[2]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(left.shape[2]):
            sums += left[:, :, k, None] * turned[:, k, None, :]
    return sums


def attention(job: Job, q: Floats, k: Floats, v: Floats, mask: Floats | None = None) -> Floats:
    """The heads of a box, each through the three steps."""
    a = job.attrs
    with np.errstate(invalid="ignore"):
        addend = None if mask is None else to_fx(mask, a["f_s"]).astype(np.int64)

    def of_head(q: Floats, k: Floats, v: Floats) -> Floats:
        return contexts(exponentials(scores(q, k, a, addend), a["f_s"], a["form"]), v)

    return cut_heads(job, q, k, v, of_head)


def scores(q: Floats, k: Floats, a: Mapping[str, Any], mask: Ints | None = None) -> Ints:
    """fx32 scores (1, l, keys) with f_s fraction bits, the mask added."""
    with np.errstate(all="ignore"):
        scaled = products(q, k, transposed=1) * float_of(a["scale"])
    found = to_fx(scaled, a["f_s"]).astype(np.int64)
    return found if mask is None else found + mask


def exponentials(score: Ints, f_s: int, form: int) -> NDArray[np.float16]:
    """exp(score - largest of its row): fx32 of 30 fraction bits, narrowed to fp16."""
    below = score.max(axis=2, keepdims=True) - score
    exponent = below * LOG2_E >> LOG2_E_BITS - LOG_BITS + f_s
    return from_fx(negative_power(exponent, iterated=not form), POWER_BITS).astype(np.float16)


def contexts(e: NDArray[np.float16], v: Floats) -> Floats:
    """sum(e * v) / sum(e)."""
    units = np.ldexp(e.astype(np.float64), UNIT_BITS).astype(np.int64).sum(axis=2, keepdims=True)
    reciprocal = np.float32(1) / np.ldexp(units.astype(np.float32), -UNIT_BITS)
    with np.errstate(all="ignore"):
        context: Floats = products(e.astype(np.float32), v, transposed=0) * reciprocal
    return context


def float_of(bits: int) -> np.float32:
    """The float32 of a field that holds its bits as an int32."""
    return np.int32(bits).view(np.float32)


def bits_of(value: float) -> int:
    """A float32 as a field: its bits as an int32."""
    return int(np.float32(value).view(np.int32))


OF_FLOATS: Mapping[str, Callable[..., Floats]] = MappingProxyType({"fp16_matmul": matmul, "fp16_attention": attention})


def compute(job: Job, reads: Sequence[Box]) -> NDArray[np.int8]:
    """The output box as bytes: fx32 of `f` fraction bits where its numbers have four, else fp16."""
    operands = [
        numbers(box, 2, REALS).cut(shrunk(needed(job, read), 2)).astype(np.float32)
        for read, box in enumerate(reads[: tensor_reads(job.op, job.attrs)])
    ]
    made = OF_FLOATS[job.op](in_numbers(job), *operands)
    stored: NDArray[Any] = to_fx(made, job.attrs["f"]).astype("<i4") if out_bytes(job.attrs) == 4 else halves(made)
    return np.ascontiguousarray(stored).view(np.int8)


FP16_PRODUCTS = MappingProxyType(dict.fromkeys(OF_FLOATS, compute))


def halves(x: Floats) -> NDArray[np.float16]:
    """float32 -> fp16: half to even, beyond 65504 infinite; every NaN is the same one."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = x.astype("<f2")
    made[np.isnan(x)] = np.float16(np.nan)
    return made
