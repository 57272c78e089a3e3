"""YolactPostamble beside its tail, and what it refuses."""

from __future__ import annotations

import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import YolactPostamble
from benchmarks.tails.yolact import yolact
from tests.runtime.mega_case import assert_kernel_is_the_tail


@pytest.mark.parametrize(("classes", "masks", "anchors"), [(80, 32, 3), (1, 8, 2), (4, 16, 1), (9, 4, 3), (15, 5, 3)])
@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_yolact_is_its_tail_for_any_classes_masks_and_scales(
    classes: int, masks: int, anchors: int, scale: float
) -> None:
    tail = yolact((7, 4, 2), classes, masks, anchors, proto=14)
    roles = [*("box", "class", "mask") * 3, "proto"] if masks == 4 else None
    assert_kernel_is_the_tail(
        tail,
        YolactPostamble,
        (56, 56),
        {"tensor_roles": roles, "num_anchors": anchors},
        scale=scale,
        same_order=roles is not None,
    )


def heads(*channels: int, proto: int = 8) -> list[TensorInfo]:
    return [
        *(TensorInfo((1, 4, 4, width), name=f"head{width}", scale=0.1) for width in channels),
        TensorInfo((1, 16, 16, proto), name="proto", scale=0.1),
    ]


def test_heads_without_prototypes_are_refused() -> None:
    with pytest.raises(ValueError, match="want one tensor of prototypes, alone on its grid; there is none"):
        YolactPostamble(heads(12, 9, 24)[:-1], 32, 32)


@pytest.mark.parametrize(("anchors", "proto"), [(3, 40), (2, 8)])
def test_heads_that_the_prototypes_and_anchors_contradict_are_refused(anchors: int, proto: int) -> None:
    with pytest.raises(ValueError, match=rf"want 4 box, {proto} mask and 1 \+ classes .* of {anchors} anchors"):
        YolactPostamble(heads(12, 9, 24, proto=proto), 32, 32, num_anchors=anchors)


def test_prototypes_of_another_number_of_masks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"channels \[9, 12, 24\], want 4 for each anchor \(box\), 4 for each"):
        YolactPostamble(heads(12, 9, 24, proto=7), 32, 32)


def test_tensors_of_one_width_need_roles() -> None:
    with pytest.raises(ValueError, match=r"cannot tell .* apart: both are 12 wide; give tensor_roles"):
        YolactPostamble(heads(12, 12, 24), 32, 32)
