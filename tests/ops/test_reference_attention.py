"""A fused attention has the bits of its steps: a product, exponentials of whole rows, a product and one reciprocal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from axtool.ops.boxes import Box, Job, whole
from axtool.ops.fixed_point import from_fx
from axtool.ops.reference import compute
from axtool.ops.reference_fp16_products import bits_of
from tests.ops.cases import Case, random_case, whole_box

SEEDS = range(12)


def run(op: str, attrs: dict[str, Any], out: tuple[int, int, int], *operands: NDArray[np.int8]) -> NDArray[np.int8]:
    boxes = [Box(array, whole(array.shape)) for array in operands]
    return compute(Job(op, operands[0].shape, out, attrs, whole(out)), boxes)


def heads(case: Case, number: int) -> list[tuple[NDArray[np.int8], ...]]:
    """q, k and v of each head, numbers of so many bytes."""
    count = case.attrs["heads"]
    return list(zip(*(np.split(x, count, axis=2) for x in case.operands[:3]), strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_int8_attention_is_its_three_steps(seed: int) -> None:
    case = random_case("attention", seed)
    a = case.attrs
    fused = compute(case.job(), [whole_box(x) for x in case.operands])
    parts = [three_steps(case, *head) for head in heads(case, 1)]
    np.testing.assert_array_equal(fused, np.concatenate(parts, axis=2))
    assert fused.shape[2] == a["heads"] * parts[0].shape[2]


def three_steps(case: Case, q: NDArray[np.int8], k: NDArray[np.int8], v: NDArray[np.int8]) -> NDArray[np.int8]:
    a = case.attrs
    fields = {"b": k.shape, "trans_b": 1, "zp_a": a["zp_q"], "zp_b": a["zp_k"], "m": a["m_s"], "f": a["f_s"]}
    score = run("matmul", {**fields, "out_zp": a["zp_s"], "lo": -128, "hi": 127}, (1, q.shape[1], k.shape[1]), q, k)
    rows = score[0].astype(int)
    if a["mask"]:
        mask = (case.operands[3][0].astype(int) - a["zp_m"]) * a["m_m"]
        rows = rows + np.clip((mask + (1 << a["f_m"] >> 1)) >> a["f_m"], -32767, 32767)
    made = np.empty((1, len(rows), v.shape[2]), np.int8)
    for at, row in enumerate(rows):
        e = [int(case.operands[-1][d]) if d < 256 else 0 for d in row.max() - row]
        for c in range(v.shape[2]):
            total = sum(weight * (int(x) - a["zp_v"]) for weight, x in zip(e, v[0, :, c], strict=True))
            context = total * (2**43 // sum(e)) >> 27
            rounded = (Fraction(context * a["m"], 2 ** (a["f"] + 16)) + Fraction(1, 2)).__floor__()
            made[0, at, c] = min(max(rounded + a["out_zp"], -128), 127)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_of_an_fp16_attention_are_the_product_op_of_the_same_format(seed: int) -> None:
    """Of two keys the first has the value 1: the result is its weight, a function of the difference of the scores."""
    rng = np.random.default_rng(seed)
    q, k = (rng.normal(0, 1, (1, n, 16)).astype("<f2") for n in (5, 2))
    v = np.array([[[1.0], [0.0]]], "<f2")
    fields = {"b": (1, 2, 16), "trans_b": 1, "f": 24, "a_bytes": 2, "b_bytes": 2, "out_bytes": 4}
    score = run("fp16_matmul", fields, (1, 5, 8), q.view(np.int8), k.view(np.int8)).view("<i4")
    attrs = {"heads": 1, "keys": 2, "mask": 0, "scale": bits_of(1.0), "f_s": 24, "f": 24, "form": 1}
    fused = run(
        "fp16_attention", {**attrs, "x_bytes": 2, "out_bytes": 4}, (1, 5, 4), *(x.view(np.int8) for x in (q, k, v))
    )
    difference = from_fx(score, 24).astype(np.float64)
    weight = 1 / (1 + np.exp(difference[..., 1:] - difference[..., :1]))
    np.testing.assert_allclose(from_fx(fused.view("<i4"), 24), weight, atol=2**-11)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("out_bytes", [2, 4])
def test_an_fp16_attention_is_the_real_one_within_the_bits_of_fp16(form: int, out_bytes: int) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(0, 1, (1, n, 64)).astype("<f2") for n in (30, 70, 70))
    attrs = {"heads": 2, "keys": 70, "mask": 0, "scale": bits_of(0.25), "f_s": 26, "f": 24, "form": form}
    attrs |= {"x_bytes": 2, "out_bytes": out_bytes}
    made = run("fp16_attention", attrs, (1, 30, 64 * out_bytes), *(x.view(np.int8) for x in (q, k, v)))
    real = made.view("<f2").astype(np.float64) if out_bytes == 2 else from_fx(made.view("<i4"), 24).astype(np.float64)
    for head in (slice(0, 32), slice(32, 64)):
        a, b, c = (x[0, :, head].astype(np.float64) for x in (q, k, v))
        e = np.exp(a @ b.T * 0.25)
        np.testing.assert_allclose(real[0, :, head], e / e.sum(axis=1, keepdims=True) @ c, atol=2e-3)


def test_sums_are_taken_in_ascending_order() -> None:
    """4096, then 2^-13 and again: each is lost, where their sum would not be."""
    a = np.array([[[64.0, *[2.0**-7] * 16]]], "<f2")
    b = np.array([[[64.0], *[[2.0**-6]] * 16]], "<f2")
    fields = {"b": (1, 17, 1), "trans_b": 0, "f": 16, "a_bytes": 2, "b_bytes": 2, "out_bytes": 4}
    made = run("fp16_matmul", fields, (1, 1, 4), a.view(np.int8), b.view(np.int8)).view("<i4")
    assert made.item() == 4096 << 16
    turned = run("fp16_matmul", fields, (1, 1, 4), a[..., ::-1].copy().view(np.int8), b[:, ::-1].copy().view(np.int8))
    assert turned.view("<i4").item() == (4096 << 16) + 16 * 8
