"""A tail in onnxruntime, and buffers of the device in front of it: what a fused kernel is held against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from axtool.runtime import TensorInfo

Buffers = list[NDArray[np.int8]]


def nhwc_info(shape: Sequence[int], rng: np.random.Generator, *, padded: bool = True, scale: float = 0.0) -> TensorInfo:
    """The buffer of an ONNX tensor (1, c, h, w), of rows (1, n, c) as (1, 1, n, c), or of (1, c) as (1, 1, 1, c):
    random scale and zero point, and padding on every axis but the first where `padded`, else on channels up to a
    multiple of 64."""
    n, c, h, w = shape if len(shape) == 4 else (1, shape[2], 1, shape[1]) if len(shape) == 3 else (*shape, 1, 1)
    around = [(0, 0), *(tuple(rng.integers(0, 4, 2)) for _ in "hwc")] if padded else [(0, 0)] * 3 + [(0, -c % 64)]
    sizes = [size + before + after for size, (before, after) in zip((n, h, w, c), around, strict=True)]
    step = scale or float(np.float32(rng.uniform(0.02, 0.12)))
    return TensorInfo(sizes, padding=around, scale=step, zero_point=int(rng.integers(-100, 100)))


def random_buffers(infos: Sequence[TensorInfo], rng: np.random.Generator) -> Buffers:
    """All 256 values, in the padding too: what lies there must never reach a result."""
    return [rng.integers(-128, 128, info.shape).astype(np.int8) for info in infos]


def dequantized(buffer: NDArray[np.int8], info: TensorInfo, shape: Sequence[int]) -> NDArray[np.float32]:
    """Depad, dequantize, align: the float32 tensor that the tail reads."""
    inside = buffer[info.inside].astype(np.float32)
    real = (inside - np.float32(info.zero_point)) * np.float32(info.scale)
    aligned = real if len(shape) == 3 else np.moveaxis(real, -1, 1)
    return np.ascontiguousarray(aligned).reshape(tuple(shape))


class Tail:
    """A tail graph, from a file or from bytes, on one thread."""

    def __init__(self, model: Path | bytes) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        source = model if isinstance(model, bytes) else str(model)
        self.session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_inputs()]
        self.shapes = [tuple(value.shape) for value in self.session.get_inputs()]

    def infos(self, rng: np.random.Generator, *, padded: bool = True, scale: float = 0.0) -> list[TensorInfo]:
        """A buffer for each input of the tail, in its order."""
        return [nhwc_info(shape, rng, padded=padded, scale=scale) for shape in self.shapes]

    def run(self, buffers: Sequence[NDArray[np.int8]], infos: Sequence[TensorInfo]) -> list[NDArray[np.float32]]:
        """The outputs of the source model, the long way."""
        triples = zip(buffers, infos, self.shapes, strict=True)
        feeds = [dequantized(buffer, info, shape) for buffer, info, shape in triples]
        return list(self.session.run(None, dict(zip(self.names, feeds, strict=True))))
