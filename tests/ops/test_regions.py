"""What a tile needs is no more than what it looks at."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.ops.boxes import Box, Job, intersect, is_empty, whole
from axtool.ops.reference import compute
from axtool.ops.regions import needed
from axtool.types import Tile
from tests.ops.cases import random_case, random_tile

MOVEMENT = ("slice", "pad", "transpose", "reshape", "depth_to_space", "space_to_depth", "resize_nearest")


@pytest.mark.parametrize("op", MOVEMENT)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_a_tile_needs_is_the_box_around_what_it_reads(op, seed):
    """Numbers of the elements go through the op instead of values, so that the result says what was read."""
    case = random_case(op, seed)
    tile = random_tile(case, seed)
    numbers = np.arange(math.prod(case.in_dims)).reshape(case.in_dims)
    job = case.job(tile)
    if op == "pad" and case.attrs["mode"] == 0:
        read = padded_numbers(job, numbers)
    else:
        read = compute(job, [Box(numbers, whole(case.in_dims))]).reshape(-1)
    box = needed(job, 0)
    if not read.size:
        assert is_empty(box)
        return
    ends = [(int(axis.min()), int(axis.max()) + 1) for axis in np.unravel_index(read, case.in_dims)]
    assert [(box.y, box.y + box.h), (box.x, box.x + box.w), (box.c, box.c + box.n)] == ends


def padded_numbers(job: Job, numbers: np.ndarray) -> np.ndarray:
    """What a constant pad reads."""
    tile, before = job.tile, job.attrs["before"]
    cuts = (
        slice(max(at - b, 0), max(at - b + count, 0))
        for at, count, b in zip((tile.y, tile.x, tile.c), (tile.h, tile.w, tile.n), before, strict=True)
    )
    return numbers[tuple(cuts)].reshape(-1)


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
