"""What a tile needs is no more than what it looks at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Box, intersect, is_empty, whole
from axtool.ops.encoding import FIELDS
from axtool.ops.reference import compute
from axtool.ops.regions import needed
from axtool.types import Tile
from tests.ops.cases import random_case

WINDOWED = ("conv", "conv_transpose", "depthwise", "max_pool", "avg_pool", "resize_linear")


@pytest.mark.parametrize("op", [op for op in FIELDS if op not in WINDOWED and op != "concat"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_element_needs_one_element(op, seed):
    """One output element of an op without windows looks at one input element."""
    case = random_case(op, seed)
    rng = np.random.default_rng(seed)
    tile = Tile(*(int(rng.integers(size)) for size in case.out_dims), 1, 1, 1)
    box = needed(case.job(tile), 0)
    assert (box.h, box.w, box.n) in [(1, 1, 1), (0, 0, 0)] or is_empty(box)


@pytest.mark.parametrize(
    ("tile", "rows", "columns"),
    [
        (Tile(0, 0, 0, 1, 1, 1), (0, 2), (0, 2)),  # the window begins one pixel before the tensor
        (Tile(1, 1, 0, 2, 1, 1), (1, 5), (1, 3)),
        (Tile(4, 4, 0, 1, 1, 1), (7, 3), (7, 3)),
    ],
)
def test_the_halo_of_a_3x3_convolution_with_stride_2(tile, rows, columns):
    case = random_case("conv", 0)
    window = {"kernel": (3, 3), "stride": (2, 2), "dilation": (1, 1), "pad": (1, 1), "group": 1}
    job = case.job(tile)
    job = type(job)("conv", (10, 10, 8), (5, 5, 16), {**case.attrs, **window}, tile)
    box = needed(job, 0)
    assert ((box.y, box.h), (box.x, box.w), (box.c, box.n)) == (rows, columns, (0, 8))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_numbers_outside_what_a_convolution_needs_do_not_matter(seed):
    case = random_case("conv", seed)
    rng = np.random.default_rng(seed)
    starts = [int(rng.integers(size)) for size in case.out_dims[:2]]
    tile = Tile(*starts, 0, 1, 1, case.out_dims[2])
    job, boxes = case.job(tile), case.boxes()
    noise = rng.integers(-128, 128, case.in_dims, dtype=np.int8)
    inside = intersect(needed(job, 0), whole(case.in_dims))
    if not is_empty(inside):
        Box(noise, whole(case.in_dims)).cut(inside)[...] = boxes[0].cut(inside)
    noisy = [Box(noise, whole(case.in_dims)), *boxes[1:]]
    np.testing.assert_array_equal(compute(job, noisy), compute(job, boxes))
