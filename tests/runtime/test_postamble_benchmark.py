"""The benchmark of postamble kernels: what a row says, and that wrong numbers are not timed."""

from __future__ import annotations

import pytest

from axtool.runtime import mega
from benchmarks import postamble
from benchmarks.tails import CASES, faces
from benchmarks.tails.case import Case

SMALL = Case("small", lambda: faces.retinaface(64, 64), "RetinaFacePostamble", {}, 64, 64, 0.001)


def test_a_row_has_both_sides_the_ratio_and_the_distance_from_memcpy() -> None:
    row = postamble.measure(SMALL, rounds=3)
    assert row["met"] is True
    assert row["ratio"] == pytest.approx(row["peer"]["median_ms"] / row["ours"]["median_ms"], rel=0.05)
    assert row["bytes_out"] == 4 * 16 * (64 + 16 + 4) * 2
    assert row["distance"] > 0
    assert "small" in postamble.text([row]).splitlines()[1]


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
