"""What every built-in kernel refuses, each with the tensor, what was seen, what was wanted and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import nearest
from axtool.runtime.mega.byte_functions import native_module
from axtool.runtime.tensor_info import TensorInfo

DROP = "drop the Postamble to run the onnx tail"
BACKENDS = ("auto", "scalar", "avx2", "avx512", "neon")


def named(info: TensorInfo, index: int) -> str:
    """`output 2 'cv2.0' (1, 80, 80, 64)`: which tensor a message is about."""
    label = f" '{info.name}'" if info.name else ""
    return f"output {index}{label} {info.unpadded_shape}"


def check_infos(infos: Sequence[TensorInfo]) -> None:
    """Raise ValueError unless every tensor is int8, (1, h, w, c), with one scale and one zero point."""
    if not infos:
        raise ValueError(f"the model gives no tensor; {DROP}")
    for index, info in enumerate(infos):
        where = named(info, index)
        if info.dtype != np.int8:
            raise ValueError(f"{where} is {info.dtype}, want int8; {DROP}")
        if len(info.shape) != 4 or info.shape[0] != 1:
            raise ValueError(f"{where}: want a buffer (1, h, w, c); {DROP}")
        if not info.per_tensor:
            count = max(np.size(info.scale), np.size(info.zero_point))
            raise ValueError(f"{where} has {count} scales: needs a per-tensor output quantization; {DROP}")


def check_backend(backend: str) -> str:
    """The backend, or ValueError for a word that is none or a backend that this CPU does not have."""
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend '{backend}'; {nearest(backend, BACKENDS)}")
    native = native_module()
    if native is not None and backend not in ("auto", *native.postamble_backends()):
        known = ", ".join(("auto", *native.postamble_backends()))
        raise ValueError(f"backend '{backend}' does not exist on this CPU; there are {known}")
    return backend


def check_count(what: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`, or ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{what} is {value!r}, want a whole number of at least {least}")
    return value


def check_tensors(tensors: Sequence[NDArray[Any]], infos: Sequence[TensorInfo]) -> None:
    """Raise ValueError for buffers that are not the ones described: a count, a shape, a type."""
    if len(tensors) != len(infos):
        raise ValueError(f"got {len(tensors)} tensors, want {len(infos)}")
    for index, (tensor, info) in enumerate(zip(tensors, infos, strict=True)):
        if tensor.shape != info.shape or tensor.dtype != info.dtype:
            raise ValueError(f"tensor {index} is {tensor.dtype} {tensor.shape}, want {info.dtype} {info.shape}")
