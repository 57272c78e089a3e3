"""MatMulNBits becomes a MatMul with the weights that onnxruntime takes it to have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.graph.passes.import_nbits import unpacked
from tests.graph.pass_models import build, cleaned, noise, ops, run

K, N = 80, 10
RNG = np.random.default_rng(3)


def packed(bits: int, block: int) -> tuple[Any, Any]:
    blocks = -(-K // block)
    values = RNG.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8)
    return values, (RNG.random(N * blocks) * 0.1 + 0.02).astype(np.float32)


def model(bits: int, block: int, more: str = "", **constants: Any) -> Any:
    values, scale = packed(bits, block)
    op = f"com.microsoft.MatMulNBits<K = {K}, N = {N}, bits = {bits}, block_size = {block}>"
    shape = f"float[2, {N}] y"
    body = f"y = {op}(x, b, s{more})"
    return build(
        body, f"float[2, {K}] x", shape, opset=21, extra=', "com.microsoft": 1', b=values, s=scale, **constants
    )


@pytest.mark.parametrize(("bits", "block"), [(4, 32), (4, 16), (8, 32), (2, 16)])
def test_numbers_of_any_width_are_those_of_onnxruntime(bits: int, block: int) -> None:
    blocks = -(-K // block)
    zero = RNG.integers(0, 256, (N, -(-blocks * bits // 8))).astype(np.uint8)
    for source in (model(bits, block), model(bits, block, ", z", z=zero)):
        x = noise(2, K)
        before = run(source, x=x)[0]
        result = cleaned(source).model
        assert ops(result) == ["MatMul"]
        np.testing.assert_allclose(run(result, x=x)[0], before, rtol=1e-4, atol=1e-4)


def test_a_bias_is_added() -> None:
    source = model(4, 16, ", z, , c", z=RNG.random((N, 5)).astype(np.float32) * 15, c=noise(N))
    x = noise(2, K)
    before = run(source, x=x)[0]
    result = cleaned(source).model
    assert ops(result) == ["Gemm"]
    np.testing.assert_allclose(run(result, x=x)[0], before, rtol=1e-4, atol=1e-4)


def test_groups_name_the_block_of_each_row() -> None:
    values, scale = packed(8, 16)
    order = RNG.permutation(K) // 16
    weights = unpacked(values, scale, None, order.astype(np.int32), K, N, 16, bits=8)
    wanted = (values.reshape(N, K).astype(np.float32) - 128) * scale.reshape(N, 5)[:, order]
    np.testing.assert_array_equal(weights, wanted.T)
