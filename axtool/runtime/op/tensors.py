"""Operators from a picture to a tensor: order of axes, type, and the affine map to what the model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from axtool.runtime.op.operator import Operator, choice
from axtool.runtime.op.transforms import pixels_of

Array = NDArray[Any]


class TensorLayout(StrEnum):
    """Where the channels of a tensor are."""

    CHW = "CHW"
    HWC = "HWC"


class ToImageTensor(Operator):
    """A picture (h, w, c) as (c, h, w), values as they are."""

    def __call__(self, image: Any) -> Array:
        return _planes(pixels_of(image, "to_image_tensor"))


class ToTensor(Operator):
    """A picture (h, w, c) of uint8 as float32 (c, h, w) in [0, 1]."""

    def __call__(self, image: Any) -> Array:
        pixels = pixels_of(image, "to_tensor")
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        return looked_up(pixels, np.broadcast_to(_unit_table(), (channels, 256)))


class ToDtype(Operator):
    """Another type; with `scale`, uint8 to [0, 1] and int16 to [-1, 1]."""

    dtype: DTypeLike = np.float32
    scale: bool = False

    def __call__(self, x: Any) -> Array:
        array = np.asarray(x)
        if not self.scale:
            return array.astype(self.dtype)
        largest = {"uint8": 255, "int16": 32767}.get(array.dtype.name)
        if largest is None:
            raise ValueError(f"to_dtype scales uint8 and int16, got {array.dtype}")
        return (array / np.float32(largest)).astype(self.dtype)


class Normalize(Operator):
    """(x - mean) / std for each channel."""

    mean: Sequence[float]
    std: Sequence[float]
    layout: TensorLayout | str = TensorLayout.CHW

    def __post_init__(self) -> None:
        self.layout = choice(TensorLayout, self.layout, "layout")
        if any(value == 0 for value in self.std):
            raise ValueError(f"normalize: a std of 0 in {list(self.std)}")

    def __call__(self, x: Any) -> Array:
        array = np.asarray(x, np.float32)
        mean, std = (_by_channel(v, array, self.layout, "normalize") for v in (self.mean, self.std))
        return np.asarray((array - mean) / std)


class LinearScaling(Operator):
    """x / scale + shift for each channel, or for all where one value is given."""

    scale: Sequence[float]
    shift: Sequence[float] = (0.0,)
    layout: TensorLayout | str = TensorLayout.CHW

    def __post_init__(self) -> None:
        self.layout = choice(TensorLayout, self.layout, "layout")
        if any(value == 0 for value in self.scale):
            raise ValueError(f"linear_scaling: a scale of 0 in {list(self.scale)}")

    def __call__(self, x: Any) -> Array:
        array = np.asarray(x, np.float32)
        scale, shift = (_by_channel(v, array, self.layout, "linear_scaling") for v in (self.scale, self.shift))
        return np.asarray(array / scale + shift)


class ContrastNormalize(Operator):
    """Values to [0, 1] between the least and the greatest; all 0 where they are equal."""

    def __call__(self, x: Any) -> Array:
        array = np.asarray(x, np.float32)
        low, high = array.min(), array.max()
        return np.zeros_like(array) if low == high else np.asarray((array - low) / (high - low))


@lru_cache(maxsize=1)
def _unit_table() -> NDArray[np.float32]:
    return (np.arange(256) / 255).astype(np.float32)


def looked_up(pixels: NDArray[np.uint8], tables: Array, out: Array | None = None) -> Array:
    """`tables[c][pixels[..., c]]` as planes (c, h, w) of the type of the tables (c, 256)."""
    import cv2

    planes = [pixels] if pixels.ndim == 2 else cv2.split(pixels)
    made = np.empty((len(planes), *pixels.shape[:2]), tables.dtype) if out is None else out
    for plane, table, target in zip(planes, tables, made, strict=True):
        if not np.may_share_memory(cv2.LUT(plane, np.ascontiguousarray(table), dst=target), target):
            raise AssertionError("OpenCV wrote the plane elsewhere")
    return made


def _planes(pixels: Array) -> Array:
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _by_channel(values: Sequence[float], x: Array, layout: Any, who: str) -> Array:
    """The values along the channel axis of x. Raises ValueError where their number is another."""
    axis = x.ndim - (3 if layout is TensorLayout.CHW else 1)
    if x.ndim < 3 or len(values) not in (1, x.shape[axis]):
        raise ValueError(f"{who}: {len(values)} values for a tensor {x.shape} of layout {layout.value}")
    return np.asarray(values, np.float32).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
