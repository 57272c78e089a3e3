"""Kernels of map heads beside their tails, bit for bit beside their reference, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega
from axtool.runtime.mega import byte_functions
from benchmarks.tails import maps
from tests.runtime.mega_case import as_list
from tests.runtime.tail_case import Tail, random_buffers

MASK, LAST = mega.SigmoidMaskPostamble, {"layout": "nhwc"}
CASES: list[tuple[Any, bytes, dict[str, Any]]] = [
    (mega.DbnetPostamble, maps.sigmoid_mask(37, 53), {}),
    (mega.DbnetPostamble, maps.sigmoid_mask(200, 320), {}),
    (mega.CenterFacePostamble, maps.centerface(12, 20), {}),
    (MASK, maps.sigmoid_mask(64, 48, channels_last=True), {"num_classes": 1, **LAST}),
    (MASK, maps.sigmoid_mask(1, 1), {"num_classes": 1}),
    (MASK, maps.sigmoid_mask(19, 31, 21), {"num_classes": 21}),
    (MASK, maps.sigmoid_mask(19, 31, 21, channels_last=True), {"num_classes": 21, **LAST}),
]


@pytest.mark.parametrize("scale", [0.0, 4.6])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize(("kernel", "graph", "params"), CASES)
def test_maps_are_those_of_the_tail_and_the_same_bits_without_the_native_module(
    kernel: Any,
    graph: bytes,
    params: dict[str, Any],
    padded: bool,
    scale: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, tail = np.random.default_rng(4), Tail(graph)
    infos = tail.infos(rng, padded=padded, scale=scale)
    buffers = random_buffers(infos, rng)
    made = kernel(infos, 320, 200, **params)
    found, wanted = as_list(made(*buffers)), tail.run(buffers, infos)
    assert list(made.output_shapes) == [array.shape for array in found] == [array.shape for array in wanted]
    for index, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
        if index == 0:  # the chances
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(mine, theirs)
    monkeypatch.setattr(byte_functions, "native_module", lambda: None)
    for mine, meaning in zip(found, as_list(kernel(infos, 320, 200, **params)(*buffers)), strict=True):
        assert mine.tobytes() == meaning.tobytes()


@pytest.mark.parametrize(
    ("kernel", "channels", "params", "message"),
    [
        (mega.DbnetPostamble, [2], {}, r"the one map of DBNet \(1, h, w, 1\), this model has output 0 \(1, 4, 4, 2\)"),
        (mega.CenterFacePostamble, [2], {}, r"reads heat \(1, h, w, 1\), size \(1, h, w, 2\), .*has output 0"),
        (mega.CenterFacePostamble, [1, 2, 10, 2], {}, r"landmarks \(1, h, w, 10\), this model has output 0"),
        (MASK, [2], {"num_classes": 1}, r"reads one map \(1, h, w, 1\), this model has .*; drop the Postamble"),
        (MASK, [1, 1], {"num_classes": 1}, r"reads one map .* this model has output 0 \(1, 4, 4, 1\), output 1"),
        (MASK, [1], {"num_classes": 0}, "num_classes is 0, want a whole number of at least 1"),
        (MASK, [1], {"num_classes": 1, "layout": "hwc"}, "there is no layout 'hwc'; .*nhwc"),
        (MASK, [1], {"num_classes": 1, "backend": "sse"}, "there is no backend 'sse'"),
    ],
)  # fmt: skip
def test_other_heads_are_refused_by_their_channels(
    kernel: Any, channels: list[int], params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kernel([TensorInfo((1, 4, 4, c), scale=0.1) for c in channels], 32, 32, **params)
