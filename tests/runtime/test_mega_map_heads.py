"""Kernels of map heads: the values of the plain arithmetic, the bits of the reference, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega
from axtool.runtime.mega import byte_functions
from tests.runtime.tail_case import dequantized, nhwc_info, random_buffers

CENTER = [(1, 1, 12, 20), (1, 2, 12, 20), (1, 2, 12, 20), (1, 10, 12, 20)]
CASES: list[tuple[Any, list[tuple[int, ...]]]] = [
    (mega.DbnetPostamble, [(1, 1, 37, 53)]),
    (mega.DbnetPostamble, [(1, 1, 200, 320)]),
    (mega.CenterFacePostamble, CENTER),
]


def outputs_of(kernel: Any, infos: list[TensorInfo], buffers: Any) -> list[np.ndarray]:
    made = kernel(infos, 320, 200)(*buffers)
    return list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(("kernel", "shapes"), CASES)
def test_the_first_map_is_a_chance_and_the_others_stay(kernel: Any, shapes: Any, padded: bool) -> None:
    rng = np.random.default_rng(4)
    infos = [nhwc_info(shape, rng, padded=padded) for shape in shapes]
    buffers = random_buffers(infos, rng)
    outputs = outputs_of(kernel, infos, buffers)
    real = [dequantized(b, i, s) for b, i, s in zip(buffers, infos, shapes, strict=True)]
    np.testing.assert_allclose(outputs[0], 1 / (1 + np.exp(-real[0])), rtol=1e-5, atol=1e-6)
    for got, wanted in zip(outputs[1:], real[1:], strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("kernel", "shapes"), CASES)
def test_without_the_native_module_the_bits_are_the_same(
    kernel: Any, shapes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    infos = [nhwc_info(shape, rng) for shape in shapes]
    buffers = random_buffers(infos, rng)
    native = [array.copy() for array in outputs_of(kernel, infos, buffers)]
    monkeypatch.setattr(byte_functions, "native_module", lambda: None)
    for got, wanted in zip(outputs_of(kernel, infos, buffers), native, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_other_heads_are_refused_by_their_channels() -> None:
    with pytest.raises(
        ValueError, match=r"the one map of DBNet, \(1, h, w, 1\), this model has output 0 \(1, 4, 4, 2\)"
    ):
        mega.DbnetPostamble([TensorInfo((1, 4, 4, 2), scale=0.1)], 32, 32)
    with pytest.raises(ValueError, match="of 1, 2, 2 and 10 channels, got output 0"):
        mega.CenterFacePostamble([TensorInfo((1, 4, 4, 2), scale=0.1)], 32, 32)
