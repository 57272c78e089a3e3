"""Output arrays that nobody holds any more are handed out again: a fresh one costs a page fault every 4 KiB."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_KEPT = 4  # arrays that a pool remembers: a consumer that holds more than these gets fresh ones
_FREE = 3  # references to an array that only the pool knows: the list, the loop's variable, the argument
_HUGE_PAGE = 2 << 20  # bytes


class Pool:
    """Arrays of one shape. An array is free when no one but the pool refers to it or to a view of it."""

    def __init__(self, shape: Sequence[int], dtype: DTypeLike = np.float32, *, fill: ArrayLike | None = None) -> None:
        """`fill` is what a new array holds; one that is handed out again holds what its user left in it."""
        self._shape, self._dtype, self._fill = tuple(shape), np.dtype(dtype), fill
        self._arrays: list[NDArray[Any]] = []
        self._lock = Lock()

    def take(self) -> NDArray[Any]:
        """An array whose values are whatever was there before."""
        with self._lock:
            for array in self._arrays:
                if sys.getrefcount(array) == _FREE:
                    return array
            array = new_array(self._shape, self._dtype)
            if self._fill is not None:
                array[...] = self._fill
            if len(self._arrays) < _KEPT:
                self._arrays.append(array)
            return array


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
