"""What the buffers of one device stage are: their shapes, types and bytes, in the order of the program."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axtool.errors import plural
from axtool.ops.storing import DTYPES
from axtool.runtime.device import buffer_shape
from axtool.runtime.devices.seam import Buffer
from axtool.runtime.pool import Pool
from axtool.types import Plan


class StageBuffers:
    """Of inputs and outputs, (1, h, w, c) each."""

    def __init__(self, plan: Plan) -> None:
        tensors, program = plan.program.tensors, plan.program
        self._inputs = [
            (name, buffer_shape(plan, name), np.dtype(DTYPES[tensors[name].format.kind])) for name in program.inputs
        ]
        made = [(buffer_shape(plan, name), np.dtype(DTYPES[tensors[name].format.kind])) for name in program.outputs]
        self.bytes_in = sum(prod(shape) * dtype.itemsize for _, shape, dtype in self._inputs)
        self.bytes_out = sum(prod(shape) * dtype.itemsize for shape, dtype in made)
        self._pools = [Pool(shape, dtype) for shape, dtype in made]

    def check(self, inputs: Sequence[Buffer]) -> None:
        """Raise ValueError unless the buffers are those of the stage."""
        if len(inputs) != len(self._inputs):
            raise ValueError(f"the stage has {plural(len(self._inputs), 'input')}, got {plural(len(inputs), 'buffer')}")
        for (name, shape, dtype), array in zip(self._inputs, inputs, strict=True):
            if not isinstance(array, np.ndarray):
                raise ValueError(f"'{name}' is {dtype} {shape}, got {type(array).__name__}, no array")
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"'{name}' is {dtype} {shape}, got {array.dtype} {array.shape}")

    def outputs(self) -> list[Buffer]:
        """Arrays that nobody else holds, to be filled."""
        return [pool.take() for pool in self._pools]
