"""Steps: what becomes of the device buffers of a split head, channel by channel and box by box.

`Map` takes channels of a buffer through functions of one byte; `Boxes` makes boxes of the distances that a grid point
has to four sides. `write_steps` is their meaning, in NumPy; the native module walks the same list in tiles of pixels
and gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.byte_functions import ByteFunctions, Bytes, Float
from axtool.runtime.mega.checks import BACKENDS, MOST_THREADS, check_backend, check_tensors
from axtool.runtime.mega.params import check_count
from axtool.runtime.pool import Pool
from axtool.runtime.tensor_info import TensorInfo


@dataclass(frozen=True)
class Placed:
    """Pixel p, channel k of a step goes to value `offset + p * pixel + k * channel` of a target."""

    target: int
    offset: int
    pixel: int
    channel: int


@dataclass(frozen=True, eq=False)
class Map:
    """Channels first .. first + count of a source; channel k of them goes through function k % n.

    grid: x and y of the grid point of each pixel, (2, pixels), where a function asks for them.
    """

    source: int
    first: int
    count: int
    to: Placed
    functions: ByteFunctions
    grid: Float | None = None


@dataclass(frozen=True, eq=False)
class Boxes:
    """Left, top, right and bottom distances of each pixel's grid point, as centre and size times `stride`.

    A distance is the expected one of `bins` bins, whose exponentials `distances` gives (`shifted`: after the largest
    byte has been taken to 127), or for one bin what `distances` gives. With an `angle`, a source of one channel, the
    offset of the centre is turned by it: `turn` is its cosine and its sine.
    """

    source: int
    bins: int
    to: Placed
    distances: ByteFunctions
    grid: Float
    stride: float
    shifted: bool = False
    angle: int | None = None
    turn: ByteFunctions | None = None


class Steps:
    """A list of steps over the buffers of one frame. `backend` is what runs: 'numpy' without the native module.

    Raises ValueError for a backend that this CPU does not have, and for a number of threads that is none.
    """

    def __init__(
        self,
        infos: Sequence[TensorInfo],
        steps: Sequence[Map | Boxes],
        shapes: Sequence[tuple[int, ...]],
        *,
        backend: str = "auto",
        threads: int = 1,
    ) -> None:
        self._infos, self._steps = tuple(infos), tuple(steps)
        self._pools = [Pool(shape) for shape in shapes]
        check_count("threads", threads, most=MOST_THREADS)
        self._native = _native(self._infos, self._steps, shapes, check_backend(backend), threads)
        self.backend = "numpy" if self._native is None else str(self._native.backend)

    def run(self, tensors: Sequence[NDArray[Any]]) -> list[Float]:
        """The outputs of one frame. Raises ValueError for buffers that are not those described."""
        buffers = check_tensors(tensors, self._infos)
        targets = [pool.take() for pool in self._pools]
        if self._native is None:
            write_steps(self._steps, buffers, self._infos, targets)
        else:
            self._native.run(buffers, targets)
        return targets


def write_steps(
    steps: Sequence[Map | Boxes], buffers: Sequence[Bytes], infos: Sequence[TensorInfo], targets: Sequence[Float]
) -> None:
    """Fill the targets, one step after another, from the padded buffers of one frame."""

    def inside(source: int) -> Bytes:
        buffer: Bytes = buffers[source][infos[source].inside][0]
        return buffer

    for step in steps:
        if isinstance(step, Map):
            values = bf.mapped(
                inside(step.source)[..., step.first : step.first + step.count], step.functions, step.grid
            )
        else:
            values = _boxes(step, inside)
        pixel, channel = np.ogrid[: values.shape[0], : values.shape[1]]
        at = step.to.offset + pixel * step.to.pixel + channel * step.to.channel
        targets[step.to.target].reshape(-1)[at] = values


def _boxes(step: Boxes, inside: Any) -> Float:
    """(pixels, 4)"""
    x = inside(step.source)
    if step.bins == 1:
        distances = bf.mapped(x, step.distances).T
    else:
        distances = bf.expected_bins(x, step.bins, step.distances, step.shifted)
    if step.angle is None or step.turn is None:
        return bf.boxes(distances, step.grid, step.stride)
    angle = inside(step.angle)
    cos, sin = bf.mapped(np.concatenate([angle, angle], -1), step.turn).T
    return bf.boxes(distances, step.grid, step.stride, cos, sin)


def _native(
    infos: Sequence[TensorInfo],
    steps: Sequence[Map | Boxes],
    shapes: Sequence[tuple[int, ...]],
    backend: str,
    threads: int,
) -> Any:
    """The steps for the native module, or None where it is not installed."""
    native = bf.native_module()
    if native is None:
        if backend not in ("auto", BACKENDS[1]):
            raise ValueError(f"backend '{backend}' needs the native module; leave backend at 'auto'")
        return None
    made = native.Steps(backend, threads)
    for info in infos:
        made.add_source(info.shape, info.padding)
    for shape in shapes:
        made.add_target(math.prod(shape))
    none = np.empty(0, np.float32)
    for step in steps:
        to = (step.to.target, step.to.offset, step.to.pixel, step.to.channel)
        if isinstance(step, Map):
            grid = none if step.grid is None else _flat(step.grid)
            made.add_map((step.source, step.first, step.count), to, *_arrays(step.functions), grid)
        else:
            angle = -1 if step.angle is None else step.angle
            kinds, tables, params = zip(_arrays(step.distances), _arrays(step.turn), strict=True)
            source = (step.source, step.bins, angle)
            made.add_boxes(source, to, step.shifted, step.stride, kinds, tables, params, _flat(step.grid))
    return made


def _arrays(functions: ByteFunctions | None) -> tuple[NDArray[np.int32], Float, Float]:
    if functions is None:
        return np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.float32)
    return functions.kinds, _flat(functions.tables), _flat(functions.params)


def _flat(values: Float) -> Float:
    return np.ascontiguousarray(values, np.float32).reshape(-1)
