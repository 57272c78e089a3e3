"""A picture to the device's buffer in one pass over its pixels: what a model's input is made of is one look-up a byte.

Letterbox and colours only move bytes, and what follows them, quantization too, makes one number of each byte of a
channel: 256 of them, worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import quantize_host
from axtool.runtime.op.device_ops import QuantizeTransposePad, is_nchw
from axtool.runtime.op.fused import PixelsToTensor
from axtool.runtime.op.load import LoadedSeq
from axtool.runtime.op.operator import Operator
from axtool.runtime.op.tensors import ToTensor

Bytes = NDArray[np.int8]


class PixelsToBuffer(Operator):
    """What makes a tensor of a picture, and what makes the device's buffer of that, as one; the same bits.

    Whatever is no uint8 picture that fills the model's input goes through both, one after the other.
    """

    front: PixelsToTensor
    quantize: QuantizeTransposePad
    portable: ClassVar[bool] = False  # it is saved as the operators that it was made of

    def __post_init__(self) -> None:
        (self._lane,) = self.quantize.lanes
        assert self._lane.tensor is not None
        self._shape, self._format = self._lane.tensor.onnx_shape, self._lane.tensor.format
        self._tables: dict[int, Bytes | None] = {}
        self._at_front = all(before == 0 for before, _ in self._lane.info.padding)

    def __call__(self, image: Any) -> Any:
        pixels, swapped = self.front.pixels(image)
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        tables = self._tables_of(channels)
        if tables is None or (1, channels, *self.front.size_of(pixels)) != self._shape:
            return self.quantize(self.front(image))
        buffer = self.quantize.buffer(0)
        inside = buffer[self._lane.info.inside][0]  # (h, w, c)
        small, top, left = self.front.placed(pixels)
        h, w = small.shape[:2]
        if (h, w) != inside.shape[:2]:
            border = tables[np.arange(channels), self.front.fill_of(channels)]
            inside[:top], inside[top + h :] = border, border
            inside[top : top + h, :left], inside[top : top + h, left + w :] = border, border
        planes = self._planes(small, tables, swapped)
        self._write(planes, buffer[0, top : top + h, left : left + w], inside[top : top + h, left : left + w])
        return buffer

    def _planes(self, pixels: NDArray[np.uint8], tables: Bytes, swapped: bool) -> list[Bytes]:
        """The numbers of each channel, in the order of the model."""
        import cv2

        planes = [pixels] if pixels.ndim == 2 else list(cv2.split(pixels))
        ordered = planes[::-1] if swapped else planes
        return [cv2.LUT(plane, table) for plane, table in zip(ordered, tables, strict=True)]

    def _write(self, planes: list[Bytes], padded: Bytes, inside: Bytes) -> None:
        """Planes (h, w) to pixels of the buffer; `inside` are those of `padded` without their padding."""
        import cv2

        if padded.shape[2] == 4 and len(planes) == 3 and padded.strides[2] == 1 and self._at_front:
            spare = np.full(planes[0].shape, self._lane.info.zero_point, np.int8)
            if np.may_share_memory(cv2.merge([*planes, spare], dst=padded), padded):
                return
        for channel, plane in enumerate(planes):
            inside[..., channel] = plane

    def _tables_of(self, channels: int) -> Bytes | None:
        """The number of each byte of each channel, (channels, 256); None where there is no such table."""
        if channels not in self._tables:
            floats = self.front.tables_of(channels)
            self._tables[channels] = None if floats is None else quantize_host(floats, self._format).astype(np.int8)
        return self._tables[channels]


def joined(operators: Sequence[Operator]) -> list[Operator]:
    """The operators, with what makes a tensor of a picture taken into the model behind it; named models stay."""
    made = list(operators)
    for at in reversed(range(len(made) - 1)):
        front, model = made[at], made[at + 1]
        if type(front) is ToTensor and not front.name:
            front = PixelsToTensor([front])
        if isinstance(front, PixelsToTensor) and isinstance(model, LoadedSeq) and not model.name:
            quantize = model.operators[0]
            if isinstance(quantize, QuantizeTransposePad) and _takes_bytes(quantize):
                model = model.copy()
                model.steps = (PixelsToBuffer(front, quantize), *model.steps[1:])
                made[at : at + 2] = [model]
    return made


def _takes_bytes(quantize: QuantizeTransposePad) -> bool:
    """Whether there is one input, a picture by channels with one scale for all of them, in int8."""
    if len(quantize.lanes) != 1:
        return False
    (lane,) = quantize.lanes
    return is_nchw(lane) and lane.info.dtype == np.int8 and lane.info.per_tensor
