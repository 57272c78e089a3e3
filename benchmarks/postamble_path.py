"""The path that a postamble kernel replaces, at its best: depad, dequantize and align in NumPy, then onnxruntime.

Every array is allocated once, of large pages where the system has them. Each tensor is dequantized in the fastest of a
few ways, and onnxruntime writes into arrays that are bound to its outputs, unless a plain run is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from axtool.runtime import TensorInfo
from axtool.runtime.pool import new_array

Buffers = list[NDArray[np.int8]]
Floats = list[NDArray[np.float32]]
Front = Callable[[NDArray[np.int8], TensorInfo, NDArray[np.float32]], None]

_SCALE = 0.05
_TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


class Path:
    """What runs without a kernel."""

    def __init__(self, tail: bytes, seed: int, *, threads: int = 1) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = ort.InferenceSession(tail, options, providers=["CPUExecutionProvider"])
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        self.names, shapes = [i.name for i in inputs], [tuple(i.shape) for i in inputs]
        rng = np.random.default_rng(seed)
        self.infos = [_info(name, shape, rng) for name, shape in zip(self.names, shapes, strict=True)]
        self.floats: Floats = [new_array(shape, np.float32) for shape in shapes]
        self.outputs: list[Any] = [new_array(o.shape, _TYPES[o.type]) for o in outputs]
        self.fronts: list[Front] = [_bytes_first for _ in inputs]
        self.bound = True
        self._binding = self.session.io_binding()
        for name, array in zip(self.names, self.floats, strict=True):
            self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for output, array in zip(outputs, self.outputs, strict=True):
            self._binding.bind_output(output.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def front(self, buffers: Buffers) -> None:
        """Depad, dequantize and align."""
        for front, buffer, info, out in zip(self.fronts, buffers, self.infos, self.floats, strict=True):
            front(buffer, info, out)

    def run(self, buffers: Buffers) -> list[Any]:
        """The outputs of the source model; they are written over by the next run."""
        self.front(buffers)
        if not self.bound:
            return list(self.session.run(None, dict(zip(self.names, self.floats, strict=True))))
        self.session.run_with_iobinding(self._binding)
        return self.outputs

    def settle(self, buffers: Buffers) -> None:
        """Keep what is fastest: a way to dequantize for each tensor, and bound outputs or not."""
        for index, (buffer, info, out) in enumerate(zip(buffers, self.infos, self.floats, strict=True)):
            times = [_fastest(partial(front, buffer, info, out)) for front in FRONTS]
            self.fronts[index] = FRONTS[int(np.argmin(times))]
        seconds = {}
        for self.bound in (True, False):
            seconds[self.bound] = _fastest(partial(self.run, buffers))
        self.bound = seconds[True] <= seconds[False]


def _info(name: str, shape: Sequence[int], rng: np.random.Generator) -> TensorInfo:
    """The buffer of a tensor (1, c, h, w), or of rows (1, n, c): channels padded to a multiple of 4, as the device
    writes them."""
    n, c, h, w = shape if len(shape) == 4 else (1, shape[2], 1, shape[1])
    padding = [(0, 0)] * 3 + [(0, -c % 4)]
    return TensorInfo(
        (n, h, w, c + -c % 4), name=name, padding=padding, scale=_SCALE, zero_point=int(rng.integers(-9, 9))
    )


def _aligned(buffer: NDArray[np.int8], info: TensorInfo, out: NDArray[np.float32]) -> NDArray[np.int8]:
    """The numbers inside the padding, as a view in the order of axes that the tail wants."""
    inside = buffer[info.inside]
    return np.moveaxis(inside, -1, 1) if out.ndim == 4 else inside[0]


def _bytes_first(buffer: NDArray[np.int8], info: TensorInfo, out: NDArray[np.float32]) -> None:
    """Transpose bytes, then widen and scale."""
    numbers = np.ascontiguousarray(_aligned(buffer, info, out))
    np.subtract(numbers, np.float32(info.zero_point), out=out, dtype=np.float32)
    np.multiply(out, np.float32(info.scale), out=out)


def _widened_first(buffer: NDArray[np.int8], info: TensorInfo, out: NDArray[np.float32]) -> None:
    """Transpose while widening."""
    np.subtract(_aligned(buffer, info, out), np.float32(info.zero_point), out=out, dtype=np.float32)
    np.multiply(out, np.float32(info.scale), out=out)


def _copied_first(buffer: NDArray[np.int8], info: TensorInfo, out: NDArray[np.float32]) -> None:
    """Transpose bytes, widen them by a copy, then scale in place."""
    np.copyto(out, np.ascontiguousarray(_aligned(buffer, info, out)))
    np.subtract(out, np.float32(info.zero_point), out=out)
    np.multiply(out, np.float32(info.scale), out=out)


FRONTS: tuple[Front, ...] = (_bytes_first, _widened_first, _copied_first)


def _fastest(run: Callable[[], object], times: int = 5) -> float:
    """Seconds of CPU time of the fastest of a few runs."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)
