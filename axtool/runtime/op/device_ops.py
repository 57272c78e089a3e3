"""The operators around the device: what `op.load` puts before and behind the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.op.device_part import DevicePart, Lane
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.sim.images import assign_pixels

Array = NDArray[Any]


class NchwToNhwc(Operator):
    """(n, c, h, w) -> (n, h, w, c) for each value of rank 4 in channel-first order; the others as they are."""

    _lanes: tuple[Lane, ...]

    def __call__(self, *values: Array) -> Any:
        return _one_or_many(
            [_to_nhwc(lane, v) for lane, v in zip(self._lanes, _checked(self._lanes, values), strict=True)]
        )


class Quant(Operator):
    """float32 -> numbers (1, h, w, c): clip(rint(x / scale + zero_point)) in float32."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.scale, self.zero_point = scales(self._lanes), zero_points(self._lanes)
        super().__init__(name=name)

    def __call__(self, *values: Array) -> Any:
        return _one_or_many([lane.quantize(value) for lane, value in zip(self._lanes, values, strict=True)])


class Pad(Operator):
    """Numbers -> the device's buffers, padded with the zero point."""

    padding: tuple[tuple[tuple[int, int], ...], ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.padding = tuple(lane.info.padding for lane in self._lanes)
        super().__init__(name=name)

    def __call__(self, *values: Array) -> Any:
        return _one_or_many([pad(lane, value) for lane, value in zip(self._lanes, values, strict=True)])


class AxRuntimeModel(Operator):
    """The device part of a model: padded buffers in, a list of padded buffers out.

    The buffers that come out are the device's own memory: they hold until the next run.
    """

    model: str
    _part: DevicePart

    def __init__(self, part: DevicePart, *, model: str = "", name: str = "") -> None:
        self.model, self._part = model, part
        super().__init__(name=name)

    @property
    def outputs(self) -> tuple[Lane, ...]:
        """What the buffers that come out look like."""
        return self._part.outputs

    @property
    def part(self) -> DevicePart:
        """The device behind it."""
        return self._part

    def __call__(self, *buffers: Array) -> list[Array]:
        return self._part.run(buffers)


class Depad(Operator):
    """Buffers -> the numbers inside their padding."""

    padding: tuple[tuple[tuple[int, int], ...], ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.padding = tuple(lane.info.padding for lane in self._lanes)
        super().__init__(name=name)

    def __call__(self, buffers: Sequence[Array]) -> list[Array]:
        return [
            value if lane.tensor is None else value[lane.info.inside]
            for lane, value in zip(self._lanes, buffers, strict=True)
        ]


class Dequant(Operator):
    """Numbers -> float32: (q - zero_point) * scale."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.scale, self.zero_point = scales(self._lanes), zero_points(self._lanes)
        super().__init__(name=name)

    def __call__(self, numbers: Sequence[Array]) -> list[Array]:
        return [lane.dequantize(value) for lane, value in zip(self._lanes, numbers, strict=True)]


class _AlignToModelOutput(Operator):
    """float32 (n, h, w, c) -> the tensors of the source model, in its shapes and order of axes."""

    shapes: tuple[tuple[int, ...], ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.shapes = tuple(lane.info.shape if lane.tensor is None else lane.tensor.onnx_shape for lane in self._lanes)
        super().__init__(name=name)

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        return [lane.align(value) for lane, value in zip(self._lanes, values, strict=True)]


class _ListUnpack(Operator):
    """A list as separate arguments of the next operator; a list of one as that one."""

    def __call__(self, values: Sequence[Array]) -> Any:
        return _one_or_many(list(values))


class QuantizeTransposePad(Operator):
    """NchwToNhwc, Quant and Pad in one: quantized in the order that the model gives, then written to the buffer."""

    padding: tuple[tuple[tuple[int, int], ...], ...]
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    _lanes: tuple[Lane, ...]

    def __init__(self, lanes: Sequence[Lane], *, name: str = "") -> None:
        self._lanes = tuple(lanes)
        self.padding = tuple(lane.info.padding for lane in self._lanes)
        self.scale, self.zero_point = scales(self._lanes), zero_points(self._lanes)
        super().__init__(name=name)

    def __call__(self, *values: Array) -> Any:
        pairs = zip(self._lanes, _checked(self._lanes, values), strict=True)
        return _one_or_many([pad(lane, lane.quantize(value)) for lane, value in pairs])


def is_nchw(lane: Lane) -> bool:
    """Whether a lane takes (n, c, h, w) and the device (n, h, w, c)."""
    return lane.tensor is not None and lane.tensor.layout == "channel_first" and len(lane.tensor.onnx_shape) == 4


def pad(lane: Lane, numbers: Array) -> Array:
    """Numbers (1, h, w, c) in a buffer of the lane's shape, the rest of it the zero point."""
    if lane.tensor is None or numbers.shape == lane.info.shape:
        return numbers
    buffer = np.full(lane.info.shape, lane.info.zero_point, numbers.dtype)
    assign_pixels(buffer[lane.info.inside], numbers)
    return buffer


def scales(lanes: Sequence[Lane]) -> tuple[float, ...]:
    """The scale of each lane that is quantized; of one quantized per channel, the first."""
    return tuple(float(np.ravel(lane.info.scale)[0]) for lane in lanes if lane.tensor is not None)


def zero_points(lanes: Sequence[Lane]) -> tuple[int, ...]:
    """The zero point of each lane that is quantized; of one quantized per channel, the first."""
    return tuple(int(np.ravel(lane.info.zero_point)[0]) for lane in lanes if lane.tensor is not None)


def _to_nhwc(lane: Lane, value: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(value, 1, -1)) if is_nchw(lane) else value


def _checked(lanes: Sequence[Lane], values: Sequence[Any]) -> list[Array]:
    """The values as arrays, each of the shape that its input has. Raises ValueError naming the one that is not."""
    if len(values) != len(lanes):
        names = ", ".join(lane.name for lane in lanes)
        raise ValueError(f"the model takes {len(lanes)} inputs ({names}), got {len(values)}")
    arrays = [np.asarray(value) for value in values]
    for index, (lane, array) in enumerate(zip(lanes, arrays, strict=True)):
        wanted = lane.info.shape if lane.tensor is None else lane.tensor.onnx_shape
        if (1, *array.shape) == wanted:  # one picture, without its batch of one
            array = arrays[index] = array[None]
        if array.shape != wanted:
            raise ValueError(f"input '{lane.name}' wants {_by(wanted)}, got {_by(array.shape)}")
    return arrays


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _one_or_many(values: list[Array]) -> Any:
    return values[0] if len(values) == 1 else Unpacked(values)
