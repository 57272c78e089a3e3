"""Output arrays that nobody holds any more are handed out again: a fresh one costs a page fault every 4 KiB."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from sys import getrefcount
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_LEAST, _MOST = 4, 64  # arrays that a pool remembers: a consumer that holds more than the most gets fresh ones
_MOST_BYTES = 256 << 20  # that it remembers beyond the least
_PERIOD = 64  # takes, after which a pool forgets what was not wanted in any of them
_HUGE_PAGE = 2 << 20  # bytes

_known = [np.empty(0)]
_FREE = getrefcount(_known[0])  # references to an array that only a list knows, as `take` counts them


class Pool:
    """Arrays of one shape. An array is free when no one but the pool refers to it or to a view of it.

    Any thread may take one, and let go of it in any other. The pool remembers as many as were held at once in the last
    takes: as many as frames are in flight.
    """

    def __init__(self, shape: Sequence[int], dtype: DTypeLike = np.float32, *, fill: ArrayLike | None = None) -> None:
        """`fill` is what a new array holds; one that is handed out again holds what its user left in it."""
        self._shape, self._dtype, self._fill = tuple(shape), np.dtype(dtype), fill
        fits = _MOST_BYTES // max(math.prod(self._shape) * self._dtype.itemsize, 1)
        self._most = max(_LEAST, min(_MOST, fits))
        self._arrays: list[NDArray[Any]] = []
        self._takes = self._wanted = 0  # in this period: how many takes, and how many arrays were held at once
        self._lock = Lock()

    def take(self) -> NDArray[Any]:
        """An array whose values are whatever was there before."""
        with self._lock:
            self._takes += 1
            if self._takes > _PERIOD:
                del self._arrays[max(self._wanted, _LEAST) :]
                self._takes = self._wanted = 0
            for index in range(len(self._arrays)):
                if getrefcount(self._arrays[index]) == _FREE:
                    self._wanted = max(self._wanted, index + 1)
                    return self._arrays[index]
            self._wanted = len(self._arrays) + 1
            array = new_array(self._shape, self._dtype)
            if self._fill is not None:
                array[...] = self._fill
            if len(self._arrays) < self._most:
                self._arrays.append(array)
            return array

    def __len__(self) -> int:
        """How many arrays it remembers, free or held."""
        return len(self._arrays)

    def __deepcopy__(self, memo: dict[int, Any]) -> Pool:
        return self  # what is taken from it is nobody else's


def new_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An array for results; one of half a huge page and more asks the system for such pages, where it has them.

    Heads are written channel by channel, each channel pages away from the one before: with pages of 4 KiB, looking up
    where they are costs more than the writes. A view of the array refers to the array, as a view of `np.empty` does.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _HUGE_PAGE // 2 or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size + 2 * _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % _HUGE_PAGE
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without them
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, buffer=memory, offset=start)
