"""`Case`: a tail, the kernel that stands for it, and how many times faster than the long way it is meant to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """`tail()` makes the graph, whose inputs are the device tensors in their order; `kernel` is a built-in name.

    `wanted` is the speed asked for, as a ratio to depad + dequantize + align + onnxruntime on one thread.
    """

    name: str
    tail: Callable[[], bytes]
    kernel: str
    params: Mapping[str, Any]
    model_width: int
    model_height: int
    wanted: float
