"""Strips at work: the native loops where they are installed, else NumPy; outputs from a pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import BACKENDS, MOST_THREADS, check_backend, check_tensors
from axtool.runtime.mega.params import check_count
from axtool.runtime.mega.strips import Strip, write_strips
from axtool.runtime.pool import Pool
from axtool.runtime.tensor_info import TensorInfo


class Heads:
    """A list of strips over the buffers of one frame. `backend` is what runs: 'numpy' without the native module.

    Raises ValueError for a backend that this CPU does not have, and for a number of threads that is none.
    """

    def __init__(
        self,
        infos: Sequence[TensorInfo],
        strips: Sequence[Strip],
        shapes: Sequence[tuple[int, ...]],
        *,
        backend: str = "auto",
        threads: int = 1,
    ) -> None:
        self._infos, self._strips = tuple(infos), tuple(strips)
        self._pools = [Pool(shape) for shape in shapes]
        check_count("threads", threads, most=MOST_THREADS)
        self._native = _native(self._infos, self._strips, shapes, check_backend(backend), threads)
        self.backend = "numpy" if self._native is None else str(self._native.backend)

    def run(self, tensors: Sequence[NDArray[Any]]) -> list[NDArray[np.float32]]:
        """The outputs of one frame. Raises ValueError for buffers that are not those described."""
        buffers = check_tensors(tensors, self._infos)
        targets = [pool.take() for pool in self._pools]
        if self._native is None:
            write_strips(self._strips, buffers, self._infos, targets)
        else:
            self._native.run(buffers, targets)
        return targets


def _native(
    infos: Sequence[TensorInfo], strips: Sequence[Strip], shapes: Sequence[tuple[int, ...]], backend: str, threads: int
) -> Any:
    """The strips for the native module, or None where it is not installed."""
    try:
        from axtool.native import _native as native
    except ImportError:
        if backend not in ("auto", BACKENDS[1]):
            raise ValueError(f"backend '{backend}' needs the native module; leave backend at 'auto'") from None
        return None
    made = native.Heads(backend, threads)
    for info in infos:
        made.add_source(info.shape, info.padding)
    for shape in shapes:
        made.add_target(math.prod(shape))
    for strip in strips:
        p = strip.place
        places = (p.source, p.target, p.anchors, p.group, p.first, p.count, p.offset, p.anchor_step, p.pixel_step)
        values = (strip.table, strip.factors, strip.sizes, strip.rows, strip.cols, strip.steps)
        flat = [np.ascontiguousarray(value, np.float32).reshape(-1) for value in values]
        made.add_strip(strip.kind, places, strip.columns_first, strip.scale, strip.zero, *flat)
    return made
