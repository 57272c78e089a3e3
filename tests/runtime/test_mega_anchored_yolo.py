"""AnchoredYoloPostamble beside the tails of YOLOv5 and YOLOv2, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import AnchoredYoloPostamble
from benchmarks.tails.anchored import ANCHORS, yolov2, yolov5
from tests.runtime.mega_case import assert_kernel_is_the_tail

PAIRS = [list(level) for level in ANCHORS]
TWO = [(51.3, 67.0), (193.3, 226.6)]


def infos(classes: int = 3, anchors: int = 3) -> list[TensorInfo]:
    return [TensorInfo((1, side, side, anchors * (5 + classes)), name=f"p{side}", scale=0.1) for side in (8, 4, 2)]


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 11, 80])
def test_yolov5_is_its_tail_for_any_number_of_classes(classes: int) -> None:
    params = {"num_classes": classes, "anchors": PAIRS}
    assert_kernel_is_the_tail(
        yolov5(96, 96, classes), AnchoredYoloPostamble, (96, 96), params, seed=classes, same_order=True
    )


@pytest.mark.parametrize(("width", "height"), [(160, 64), (32, 96), (416, 32)])
def test_yolov5_is_its_tail_on_oblong_inputs(width: int, height: int) -> None:
    params = {"num_classes": 5, "anchors": PAIRS}
    assert_kernel_is_the_tail(
        yolov5(width, height, 5), AnchoredYoloPostamble, (width, height), params, seed=1, same_order=True
    )


def test_two_levels_of_two_anchors_are_decoded_with_their_own_strides() -> None:
    tail = yolov5(64, 64, 6, anchors=(ANCHORS[0][:2], ANCHORS[1][:2]), strides=(16, 32))
    params = {"num_classes": 6, "anchors": [list(level[:2]) for level in ANCHORS[:2]]}
    assert_kernel_is_the_tail(tail, AnchoredYoloPostamble, (64, 64), params, seed=2, same_order=True)


@pytest.mark.parametrize("classes", [0, 1, 20])
def test_yolov2_is_its_tail_even_without_classes(classes: int) -> None:
    params = {"num_classes": classes, "anchors": [TWO], "decode": "v2"}
    assert_kernel_is_the_tail(yolov2(416, 96, classes, TWO), AnchoredYoloPostamble, (416, 96), params)


def test_a_coarse_quantization_takes_the_other_road_to_the_same_scores() -> None:
    params = {"num_classes": 4, "anchors": PAIRS}
    assert_kernel_is_the_tail(yolov5(64, 64, 4), AnchoredYoloPostamble, (64, 64), params, scale=0.9, same_order=True)


def test_anchors_may_be_flat_lists_of_a_level() -> None:
    flat = [[float(side) for pair in level for side in pair] for level in ANCHORS]
    kernels = [AnchoredYoloPostamble(infos(), 64, 64, num_classes=3, anchors=anchors) for anchors in (flat, PAIRS)]
    buffers = [np.full(info.shape, 9, np.int8) for info in infos()]
    assert kernels[0](*buffers).tobytes() == kernels[1](*buffers).tobytes()


def test_levels_are_matched_by_grid_and_rows_keep_the_order_of_the_tensors() -> None:
    ascending = infos()[::-1]
    made = AnchoredYoloPostamble(ascending, 64, 64, num_classes=3, anchors=PAIRS)(
        *(np.full(info.shape, 0, np.int8) for info in ascending)
    )
    np.testing.assert_allclose(made[0, 0, 2:4], ANCHORS[2][0])


def test_outputs_that_nobody_holds_are_used_again_and_others_are_not() -> None:
    kernel = AnchoredYoloPostamble(infos(), 64, 64, num_classes=3, anchors=PAIRS)
    first = kernel(*(np.full(info.shape, 1, np.int8) for info in infos()))
    kept = first.copy()
    kernel(*(np.full(info.shape, 90, np.int8) for info in infos()))
    assert first.tobytes() == kept.tobytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": None}, "num_classes is missing"),
        ({"num_classes": 0}, "num_classes is 0, want a whole number of at least 1"),
        ({"anchors": None}, "anchors are missing: for each level the pixel"),
        ({"anchors": PAIRS[:2]}, "3 outputs and anchors 2 levels.*UltralyticsYoloPostamble"),
        ({"anchors": [[(1, 2), (3,)], *PAIRS[1:]]}, "anchors of level 0 are .* want positive"),
        ({"anchors": [[1, 2, -3, 4, 5, 6], *PAIRS[1:]]}, "want positive"),
        (
            {"num_classes": 4},
            r"output 0 'p8' \(1, 8, 8, 24\) has 24 channels, want 3 anchors \* \(5 \+ 4 classes\) = 27",
        ),
        ({"decode": "v6"}, "there is no decode 'v6'"),
        ({"backend": "avx3"}, "there is no backend 'avx3'"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_parameters_that_contradict_the_tensors_are_refused(changes: dict[str, Any], message: str) -> None:
    params = {"num_classes": 3, "anchors": PAIRS, **changes}
    with pytest.raises(ValueError, match=message):
        AnchoredYoloPostamble(infos(), 64, 64, **params)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (TensorInfo((1, 8, 8, 24), np.int32, scale=0.1), "int32, want int8; drop the Postamble"),
        (
            TensorInfo((1, 8, 8, 24), scale=np.full(24, 0.1)),
            "needs a per-tensor output quantization; drop the Postamble",
        ),
        (TensorInfo((2, 8, 8, 24), scale=0.1), r"want a buffer \(1, h, w, c\)"),
    ],
)
def test_tensors_that_no_fused_kernel_can_read_are_refused(info: TensorInfo, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AnchoredYoloPostamble([info, *infos()[1:]], 64, 64, num_classes=3, anchors=PAIRS)


def test_buffers_of_another_shape_are_refused_when_called() -> None:
    kernel = AnchoredYoloPostamble(infos(), 64, 64, num_classes=3, anchors=PAIRS)
    with pytest.raises(ValueError, match="tensor 0 is int8"):
        kernel(*(np.zeros((1, 4, 4, 24), np.int8) for _ in range(3)))
