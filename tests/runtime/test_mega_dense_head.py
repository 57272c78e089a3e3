"""DenseHeadPostamble and UltraFacePostamble beside the tails of face detectors, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from axtool.runtime import TensorInfo
from axtool.runtime.mega import DenseHeadPostamble, UltraFacePostamble
from benchmarks.tails.faces import blazeface, scrfd, ultraface, yunet
from tests.runtime.mega_case import assert_kernel_is_the_tail

YUNET = [["cls", 1, "sigmoid"], ["obj", 1, "sigmoid"], ["bbox", 4], ["kps", 10]]


@pytest.mark.parametrize("grids", [((16, 2), (8, 6)), ((5, 1), (3, 4))])
def test_blazeface_has_an_output_for_each_role_and_grid(grids: tuple[tuple[int, int], ...]) -> None:
    params = {"outputs": [["score", 1], ["box", 16]], "join": False}
    assert_kernel_is_the_tail(blazeface(grids), DenseHeadPostamble, (128, 128), params, seed=1)


@pytest.mark.parametrize(("width", "height"), [(64, 64), (160, 96)])
def test_yunet_is_its_tail_once_its_roles_are_told(width: int, height: int) -> None:
    roles = [role for role, *_ in YUNET for _ in range(3)]
    params = {"outputs": YUNET, "join": False, "tensor_roles": roles}
    assert_kernel_is_the_tail(yunet(width, height), DenseHeadPostamble, (width, height), params, same_order=True)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("anchors", [1, 2])
@pytest.mark.parametrize("keypoints", [True, False])
def test_scrfd_is_its_tail_without_roles(anchors: int, keypoints: bool, batched: bool) -> None:
    tail = scrfd(96, 64, anchors, keypoints=keypoints, batched=batched)
    outputs = [["score", 1, "sigmoid"], ["bbox", 4], *([["kps", 10]] if keypoints else [])]
    params = {"outputs": outputs, "join": False, "batched": batched}
    assert_kernel_is_the_tail(tail, DenseHeadPostamble, (96, 64), params, seed=3)


def test_ultraface_is_its_tail_with_and_without_the_decoder() -> None:
    for decoded in (True, False):
        assert_kernel_is_the_tail(
            ultraface(decoded=decoded), UltraFacePostamble, (320, 240), {"decoded": decoded}, scale=0.04
        )


def test_ultraface_without_its_decoder_is_a_dense_head() -> None:
    params = {"outputs": [["score", 2, "softmax"], ["box", 4]]}
    assert_kernel_is_the_tail(ultraface(decoded=False), DenseHeadPostamble, (320, 240), params, seed=2)


def test_outputs_may_lack_the_leading_axis() -> None:
    infos = [TensorInfo((1, 4, 4, width), scale=0.1) for width in (2, 8)]
    made = DenseHeadPostamble(infos, 32, 32, outputs=[["score", 1], ["box", 4]], batched=False)
    assert made.output_shapes == ((32, 1), (32, 4))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "outputs are missing"),
        ({"outputs": [["a"]]}, r"outputs\[0\] is \['a'\], want \[role"),
        ({"outputs": [["a", 0]]}, r"outputs\[0\] values is 0"),
        ({"outputs": [["a", 1, "sigmoidal"]]}, "there is no activation 'sigmoidal'"),
        ({"outputs": [["a", 1], ["a", 2]]}, "role 'a' is there twice"),
        ({"outputs": [["a", 1], ["b", 3]]}, r"channels \[2, 8\], want 1 for each anchor \(a\), 3 for each"),
        ({"outputs": [["a", 5]]}, "has 2 outputs .* want 1: a"),
    ],
)
def test_outputs_that_the_tensors_do_not_have_are_refused(params: dict[str, Any], message: str) -> None:
    infos = [TensorInfo((1, 4, 4, width), scale=0.1) for width in (2, 8)]
    with pytest.raises(ValueError, match=message):
        DenseHeadPostamble(infos, 32, 32, **params)


def test_roles_of_one_width_cannot_be_told_apart() -> None:
    infos = [TensorInfo((1, 4, 4, 3), name=name, scale=0.1) for name in ("cls", "obj")]
    with pytest.raises(ValueError, match=r"cannot tell output 0 'cls' .* apart: both are 3 wide; give tensor_roles"):
        DenseHeadPostamble(infos, 32, 32, outputs=[["cls", 1], ["obj", 1]])


def test_anchors_that_min_sizes_does_not_have_are_refused() -> None:
    infos = [TensorInfo((1, 4, 4, width), scale=0.1) for width in (4, 8)]
    with pytest.raises(ValueError, match=r"the grids have \[2\] anchors a cell .* min_sizes has \[3\] sides"):
        UltraFacePostamble(infos, 32, 32, min_sizes=[[8, 16, 24]])
