"""What the buffers of one device stage are: their shapes, types and bytes, in the order of the program."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axtool.errors import plural
from axtool.ops.storing import DTYPES
from axtool.runtime.device import buffer_shape
from axtool.runtime.devices.seam import Buffer
from axtool.types import Plan


class StageBuffers:
    """Of inputs and outputs, (1, h, w, c) each."""

    def __init__(self, plan: Plan) -> None:
        tensors, program = plan.program.tensors, plan.program
        self._inputs = [
            (name, buffer_shape(plan, name), np.dtype(DTYPES[tensors[name].format.kind])) for name in program.inputs
        ]
        self.bytes_in, self.bytes_out = (
            sum(prod(buffer_shape(plan, name)) * tensors[name].number_bytes for name in names)
            for names in (program.inputs, program.outputs)
        )

    def check(self, inputs: Sequence[Buffer]) -> None:
        """Raise ValueError unless the buffers are those of the stage."""
        if len(inputs) != len(self._inputs):
            raise ValueError(f"the stage has {plural(len(self._inputs), 'input')}, got {plural(len(inputs), 'buffer')}")
        for (name, shape, dtype), array in zip(self._inputs, inputs, strict=True):
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(f"'{name}' is {dtype} {shape}, got {array.dtype} {array.shape}")
