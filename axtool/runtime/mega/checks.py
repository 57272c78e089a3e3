"""What every built-in kernel refuses, each with the tensor, what was seen, what was wanted and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_functions import native_module
from axtool.runtime.mega.params import check_choice, shown
from axtool.runtime.tensor_info import TensorInfo

DROP = "drop the Postamble to run the onnx tail"
MOST_TENSORS = 64
MOST_BYTES = 1 << 30  # of a buffer
LEAST_SCALE, MOST_SCALE = 1e-30, 1e30  # beyond these, products of a scale leave float32
MOST_THREADS = 256
BACKENDS = ("auto", "scalar", "avx2", "avx512", "neon")


def named(info: TensorInfo, index: int) -> str:
    """`output 2 'cv2.0' (1, 80, 80, 64)`: which tensor a message is about."""
    label = f" '{info.name}'" if info.name else ""
    return f"output {index}{label} {info.unpadded_shape}"


def check_infos(infos: Sequence[TensorInfo]) -> tuple[TensorInfo, ...]:
    """The tensors, or ValueError unless every tensor is int8, (1, h, w, c), with one scale and one zero point."""
    if not isinstance(infos, (list, tuple)) or not all(isinstance(info, TensorInfo) for info in infos):
        raise ValueError(f"output_infos is {shown(infos)}, want a TensorInfo for each output")
    if not infos:
        raise ValueError(f"the model gives no tensor; {DROP}")
    if len(infos) > MOST_TENSORS:
        raise ValueError(f"the model gives {len(infos)} tensors, want at most {MOST_TENSORS}; {DROP}")
    for index, info in enumerate(infos):
        where = named(info, index)
        if info.dtype != np.int8:
            raise ValueError(f"{where} is {info.dtype}, want int8; {DROP}")
        if len(info.shape) != 4 or info.shape[0] != 1:
            raise ValueError(f"{where}: want a buffer (1, h, w, c); {DROP}")
        if not info.per_tensor:
            count = max(np.size(info.scale), np.size(info.zero_point))
            raise ValueError(f"{where} has {count} scales: needs a per-tensor output quantization; {DROP}")
        if not LEAST_SCALE <= float(info.scale) <= MOST_SCALE:
            raise ValueError(f"{where}: scale is {info.scale}, want a number above 0; {DROP}")
        if not -128 <= int(info.zero_point) <= 127:
            raise ValueError(f"{where}: zero_point is {info.zero_point}, want -128 to 127; {DROP}")
        if 0 in info.unpadded_shape or math.prod(info.shape) > MOST_BYTES:
            raise ValueError(f"{where}: {math.prod(info.shape):,} bytes, want 1 to {MOST_BYTES:,}; {DROP}")
    return tuple(infos)


def check_backend(backend: str) -> str:
    """The backend, or ValueError for a word that is none or a backend that this CPU does not have."""
    check_choice("backend", backend, BACKENDS)
    native = native_module()
    if native is not None and backend not in ("auto", *native.postamble_backends()):
        known = ", ".join(("auto", *native.postamble_backends()))
        raise ValueError(f"backend '{backend}' does not exist on this CPU; there are {known}")
    return backend


def check_tensors(tensors: Sequence[NDArray[Any]], infos: Sequence[TensorInfo]) -> list[NDArray[Any]]:
    """The buffers, each with the bytes of a pixel one behind the other, as the loops read them.

    Raises ValueError for buffers that are not the ones described: a count, a shape, a type.
    """
    if len(tensors) != len(infos):
        raise ValueError(f"got {len(tensors)} tensors, want {len(infos)}")
    for index, (tensor, info) in enumerate(zip(tensors, infos, strict=True)):
        if not isinstance(tensor, np.ndarray):
            raise ValueError(f"tensor {index} is a {type(tensor).__name__}, want {info.dtype} {info.shape}")
        if tensor.shape != info.shape or tensor.dtype != info.dtype:
            raise ValueError(f"tensor {index} is {tensor.dtype} {tensor.shape}, want {info.dtype} {info.shape}")
    return [tensor if tensor.flags.c_contiguous else np.ascontiguousarray(tensor) for tensor in tensors]
