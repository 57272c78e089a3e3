"""Exponentials, logarithms and roots in fixed point: how far they are from real ones, and the same tables in C++."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from axtool.ops.exponential import (
    EXP_BITS,
    LOG_BITS,
    POWER_BITS,
    bit_length,
    exp_table,
    halved,
    halvings,
    inverse_root,
    iterated_exp_table,
    log_of,
    log_table,
    negative_power,
    power_table,
    root,
)

INTERPOLATED = 3e-6  # of a value, or in a logarithm: what a straight line between two of 256 points may miss
HALVED = 1.1e-5  # 16 bits of the exponent
ROOTED = 2.0**-15  # 16 bits, truncated
SCALES = (1e-9, 0.001, 0.05, 0.7, 1.7, 30.0, 1e6)

rng = np.random.default_rng(0)
WIDE = np.concatenate([2**44 + np.arange(50), rng.integers(2**44, 2**46, 999), rng.integers(2**44, 2**63 - 1, 999)])


def test_the_exponential_table_is_rounded_half_up_from_the_real_ones() -> None:
    for scale in SCALES:
        real = np.exp(-np.arange(256) * scale) * 2**EXP_BITS
        assert np.abs(exp_table(scale) - real).max() <= 0.5
        assert exp_table(scale)[0] == 2**EXP_BITS


@pytest.mark.parametrize("scale", SCALES)
def test_the_iterated_exponential_is_within_one_step_of_the_exact_table(scale: float) -> None:
    assert np.abs(iterated_exp_table(scale).astype(int) - exp_table(scale)).max() <= 1


def test_halving_multiplies_the_factor_of_each_bit() -> None:
    fraction = np.arange(0, 2**LOG_BITS, 997)
    assert np.abs(halved(fraction) / 2**POWER_BITS - 2.0 ** -(fraction / 2**LOG_BITS)).max() < HALVED
    assert halved(np.array([2 ** (LOG_BITS - 3)]))[0] == halvings()[2]


@pytest.mark.parametrize(("iterated", "budget"), [(False, INTERPOLATED), (True, HALVED)])
def test_negative_powers_are_near_the_real_ones(iterated: bool, budget: float) -> None:
    exponent = np.concatenate([np.arange(40), rng.integers(0, 70 << LOG_BITS, 999), [2**62]])
    real = 2.0 ** -(exponent / 2**LOG_BITS)
    assert np.abs(negative_power(exponent, iterated=iterated) / 2**POWER_BITS - real).max() < budget


def test_logarithms_are_near_the_real_ones_over_all_of_63_bits() -> None:
    v = np.concatenate([[1, 2, 3, 2**62, 2**63 - 1], rng.integers(1, 2**63 - 1, 999)])
    assert np.abs(log_of(v) / 2**LOG_BITS - np.log2(v.astype(float))).max() < INTERPOLATED
    assert log_of(np.array([1, 2, 2**40])).tolist() == [0, 1 << LOG_BITS, 40 << LOG_BITS]


def test_inverse_roots_by_logarithm_are_near_the_real_ones() -> None:
    found = inverse_root(WIDE, 52)
    assert np.abs(found / (2.0**52 / np.sqrt(WIDE.astype(float))) - 1).max() < INTERPOLATED
    assert found.max() == 2**30


def test_restored_roots_never_exceed_the_real_ones() -> None:
    real = np.sqrt(WIDE.astype(float))
    assert (root(WIDE) <= real).all()
    assert (root(WIDE) > real * (1 - ROOTED)).all()


def test_bit_lengths_are_those_of_python() -> None:
    v = [0, 1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 2**53 + 1, 2**62 - 1, 2**63 - 1]
    assert bit_length(np.array(v, np.int64)).tolist() == [n.bit_length() for n in v]


def test_the_native_tables_are_these() -> None:
    header = Path(__file__).parents[2] / "axtool" / "native" / "fixed_math_tables.h"
    arrays = re.findall(r"(\w+)\[\] = \{([^}]*)\}", header.read_text())
    tables = {name: [int(v) for v in re.findall(r"\d+", body)] for name, body in arrays}
    assert tables == {
        "kLogTable": log_table().tolist(),
        "kPowerTable": power_table().tolist(),
        "kHalvings": list(halvings()),
    }
