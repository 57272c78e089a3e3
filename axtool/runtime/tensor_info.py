"""What one buffer of a device or one tensor of a model looks like: all that a postamble kernel knows of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """`real = (q - zero_point) * scale` for the numbers inside the padding.

    `shape` is that of the buffer, padding included; `padding` a (before, after) pair for each axis, none when it is
    left out. Scale and zero point are numbers, or arrays along the last axis for a tensor quantized per channel.
    An array of one number is that number. A fixed-point output is int32 with scale 2^-f. Raises ValueError for padding
    that does not fit the shape.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int8))
    name: str = ""
    padding: tuple[tuple[int, int], ...] = ()
    scale: float | NDArray[np.float32] = 1.0
    zero_point: int | NDArray[np.int32] = 0

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.int8,
        name: str = "",
        padding: Sequence[Sequence[int]] = (),
        scale: Any = 1.0,
        zero_point: Any = 0,
    ) -> None:
        sizes = tuple(int(size) for size in shape)
        pairs = tuple((int(before), int(after)) for before, after in padding) or ((0, 0),) * len(sizes)
        if len(pairs) != len(sizes):
            raise ValueError(f"{len(pairs)} pairs of padding for {len(sizes)} axes of '{name}' {sizes}")
        for axis, (size, (before, after)) in enumerate(zip(sizes, pairs, strict=True)):
            if size < 0:
                raise ValueError(f"axis {axis} of '{name}' {sizes} is less than nothing")
            if before < 0 or after < 0 or before + after > size:
                raise ValueError(f"padding {before}, {after} does not fit axis {axis} of '{name}' {sizes}")
        values: dict[str, Any] = {
            "shape": sizes, "dtype": np.dtype(dtype), "name": name, "padding": pairs,
            "scale": _number_or_array(scale, np.float32), "zero_point": _number_or_array(zero_point, np.int32),
        }  # fmt: skip
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @property
    def size(self) -> int:
        """Bytes of the buffer."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def unpadded_shape(self) -> tuple[int, ...]:
        """Sizes without the padding."""
        return tuple(size - before - after for size, (before, after) in zip(self.shape, self.padding, strict=True))

    @cached_property
    def inside(self) -> tuple[slice, ...]:
        """The slices that cut the padding off."""
        return tuple(
            slice(before, size - after) for size, (before, after) in zip(self.shape, self.padding, strict=True)
        )

    @property
    def per_tensor(self) -> bool:
        """Whether one scale and one zero point hold for the whole tensor."""
        return np.size(self.scale) == 1 and np.size(self.zero_point) == 1


def _number_or_array(value: Any, dtype: Any) -> Any:
    try:
        array = np.asarray(value, dtype)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"scale or zero point: {error}") from error
    return array.reshape(()).item() if array.size == 1 else array
