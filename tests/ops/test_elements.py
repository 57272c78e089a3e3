"""Bytes and numbers: what an op's fields say of the size of its numbers, and boxes in the one and in the other."""

import numpy as np
import pytest

from axtool.ops.boxes import Box, Job
from axtool.ops.elements import REALS, grown, in_bytes, in_numbers, is_sized, numbers, out_bytes, shrunk
from axtool.types import Tile


@pytest.mark.parametrize(("attrs", "read", "size"), [
    ({"x_bytes": 4, "out_bytes": 1}, 0, 4), ({"x_bytes": 2, "out_bytes": 2}, 2, 2),
    ({"a_bytes": 4, "b_bytes": 1, "out_bytes": 4}, 0, 4), ({"a_bytes": 4, "b_bytes": 1, "out_bytes": 4}, 1, 1),
    ({"kernel": (1, 1)}, 0, 1),
])  # fmt: skip
def test_an_operand_has_the_bytes_that_its_field_says(attrs, read, size):
    assert in_bytes(attrs, read) == size


def test_an_op_without_sizes_counts_bytes():
    assert not is_sized({"perm": (0, 1, 2)})
    assert out_bytes({}) == 1
    assert is_sized({"x_bytes": 1, "out_bytes": 4})


@pytest.mark.parametrize(("size", "forms", "dtype"), [(2, None, "<i2"), (4, None, "<i4"), (2, REALS, "<f2")])
def test_a_box_of_bytes_is_seen_as_numbers_and_half_a_number_is_not_seen(size, forms, dtype):
    stored = np.arange(3, dtype=dtype).view(np.int8).reshape(1, 1, -1)
    cut = Box(stored[:, :, :-1], Tile(0, 0, 4 * size, 1, 1, 3 * size - 1))
    seen = numbers(cut, size) if forms is None else numbers(cut, size, forms)
    assert seen.tile == Tile(0, 0, 4, 1, 1, 2)
    assert seen.values.dtype == dtype
    assert seen.values.reshape(-1).tolist() == [0, 1]


def test_a_job_in_numbers_divides_each_side_by_its_own_bytes():
    job = Job("fx_add", (2, 3, 5), (2, 3, 20), {"x_bytes": 1, "out_bytes": 4}, Tile(0, 1, 8, 1, 2, 12))
    inside = in_numbers(job)
    assert (inside.op, inside.in_dims, inside.out_dims) == ("fx_add", (2, 3, 5), (2, 3, 5))
    assert inside.tile == shrunk(job.tile, 4) == Tile(0, 1, 2, 1, 2, 3)
    assert grown(inside.tile, 4) == job.tile
