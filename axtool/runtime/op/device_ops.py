"""The operators around the device: what `op.load` puts before and behind the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from axtool.inputs.conform import finite
from axtool.runtime.op.device_part import DevicePart, Lane
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.pool import Pool
from axtool.sim.images import assign_pixels

Array = NDArray[Any]


class _OverLanes(Operator):
    """An operator that does one thing to each of a model's inputs or outputs.

    What is known of them is worked out once: `padding` of every lane, and `scale` and `zero_point` of those that are
    quantized, where one quantized per channel shows its first.
    """

    _lanes: Sequence[Lane]
    portable: ClassVar[bool] = False  # a model is saved as a whole

    def __post_init__(self) -> None:
        quantized = [lane.info for lane in self._lanes if lane.tensor is not None]
        self.padding = tuple(lane.info.padding for lane in self._lanes)
        self.scale = tuple(float(np.ravel(info.scale)[0]) for info in quantized)
        self.zero_point = tuple(int(np.ravel(info.zero_point)[0]) for info in quantized)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The inputs or outputs."""
        return tuple(self._lanes)


class NchwToNhwc(_OverLanes):
    """(n, c, h, w) -> (n, h, w, c) for each value of rank 4 in channel-first order; the others as they are.

    It gives views: what is moved in memory are the bytes that `Pad` writes, not the floats.
    """

    def __call__(self, *values: Array) -> Any:
        return _one_or_many(_channels_last(self._lanes, values))


class Quant(_OverLanes):
    """float32 -> numbers (1, h, w, c): clip(rint(x / scale + zero_point)) in float32."""

    scale: tuple[float, ...] = field(init=False)
    zero_point: tuple[int, ...] = field(init=False)

    def __call__(self, *values: Array) -> Any:
        return _one_or_many([lane.quantize(value) for lane, value in zip(self._lanes, values, strict=True)])


class _Padding(_OverLanes):
    """What fills buffers of the device: those that nobody holds any more are filled again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pools = [
            None if lane.tensor is None else Pool(lane.info.shape, lane.info.dtype, fill=lane.info.zero_point)
            for lane in self._lanes
        ]

    def padded(self, index: int, numbers: Array) -> Array:
        """Numbers (1, h, w, c) of a lane in a buffer of its shape, the rest of which is the zero point."""
        pool, info = self._pools[index], self._lanes[index].info
        if pool is None or (numbers.shape == info.shape and numbers.flags.c_contiguous):
            return numbers
        buffer = pool.take()
        assign_pixels(buffer[info.inside], numbers)
        return buffer

    def buffer(self, index: int) -> Array:
        """A buffer of a lane that is quantized, with the zero point in its padding and anything else inside."""
        pool = self._pools[index]
        assert pool is not None
        return pool.take()


class Pad(_Padding):
    """Numbers -> the device's buffers, padded with the zero point."""

    padding: tuple[tuple[tuple[int, int], ...], ...] = field(init=False)

    def __call__(self, *values: Array) -> Any:
        if len(values) != len(self._lanes):
            raise ValueError(f"the model takes {len(self._lanes)} inputs, got {len(values)}")
        return _one_or_many([self.padded(index, value) for index, value in enumerate(values)])


class AxRuntimeModel(Operator):
    """The device part of a model: padded buffers in, a list of padded buffers out, which are the caller's own."""

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


class Depad(_OverLanes):
    """Buffers -> the numbers inside their padding."""

    padding: tuple[tuple[tuple[int, int], ...], ...] = field(init=False)

    def __call__(self, buffers: Sequence[Array]) -> list[Array]:
        return [
            value if lane.tensor is None else value[lane.info.inside]
            for lane, value in zip(self._lanes, buffers, strict=True)
        ]


class Dequant(_OverLanes):
    """Numbers -> float32: (q - zero_point) * scale."""

    scale: tuple[float, ...] = field(init=False)
    zero_point: tuple[int, ...] = field(init=False)

    def __call__(self, numbers: Sequence[Array]) -> list[Array]:
        return [lane.dequantize(value) for lane, value in zip(self._lanes, numbers, strict=True)]


class _AlignToModelOutput(_OverLanes):
    """float32 (n, h, w, c) -> the tensors of the source model, in its shapes and order of axes."""

    shapes: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shapes = tuple(lane.info.shape if lane.tensor is None else lane.tensor.onnx_shape for lane in self._lanes)

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        return [lane.align(value) for lane, value in zip(self._lanes, values, strict=True)]


class _ListUnpack(Operator):
    """A list as separate arguments of the next operator; a list of one as that one."""

    def __call__(self, values: Sequence[Array]) -> Any:
        return _one_or_many(list(values))


class QuantizeTransposePad(_Padding):
    """NchwToNhwc, Quant and Pad in one."""

    padding: tuple[tuple[tuple[int, int], ...], ...] = field(init=False)
    scale: tuple[float, ...] = field(init=False)
    zero_point: tuple[int, ...] = field(init=False)

    def __call__(self, *values: Array) -> Any:
        floats = _channels_last(self._lanes, values)
        numbers = [lane.quantize(value) for lane, value in zip(self._lanes, floats, strict=True)]
        return _one_or_many([self.padded(index, value) for index, value in enumerate(numbers)])


def is_nchw(lane: Lane) -> bool:
    """Whether a lane takes (n, c, h, w) and the device (n, h, w, c)."""
    return lane.tensor is not None and lane.tensor.layout == "channel_first" and len(lane.tensor.onnx_shape) == 4


def _channels_last(lanes: Sequence[Lane], values: Sequence[Any]) -> list[Array]:
    pairs = zip(lanes, _checked(lanes, values), strict=True)
    return [value.transpose(0, 2, 3, 1) if is_nchw(lane) else value for lane, value in pairs]


def _checked(lanes: Sequence[Lane], values: Sequence[Any]) -> list[Array]:
    """The values as arrays, each as its input wants it. Raises ValueError naming one of another shape, or of no floats
    where the model was trained in them; UsageError for NaN or infinity.
    """
    if len(values) != len(lanes):
        names = ", ".join(lane.name for lane in lanes)
        raise ValueError(f"the model takes {len(lanes)} inputs ({names}), got {len(values)}")
    arrays = [np.asarray(value) for value in values]
    for index, (lane, array) in enumerate(zip(lanes, arrays, strict=True)):
        wanted = lane.info.shape if lane.tensor is None else lane.tensor.onnx_shape
        if (1, *array.shape) == wanted:  # one picture, without its batch of one
            array = arrays[index] = array[None]
        if array.shape != wanted:
            raise ValueError(
                f"input '{lane.name}' wants {_by(wanted)}, got {_by(array.shape)}; prepare it as the model wants it: "
                "for a picture, op.letterbox(...) and op.to_tensor()"
            )
        if lane.tensor is not None and array.dtype.kind != "f":
            raise ValueError(
                f"input '{lane.name}' wants float32 as the model was trained, got {array.dtype}; op.to_tensor() gives "
                "pixels / 255, op.to_image_tensor() and op.to_dtype() give 0 to 255"
            )
        finite(array, f"input '{lane.name}'")
    return arrays


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar or an object that is no array"


def _one_or_many(values: list[Array]) -> Any:
    return values[0] if len(values) == 1 else Unpacked(values)
