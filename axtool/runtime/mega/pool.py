"""Output arrays that nobody holds any more are handed out again: a fresh one costs a page fault every 4 KiB."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_KEPT = 4  # arrays that a pool remembers: a consumer that holds more than these gets fresh ones
_FREE = 3  # references to an array that only the pool knows: the list, the loop's variable, the argument


class Pool:
    """Arrays of one shape. An array is free when no one but the pool refers to it or to a view of it."""

    def __init__(self, shape: Sequence[int], dtype: DTypeLike = np.float32) -> None:
        self._shape, self._dtype = tuple(shape), np.dtype(dtype)
        self._arrays: list[NDArray[Any]] = []
        self._lock = Lock()

    def take(self) -> NDArray[Any]:
        """An array whose values are whatever was there before."""
        with self._lock:
            for array in self._arrays:
                if sys.getrefcount(array) == _FREE:
                    return array
            array = np.empty(self._shape, self._dtype)
            if len(self._arrays) < _KEPT:
                self._arrays.append(array)
            return array
