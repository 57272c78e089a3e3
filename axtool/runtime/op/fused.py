"""Adjacent transforms as one operator, with the same bits: what `Seq.optimized()` puts in their place.

From a picture to a tensor every value depends on one byte and its channel, so the steps are run once on all 256 bytes,
and the pictures are looked up. The border that letterbox adds is written as the number that its colour becomes, and
red and blue change places while the planes are split, after scaling has made the picture small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.image import ColorFormat, Image
from axtool.runtime.op.operator import Operator
from axtool.runtime.op.tensors import (
    LinearScaling,
    Normalize,
    TensorLayout,
    ToDtype,
    ToImageTensor,
    ToTensor,
    looked_up,
)
from axtool.runtime.op.transforms import ColorConvert, Letterbox, Pixels, pixels_of

SWAPPED = {(ColorFormat.RGB, ColorFormat.BGR), (ColorFormat.BGR, ColorFormat.RGB)}


class PixelsToTensor(Operator):
    """The operators of `steps` in one pass over the pixels.

    They are an optional `color_convert`, an optional `letterbox`, then `to_tensor` or `to_image_tensor` with what
    follows it by value. Whatever is no uint8 picture goes through the steps one by one.
    """

    steps: tuple[Operator, ...]

    def __init__(self, steps: Sequence[Operator], *, name: str = "") -> None:
        self.steps = tuple(steps)
        self._color = next((step for step in steps if isinstance(step, ColorConvert)), None)
        self._letterbox = next((step for step in steps if isinstance(step, Letterbox)), None)
        self._values = [step for step in steps if not isinstance(step, (ColorConvert, Letterbox))]
        self._tables: dict[int, NDArray[Any] | None] = {}
        super().__init__(name=name)

    def __call__(self, image: Any) -> Any:
        pixels, swapped = self.pixels(image)
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        tables = self.tables_of(channels)
        if tables is None:
            return _run(self.steps, image)
        small, top, left = self.placed(pixels)
        h, w = small.shape[:2]
        made = np.empty((channels, *self.size_of(pixels)), tables.dtype)
        for plane, table, byte in zip(made, tables, self.fill_of(channels), strict=True):
            plane[:top], plane[top + h :] = table[byte], table[byte]
            plane[top : top + h, :left], plane[top : top + h, left + w :] = table[byte], table[byte]
        order = slice(None, None, -1 if swapped else 1)
        looked_up(small, tables[order], made[order, top : top + h, left : left + w])
        return made

    def pixels(self, image: Any) -> tuple[Pixels, bool]:
        """The bytes to look up, and whether their channels come out in the other order."""
        swapped = self._swaps(image)
        if self._color is not None and not swapped:
            image = self._color(image)
        return pixels_of(image, "letterbox" if self._letterbox else "to_tensor"), swapped

    def size_of(self, pixels: Pixels) -> tuple[int, int]:
        """(height, width) of what is made of a picture."""
        return pixels.shape[:2] if self._letterbox is None else (self._letterbox.height, self._letterbox.width)

    def placed(self, pixels: Pixels) -> tuple[Pixels, int, int]:
        """The picture as it lies in the result, and the row and the column where it begins. Notes the move."""
        return (pixels, 0, 0) if self._letterbox is None else self._letterbox.placed(pixels)

    def fill_of(self, channels: int) -> tuple[int, ...]:
        """The byte of each channel around the picture."""
        return (0,) * channels if self._letterbox is None else self._letterbox.fill_of(channels)

    def _swaps(self, image: Any) -> bool:
        """Whether the change of colours is one of red and blue, which scaling does not mind."""
        if self._color is None:
            return False
        src = image.color_format if isinstance(image, Image) else self._color.src
        known = isinstance(image, (Image, np.ndarray)) and (src, self._color.dst) in SWAPPED
        plain = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        return known and (isinstance(image, Image) or plain)

    def tables_of(self, channels: int) -> NDArray[Any] | None:
        """What each byte becomes in each channel, (channels, 256); None where the steps must say why they cannot."""
        if channels not in self._tables:
            every = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], channels, axis=2)
            try:
                table = _run(self._values, every).reshape(channels, 256)
            except ValueError:
                table = None
            # OpenCV looks up floats of 32 bits; the other types are rare
            self._tables[channels] = table if table is not None and table.dtype == np.float32 else None
        return self._tables[channels]


def fused(operators: Sequence[Operator]) -> list[Operator]:
    """The operators with every run of fusible ones replaced by one; named operators stay."""
    made: list[Operator] = []
    at = 0
    while at < len(operators):
        end = _end(operators, at)
        made.append(operators[at] if end - at < 2 else PixelsToTensor(operators[at:end]))
        at = max(end, at + 1)
    return made


def _end(operators: Sequence[Operator], start: int) -> int:
    """Where the run of fusible operators that begins at `start` ends; `start` where none begins."""
    at = start
    takes = partial(_is, operators)
    at += takes(at, ColorConvert)
    at += takes(at, Letterbox)
    if not takes(at, ToTensor, ToImageTensor):
        return start
    at += 1
    while takes(at, ToDtype) or (takes(at, Normalize, LinearScaling) and _by_plane(operators[at])):
        at += 1
    return at


def _is(operators: Sequence[Operator], at: int, *kinds: type[Operator]) -> bool:
    return at < len(operators) and type(operators[at]) in kinds and not operators[at].name


def _by_plane(operator: Operator) -> bool:
    return isinstance(operator, (Normalize, LinearScaling)) and operator.layout is TensorLayout.CHW


def _run(steps: Sequence[Operator], value: Any) -> Any:
    for step in steps:
        value = step(value)
    return value
