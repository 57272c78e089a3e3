"""matmul and attention: the native engine gives the bytes of the reference on any shape, box, mask and CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.ops.boxes import Job
from axtool.ops.encoding import PRODUCTS
from axtool.ops.exponential import exp_table
from axtool.ops.reference_fp16_products import bits_of
from axtool.ops.regions import tensor_reads
from axtool.types import Tile
from tests.native.one_command import EXAMPLES, Memory, same_bytes
from tests.ops.cases import random_case, random_tile

ATTENTION: dict[str, Any] = {
    "zp_q": 3, "zp_k": -5, "zp_s": 1, "zp_m": 127, "zp_v": -128, "out_zp": 4, "m_s": 1 << 22, "f_s": 31,
    "m_m": 1 << 30, "f_m": 20, "m": 1 << 30, "f": 31, "form": 1,
}  # fmt: skip


@pytest.mark.parametrize("op", PRODUCTS)
@EXAMPLES
@given(seed=st.integers(0, 2**32 - 1), whole=st.booleans())
def test_products_have_the_bytes_of_the_reference(op: str, seed: int, whole: bool) -> None:
    case = random_case(op, seed)
    tile = Tile(0, 0, 0, *case.out_dims) if whole else random_tile(case, seed)
    tensors = tensor_reads(op, case.attrs)
    same_bytes(case.job(tile), Memory(seed), dict(enumerate(case.operands[tensors:], tensors)))


@pytest.mark.parametrize(("length", "keys", "heads", "depth", "made", "mask"), [
    (600, 600, 8, 32, 32, 0), (100, 601, 2, 32, 32, 2), (1, 1, 1, 64, 64, 1), (130, 4099, 1, 5, 3, 0),
    (3, 5000, 1, 64, 17, 1), (250, 128, 1, 32, 32, 0),
])  # fmt: skip
def test_long_rows_of_scores_have_the_bytes_of_the_reference(
    length: int, keys: int, heads: int, depth: int, made: int, mask: int
) -> None:
    attrs = ATTENTION | {"heads": heads, "keys": keys, "mask": mask}
    out = (1, length, heads * made)
    job = Job("attention", (1, length, heads * depth), out, attrs, Tile(0, 0, 0, *out))
    same_bytes(job, Memory(keys), {4 if mask else 3: exp_table(0.01)})


@pytest.mark.parametrize("fill", [-128, 127])
def test_the_largest_sums_are_exact(fill: int) -> None:
    """Every exponential is 1 and every value as far from its zero point as it can be."""
    memory = Memory(0)
    memory.fill = np.array([fill], np.int8).view(np.uint8)
    attrs = ATTENTION | {"heads": 1, "keys": 9000, "mask": 0, "zp_v": 127 if fill < 0 else -128, "m": 1, "f": 1}
    job = Job("attention", (1, 3, 8), (1, 3, 16), attrs, Tile(0, 0, 0, 1, 3, 16))
    same_bytes(job, memory, {3: exp_table(0.01)})
    products = {"b": (1, 2**15, 8), "trans_b": 0, "zp_a": 127 if fill < 0 else -128, "zp_b": 127 if fill < 0 else -128}
    products |= {"m": 1 << 20, "f": 31, "out_zp": 0, "lo": -128, "hi": 127}
    memory.used, memory.values = {"ext": 0, "ocm": 0}, []
    same_bytes(Job("matmul", (1, 2, 2**15), (1, 2, 8), products, Tile(0, 0, 0, 1, 2, 8)), memory, {})


@pytest.mark.parametrize(("length", "keys", "heads", "depth", "mask", "out_bytes", "form"), [
    (130, 600, 8, 32, 0, 2, 1), (100, 601, 2, 32, 2, 4, 1), (1, 1, 1, 64, 1, 4, 1), (3, 5000, 1, 64, 1, 4, 0),
    (250, 128, 1, 32, 0, 4, 0),
])  # fmt: skip
def test_long_rows_of_fp16_scores_have_the_bytes_of_the_reference(
    length: int, keys: int, heads: int, depth: int, mask: int, out_bytes: int, form: int
) -> None:
    """Of normal numbers, of all kinds of numbers, and of numbers that are all alike."""
    attrs = {"heads": heads, "keys": keys, "mask": mask, "scale": bits_of(depth**-0.5), "f_s": 24, "f": 20}
    attrs |= {"form": form, "x_bytes": 2, "out_bytes": out_bytes}
    out = (1, length, heads * depth * out_bytes)
    job = Job("fp16_attention", (1, length, heads * depth * 2), out, attrs, Tile(0, 0, 0, *out))
    random = np.random.default_rng(keys)
    for fill in (random.normal(0, 1.5, 9973).astype("<f2"), None, np.array([0.5], "<f2")):
        memory = Memory(keys)
        memory.fill = None if fill is None else fill.view(np.uint8)
        same_bytes(job, memory, {})


@pytest.mark.parametrize("f_s", [0, 13, 31])
def test_scores_of_any_size_have_the_bytes_of_the_reference(f_s: int) -> None:
    """Differences of half a step up to more than 32 bits, infinities and what is no number among them."""
    random = np.random.default_rng(f_s)
    numbers = (random.normal(0, 1, 9973) * 2.0 ** random.integers(-20, 8, 9973)).astype("<f2")
    memory = Memory(f_s)
    memory.fill = numbers.view(np.uint8)
    attrs = {"heads": 2, "keys": 203, "mask": 0, "scale": bits_of(1.0), "f_s": f_s, "f": 16, "form": 1}
    attrs |= {"x_bytes": 2, "out_bytes": 4}
    job = Job("fp16_attention", (1, 90, 64), (1, 90, 128), attrs, Tile(0, 0, 0, 1, 90, 128))
    same_bytes(job, memory, {})
