"""Pools of output arrays: what is held is not handed out again, what is free is."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.runtime.mega.pool import Pool, new_array

SMALL, LARGE = (3, 5), (512, 1024)  # bytes of a few cache lines, and of a huge page


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_an_array_that_nobody_holds_is_handed_out_again(shape: tuple[int, int]) -> None:
    pool = Pool(shape)
    first = pool.take()
    address = first.ctypes.data
    del first
    assert pool.take().ctypes.data == address


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_an_array_is_held_as_long_as_a_view_of_it(shape: tuple[int, int]) -> None:
    pool = Pool(shape)
    view = pool.take()[1:, ::2].T
    view[...] = 3
    second = pool.take()
    second[...] = 5
    assert (view == 3).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
@pytest.mark.parametrize("shape", [(), (0,), SMALL, LARGE, (3, 1_000_003)])
def test_new_arrays_are_whole_and_can_be_written(shape: tuple[int, ...], dtype: type) -> None:
    array = new_array(shape, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    array[...] = 1
    assert array.sum() == array.size
