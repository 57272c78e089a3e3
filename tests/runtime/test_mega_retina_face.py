"""RetinaFacePostamble beside its tail, and what it refuses."""

from __future__ import annotations

import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import RetinaFacePostamble
from benchmarks.tails.faces import retinaface
from tests.runtime.mega_case import assert_kernel_is_the_tail


@pytest.mark.parametrize(("width", "height"), [(64, 64), (160, 96), (96, 224)])
@pytest.mark.parametrize("anchors", [1, 2, 3])
def test_retinaface_is_its_tail_with_the_tensors_in_any_order(width: int, height: int, anchors: int) -> None:
    tail = retinaface(width, height, anchors)
    assert_kernel_is_the_tail(tail, RetinaFacePostamble, (width, height), {}, seed=anchors)


def test_tensors_of_other_widths_are_refused() -> None:
    infos = [TensorInfo((1, 4, 4, channels), name="head", scale=0.1) for channels in (8, 6, 20)]
    with pytest.raises(ValueError, match=r"channels \[6, 8, 20\], want 4 for each anchor \(box\), 2 for each anchor"):
        RetinaFacePostamble(infos, 32, 32)


def test_a_level_with_a_missing_tensor_is_refused() -> None:
    infos = [TensorInfo((1, 4, 4, channels), scale=0.1) for channels in (8, 4)]
    with pytest.raises(ValueError, match=r"grid 4 x 4 has 2 outputs .* want 3: box, class, keypoint"):
        RetinaFacePostamble(infos, 32, 32)
