"""What a model wants to be fed: name, shape and element type of each input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input. A dimension of None (or 0) may have any size. `dtype` is a NumPy name: float32, int64, uint8, …"""

    name: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(d or None for d in self.shape))

    @property
    def is_float(self) -> bool:
        """True for float16, float32 and float64."""
        return np.dtype(self.dtype).kind == "f"

    def matches(self, shape: Sequence[int]) -> bool:
        """True when an array of `shape` is exactly one feed of this input."""
        return fits(shape, self.shape)

    def __str__(self) -> str:
        return f"'{self.name}' {self.dtype} {show_shape(self.shape)}"


def fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """True when each dimension is the wanted one, or any where None is wanted."""
    return len(shape) == len(wanted) and all(w is None or s == w for s, w in zip(shape, wanted, strict=True))


def show_shape(shape: Sequence[int | None]) -> str:
    """A shape as text: [1, 3, ?, ?]."""
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
