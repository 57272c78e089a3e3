"""One device stage that is ready to run: float tensors in ONNX order in, float tensors in ONNX order out.

The simulated device is the default one: `axtool.sim` executes the plan's commands over two memory images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.storing import to_numbers, to_reals
from axtool.runtime.watch import Watch
from axtool.sim.images import (
    Numbers,
    assign_pixels,
    host_slot,
    new_images,
    numbers_of,
    open_plan,
    read_tensor,
    stored_pixels,
    write_tensor,
)
from axtool.types import Plan, Tensor

Float = NDArray[np.float32]


class DeviceSession:
    """A plan loaded on a simulated device. Not for use from two threads at once."""

    def __init__(
        self, plan: Plan, *, engine: str = "native", threads: int = 1, isa: str = "auto", freeze: bool = True
    ) -> None:
        """`freeze` makes the constants ready once: many runs are faster, at the price of a copy of them."""
        self.plan, self.program = plan, plan.program
        self.engine = open_plan(plan, engine, threads, isa)
        self._memories = new_images(plan)
        if freeze:
            self.engine.freeze(self._memories["ext"], self._memories["ocm"])  # nothing here writes constants again
        self._watch = Watch(plan, ())
        self._borders: dict[str, NDArray[np.uint8]] = {}  # where inputs and outputs are, once they have been found

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, Float]:
        """The outputs, dequantized, for float32 inputs of the ONNX shapes. Raises ValueError for another shape."""
        quantized = {name: self.quantize(name, feeds[name]) for name in self.program.inputs}
        return {name: self.dequantize(name, q) for name, q in self.run_quantized(quantized).items()}

    def quantize(self, name: str, array: NDArray[Any]) -> Numbers:
        """float32 of the ONNX shape -> numbers of the tensor's format, (1, h, w, c)."""
        return quantized(self.program.tensors[name], array)

    def dequantize(self, name: str, q: NDArray[Any]) -> Float:
        """Numbers (1, h, w, c) -> float32 of the ONNX shape."""
        tensor = self.program.tensors[name]
        return to_onnx(to_reals(q, tensor.format), tensor)

    def buffer_shape(self, name: str) -> tuple[int, int, int, int]:
        """(1, h, w, c) of the buffer of an input or output, in numbers, with the channels that pad a pixel."""
        return buffer_shape(self.plan, name)

    def run_buffers(self, inputs: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Padded buffers in and out, (1, h, w, c). Those that come out are views: the next run writes them anew."""
        for name in self.program.inputs:
            self._pixels(name)[...] = inputs[name][0].view(np.uint8)
        self.engine.run(self._memories["ext"], self._memories["ocm"], None)
        return {name: numbers_of(self._pixels(name)[None], self.program.tensors[name]) for name in self.program.outputs}

    def _pixels(self, name: str) -> NDArray[np.uint8]:
        found = self._borders.get(name)
        if found is None:
            found = stored_pixels(self._memories, host_slot(self.plan, name), self.program.tensors[name])
            self._borders[name] = found
        return found

    def run_quantized(self, inputs: Mapping[str, Numbers], watch: Sequence[str] = ()) -> dict[str, Numbers]:
        """Numbers (1, h, w, c) in and out; `watch` names further tensors to copy out as they are made.

        The arrays of watched tensors are the session's own: the next run that watches fills them anew.
        """
        tensors = self.program.tensors
        for name in self.program.inputs:
            write_tensor(self._memories, host_slot(self.plan, name), tensors[name], inputs[name])
        if watch and self._watch.names != tuple(watch):
            self._watch = Watch(self.plan, watch)
        self.engine.run(self._memories["ext"], self._memories["ocm"], self._watch.taps if watch else None)
        result = {
            name: read_tensor(self._memories, host_slot(self.plan, name), tensors[name])
            for name in self.program.outputs
        }
        if watch:
            result |= {name: numbers_of(array, tensors[name]) for name, array in self._watch.arrays.items()}
        return result


def buffer_shape(plan: Plan, name: str) -> tuple[int, int, int, int]:
    """(1, h, w, c) of the buffer of an input or output of a plan. Raises ValueError for one without a slot."""
    tensor = plan.program.tensors[name]
    h, w, _ = tensor.numbers
    return 1, h, w, host_slot(plan, name).size // (h * w) // tensor.number_bytes


def quantized(tensor: Tensor, array: NDArray[Any]) -> Numbers:
    """float32 of the ONNX shape -> numbers of the format, (1, h, w, c). Raises ValueError for another shape."""
    if tuple(array.shape) != tensor.onnx_shape:
        raise ValueError(f"'{tensor.name}' has shape {tuple(array.shape)}, want {tensor.onnx_shape}")
    return to_stored(to_numbers(np.asarray(array, np.float32), tensor.format), tensor)


def padded(plan: Plan, name: str, array: NDArray[Any]) -> Numbers:
    """float32 of the ONNX shape -> the buffer of an input of a plan: quantized, then padded with the zero point."""
    tensor = plan.program.tensors[name]
    numbers = quantized(tensor, array)
    buffer = np.full(buffer_shape(plan, name), tensor.format.zero_point[0], numbers.dtype)
    assign_pixels(buffer[..., : numbers.shape[-1]], numbers)
    return buffer


def to_stored(array: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """An array of the ONNX shape as (1, h, w, c)."""
    if tensor.layout == "channel_first" and array.ndim > 2:
        pixels = np.moveaxis(array, 1, -1)
        array = np.empty(pixels.shape, pixels.dtype)
        assign_pixels(array, pixels)
    return np.ascontiguousarray(array.reshape(1, *tensor.numbers))


def to_onnx(array: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """An array (1, h, w, c) as the ONNX tensor."""
    shape = tensor.onnx_shape
    if tensor.layout == "channel_first" and len(shape) > 2:
        return np.ascontiguousarray(np.moveaxis(array.reshape(shape[0], *shape[2:], shape[1]), -1, 1))
    return array.reshape(shape)
