"""`ClassificationPostamble`, verified as a user verifies a kernel: the unfused arithmetic on the same buffer."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega

# 1000 classes padded out to 1024
INFO = TensorInfo((1, 1, 1, 1024), np.int8, padding=[(0, 0), (0, 0), (0, 0), (0, 24)], scale=0.125, zero_point=-37)


def reference(raw: np.ndarray, info: TensorInfo, num_classes: int) -> np.ndarray:
    """depad, dequantize, reshape, softmax"""
    x = raw[tuple(slice(b, -e if e else None) for b, e in info.padding)]
    x = (x.astype(np.float32) - info.zero_point) * info.scale
    x = x.reshape(1, num_classes)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def test_probabilities_are_those_of_the_plain_arithmetic() -> None:
    raw = np.random.default_rng(0).integers(-128, 128, size=INFO.shape, dtype=np.int8)
    got = mega.ClassificationPostamble([INFO], 224, 224, num_classes=1000)(raw)
    np.testing.assert_allclose(got, reference(raw, INFO, 1000), rtol=1e-5, atol=1e-6)
    assert got.dtype == np.float32
    assert abs(float(got.sum()) - 1) < 1e-5


def test_what_lies_in_the_padding_changes_nothing() -> None:
    raw = np.random.default_rng(1).integers(-128, 128, size=INFO.shape, dtype=np.int8)
    kernel = mega.ClassificationPostamble([INFO], 224, 224, num_classes=1000)
    before = kernel(raw)
    raw[..., 1000:] = 127
    np.testing.assert_array_equal(kernel(raw), before)


def test_another_number_of_classes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(1, 1, 1, 1000\): want \(1, 1, 1, 999\) for num_classes=999"):
        mega.ClassificationPostamble([INFO], 224, 224, num_classes=999)


def test_several_outputs_are_refused() -> None:
    with pytest.raises(ValueError, match="reads the one output of a classifier, this model has 2"):
        mega.ClassificationPostamble([INFO, INFO], 224, 224, num_classes=1000)


def test_a_scale_for_each_class_is_refused() -> None:
    info = TensorInfo((1, 1, 1, 10), np.int8, scale=np.full(10, 0.1))
    with pytest.raises(ValueError, match="needs a per-tensor output quantization; drop the Postamble to run the onnx"):
        mega.ClassificationPostamble([info], 224, 224, num_classes=10)
