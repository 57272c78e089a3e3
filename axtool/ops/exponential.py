"""Exponentials, logarithms and roots in fixed point: integers in, integers out, by tables made at compile time.

The one place where they are evaluated. The tables are worked out in decimal arithmetic, the same on every machine;
`axtool/native/fixed_math.h` has the same functions, bit for bit. Logarithms have `LOG_BITS` fraction bits, mantissas
of powers `POWER_BITS`. Between the entries of a table values are interpolated linearly: 3e-6 of the value at most.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import cache
from math import isqrt, log2

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp

LOG_BITS = 24  # fraction bits of a logarithm to base 2
POWER_BITS = 30  # fraction bits of a power's mantissa, which is in [1, 2]
SEGMENT_BITS = 8  # a table has 2^8 segments
SEGMENTS = 1 << SEGMENT_BITS
EXP_BITS = 12  # fraction bits of the exponentials of a softmax on int8
HALVINGS = 16  # steps of the iterative exponential: bits of the fraction of its exponent
ROOT_BITS = 16  # bits of a restoring root, one an iteration

Ints = NDArray[np.int64]


def exp_table(scale: float) -> NDArray[np.int16]:
    """Entry d is floor(exp(-d * scale) * 2^12 + 1/2): of the difference of a number of int8 to the row's maximum.

    (256,); 4096 at d = 0.
    """
    return np.asarray(np.floor(np.exp(-np.arange(256) * float(scale)) * 2**EXP_BITS + 0.5), np.int16)


def iterated_exp_table(scale: float) -> NDArray[np.int16]:
    """What `halved` gives for each difference: the exponential of a device without a table. (256,)."""
    m, f = qfp(float(scale) * log2(np.e))
    exponent = np.arange(256, dtype=np.int64) * m >> (f - LOG_BITS) if f >= LOG_BITS else _left(m, LOG_BITS - f)
    shift = np.minimum((POWER_BITS - EXP_BITS) + (exponent >> LOG_BITS), 62)
    return np.asarray((halved(exponent & (2**LOG_BITS - 1)) + (np.int64(1) << (shift - 1))) >> shift, np.int16)


def halved(fraction: Ints) -> Ints:
    """2^-fraction of fractions of `LOG_BITS` in [0, 1), with `POWER_BITS`: a product for each of its first 16 bits."""
    power = np.full(fraction.shape, 1 << POWER_BITS, np.int64)
    for step, factor in enumerate(halvings(), 1):
        bit = fraction >> (LOG_BITS - step) & 1
        power = np.where(bit > 0, power * factor >> POWER_BITS, power)
    return power


def negative_power(exponent: Ints, *, iterated: bool = False) -> Ints:
    """2^-exponent of exponents of `LOG_BITS` from 0 on, with `POWER_BITS`, floored; 0 from 2^-62 on."""
    if iterated:
        shift = np.minimum(exponent >> LOG_BITS, 62)
        return np.asarray(halved(exponent & (2**LOG_BITS - 1)) >> shift)
    mantissa, power = power_of_two(-exponent)
    return np.asarray(mantissa >> np.minimum(-power, 62))


def power_of_two(exponent: Ints) -> tuple[Ints, Ints]:
    """2^exponent of an exponent of `LOG_BITS`: (mantissa of `POWER_BITS`, whole exponent), mantissa in [1, 2]."""
    table = power_table()
    fraction, rest_bits = exponent & (2**LOG_BITS - 1), LOG_BITS - SEGMENT_BITS
    index, rest = fraction >> rest_bits, fraction & (2**rest_bits - 1)
    here = table[index]
    return here + ((table[index + 1] - here) * rest >> rest_bits), exponent >> LOG_BITS


def log_of(v: Ints) -> Ints:
    """log2 of integers in [1, 2^63), with `LOG_BITS`."""
    table = log_table()
    top = bit_length(v) - 1
    fraction = (v << (62 - top)) - (np.int64(1) << 62)  # of 62 bits
    index, rest = fraction >> (62 - SEGMENT_BITS), fraction >> (38 - SEGMENT_BITS) & (2**24 - 1)
    here = table[index]
    return np.asarray((top << LOG_BITS) + here + ((table[index + 1] - here) * rest >> 24))


def inverse_root(v: Ints, bits: int) -> Ints:
    """2^bits / sqrt(v) for v in [2^44, 2^63) and bits of at most 52: exp(-ln(v) / 2) by both tables."""
    mantissa, power = power_of_two((np.int64(bits) << LOG_BITS) - (log_of(v) >> 1))
    shift = POWER_BITS - power
    return np.asarray((mantissa + (np.int64(1) << shift >> 1)) >> shift)


def root(v: Ints) -> Ints:
    """The root of v in [2^32, 2^63): 16 bits of it, as a restoring root of 16 iterations finds them, and zeros."""
    half = (bit_length(v) - 31) // 2
    return np.floor(np.sqrt((v >> 2 * half).astype(np.float64))).astype(np.int64) << half  # exact below 2^52


def bit_length(v: Ints) -> Ints:
    """0 for 0, else floor(log2 v) + 1; v below 2^63."""
    high, low = v >> 32, v & (2**32 - 1)
    return np.where(high > 0, 32 + np.frexp(high.astype(np.float64))[1], np.frexp(low.astype(np.float64))[1]).astype(
        np.int64
    )


@cache
def log_table() -> Ints:
    """log2(1 + i / 256), with `LOG_BITS`: (257,)."""
    exact = Context(prec=40)
    two = exact.ln(Decimal(2))
    return _rounded([exact.divide(exact.ln(1 + Decimal(i) / SEGMENTS), two) for i in range(SEGMENTS + 1)], LOG_BITS)


@cache
def power_table() -> Ints:
    """2^(i / 256), with `POWER_BITS`: (257,)."""
    exact = Context(prec=40)
    two = exact.ln(Decimal(2))
    return _rounded([exact.exp(exact.multiply(two, Decimal(i) / SEGMENTS)) for i in range(SEGMENTS + 1)], POWER_BITS)


@cache
def halvings() -> tuple[int, ...]:
    """2^-(1/2), 2^-(1/4) ... with `POWER_BITS`, truncated: the factors of the iterative exponential."""
    found, power = [], 1 << 127  # 1/2 with 128 fraction bits
    for _ in range(HALVINGS):
        power = isqrt(power << 128)
        found.append(power >> (128 - POWER_BITS))
    return tuple(found)


def _rounded(values: list[Decimal], bits: int) -> Ints:
    table = np.array([int((value * (1 << bits)).to_integral_value()) for value in values], np.int64)
    table.setflags(write=False)
    return table


def _left(m: int, shift: int) -> Ints:
    """The multiples of a number shifted to the left; what is beyond 62 bits is as small as it gets."""
    return np.array([min(d * m << shift, 2**62) for d in range(256)], np.int64)
