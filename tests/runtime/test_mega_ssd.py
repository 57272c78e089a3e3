"""SsdPostamble beside the tails of both anchor rules, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import SsdPostamble
from benchmarks.tails.ssd import fpn_lite, ssd_300
from tests.runtime.mega_case import assert_kernel_is_the_tail


def infos(classes: int = 2, anchors: int = 6) -> list[TensorInfo]:
    return [
        TensorInfo((1, side, side, anchors * values), name=f"{values}", scale=0.05)
        for side in (16, 8, 4, 2, 1)
        for values in (4, 1 + classes)
    ]


@pytest.mark.parametrize("classes", [1, 2, 7, 8, 9, 90])
def test_fpn_lite_is_its_tail_for_any_number_of_classes(classes: int) -> None:
    assert_kernel_is_the_tail(
        fpn_lite(128, 128, classes), SsdPostamble, (128, 128), {"num_classes": classes}, seed=classes, scale=0.04
    )


@pytest.mark.parametrize(("width", "height"), [(320, 128), (160, 256)])
def test_fpn_lite_puts_centres_on_the_lines_where_strides_do_not_divide_an_axis(width: int, height: int) -> None:
    assert_kernel_is_the_tail(
        fpn_lite(width, height, 4), SsdPostamble, (width, height), {"num_classes": 4}, seed=3, scale=0.04
    )


def test_aspect_ratios_and_scales_per_octave_are_those_of_the_rule() -> None:
    params = {"num_classes": 5, "aspect_ratios": [1.0, 3.0], "scales_per_octave": 3}
    tail = fpn_lite(128, 128, 5, ratios=(1.0, 3.0), octaves=3)
    assert_kernel_is_the_tail(tail, SsdPostamble, (128, 128), params, seed=4, scale=0.04)


@pytest.mark.parametrize("classes", [1, 6, 20])
def test_ssd_300_is_its_tail(classes: int) -> None:
    params = {"num_classes": classes, "anchor_generator": "ssd"}
    assert_kernel_is_the_tail(ssd_300(classes=classes), SsdPostamble, (300, 300), params, seed=classes, scale=0.04)


def test_classes_that_the_graph_drops_are_dropped() -> None:
    params = {"num_classes": 1, "head_classes": 2, "anchor_generator": "ssd"}
    tail = ssd_300((16, 8, 4, 3, 2, 1), classes=1, cut=1)
    assert_kernel_is_the_tail(tail, SsdPostamble, (512, 512), params, seed=6, scale=0.04)


def test_three_classes_look_like_boxes_until_roles_are_given() -> None:
    params: dict[str, Any] = {"num_classes": 3}
    with pytest.raises(
        ValueError, match=r"cannot tell output 0 .* and output 1 .* apart: both are 24 wide; give tensor"
    ):
        SsdPostamble(infos(3), 128, 128, **params)
    params["tensor_roles"] = ["box", "class"] * 5
    assert_kernel_is_the_tail(
        fpn_lite(128, 128, 3), SsdPostamble, (128, 128), params, seed=7, scale=0.04, same_order=True
    )


def test_the_anchor_between_two_scales_may_be_the_second_of_a_cell() -> None:
    params = {"num_classes": 6, "anchor_generator": "ssd", "interpolated_second": True}
    assert_kernel_is_the_tail(ssd_300(classes=6, between_at=1), SsdPostamble, (300, 300), params, seed=8, scale=0.04)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": None}, "num_classes is missing"),
        ({"num_classes": 3}, r"channels \[18, 24\], want 4 for each anchor \(box\), 4 .*check num_classes \(3\)"),
        ({"head_classes": 1}, "head_classes is 1, want a whole number of at least 2"),
        ({"anchor_generator": "grid"}, "there is no anchor_generator 'grid'"),
        ({"max_level": 8}, "5 levels, but min_level=3 and max_level=8 make 6"),
        ({"scales_per_octave": 3}, "has 6 anchors a cell, but the rule anchor_generator='multiscale' makes 9"),
        ({"anchor_generator": "ssd"}, "has 6 anchors a cell, but the rule anchor_generator='ssd' makes 3"),
        ({"tensor_roles": ["box", "klass"] * 5}, "there is no role 'klass'"),
        ({"tensor_roles": ["box", "class"]}, "2 roles for 10 outputs"),
        ({"tensor_roles": ["class", "box"] * 5}, "no output of 24 channels has the role 'box'"),
        ({"box_coder": [10, 9, 5, 5]}, "box_coder is"),
        ({"backend": "sse"}, "there is no backend 'sse'"),
    ],
)
def test_parameters_that_contradict_the_tensors_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SsdPostamble(infos(), 128, 128, **{"num_classes": 2, **changes})


def test_a_grid_without_its_class_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="grid 1 x 1 has 1 outputs"):
        SsdPostamble(infos()[:-1], 128, 128, num_classes=2)
