"""The benchmark of postamble kernels: what a row says, and that wrong numbers are not timed."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime import TensorInfo, mega
from benchmarks import postamble, postamble_path
from benchmarks.tails import CASES, faces
from benchmarks.tails.case import Case

SMALL = Case("small", lambda: faces.retinaface(64, 64), "RetinaFacePostamble", {}, 64, 64, 0.001)


def test_a_row_has_both_sides_the_ratio_and_the_distance_from_memcpy() -> None:
    row = postamble.measure(SMALL, rounds=3)
    assert row["met"] is True
    assert row["timed_by"] == "CPU"
    assert row["ratio"] == pytest.approx(row["peer"]["cpu_median_ms"] / row["ours"]["cpu_median_ms"], rel=0.05)
    assert row["bytes_out"] == 4 * 16 * (64 + 16 + 4) * 2
    assert row["distance"] > 0
    assert "small" in postamble.text([row]).splitlines()[1]


def test_several_threads_are_timed_by_the_wall_and_shared_with_a_kernel_that_takes_them() -> None:
    row = postamble.measure(SMALL, rounds=3, threads=2)
    assert (row["threads"], row["timed_by"]) == (2, "wall")
    assert row["ratio"] == pytest.approx(row["peer"]["median_ms"] / row["ours"]["median_ms"], rel=0.05)


@pytest.mark.parametrize("front", postamble_path.FRONTS)
def test_every_way_to_dequantize_gives_the_same_floats(front: postamble_path.Front) -> None:
    rng = np.random.default_rng(3)
    info = TensorInfo((1, 5, 7, 12), padding=[(0, 0), (0, 0), (0, 0), (0, 3)], scale=0.05, zero_point=4)
    buffer = rng.integers(-128, 128, info.shape).astype(np.int8)
    found = np.empty((1, 9, 5, 7), np.float32)
    front(buffer, info, found)
    inside = buffer[..., :9].astype(np.float32)
    np.testing.assert_array_equal(found, ((inside - 4) * np.float32(0.05)).transpose(0, 3, 1, 2))


def test_outputs_that_are_bound_hold_what_a_plain_run_gives() -> None:
    path = postamble_path.Path(SMALL.tail(), 0)
    buffers = [np.full(info.shape, 9, np.int8) for info in path.infos]
    path.bound = True
    bound = [array.copy() for array in path.run(buffers)]
    path.bound = False
    for mine, plain in zip(bound, path.run(buffers), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_a_kernel_that_gives_other_numbers_is_not_timed() -> None:
    wrong = Case("wrong", lambda: faces.blazeface(((8, 2), (4, 2))), "DenseHeadPostamble", {
        "outputs": [["score", 1, "sigmoid"], ["box", 16]], "join": False,
    }, 64, 64, 1)  # fmt: skip
    with pytest.raises(AssertionError):
        postamble.measure(wrong, rounds=1)


def test_every_case_names_a_built_in_kernel_and_asks_for_a_speed() -> None:
    for case in CASES:
        assert case.kernel in mega.__all__
        assert case.wanted >= 1
