"""Pools of output arrays: what is held is not handed out again, what is free is."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from axtool.runtime.pool import Pool, new_array

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


def test_as_many_arrays_are_remembered_as_were_held_at_once() -> None:
    pool = Pool(SMALL)
    for _ in range(3):
        held = [pool.take() for _ in range(16)]
        assert len({array.ctypes.data for array in held}) == 16
        addresses = {array.ctypes.data for array in held}
        del held
    assert (len(pool), {array.ctypes.data for array in [pool.take() for _ in range(16)]}) == (16, addresses)


def test_what_was_held_once_is_forgotten_when_it_is_wanted_no_more() -> None:
    pool = Pool(SMALL)
    held = [pool.take() for _ in range(40)]
    assert len(pool) == 40
    del held
    for _ in range(200):
        pool.take()
    assert len(pool) == 4


def test_a_consumer_that_keeps_everything_is_not_remembered_without_end() -> None:
    pool, large = Pool(SMALL), Pool((16 << 20,), np.int8)
    held = [pool.take() for _ in range(500)]
    assert len({array.ctypes.data for array in held}) == 500
    assert len(pool) <= 64
    kept = [large.take() for _ in range(40)]  # never written: it costs no memory
    assert (len(kept), len(large)) == (40, 16)


def test_eight_threads_never_hold_the_same_array() -> None:
    pool, stop, wrong = Pool((257,), np.int64), time.monotonic() + 1.0, list[str]()

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        held: list[np.ndarray] = []
        while time.monotonic() < stop and not wrong:
            array = pool.take()
            array[...] = number  # whoever else holds it sees this, or this thread sees theirs
            held.append(array[::2] if rng.random() < 0.5 else array)
            del array
            if any((one != number).any() for one in held):
                wrong.append(f"thread {number} lost what it wrote")
            while len(held) > rng.integers(0, 6):
                held.pop(int(rng.integers(0, len(held))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
