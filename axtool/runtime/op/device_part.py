"""The device part of an artefact: from the first device stage to the last, with the host stages between them.

What flows into it are *lanes*: padded, quantized buffers for the tensors that the first device stage reads, and float
arrays for what a later stage or the postamble reads from before the device. What flows out are the device's buffers
that leave it, and the float arrays that pass by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact, DeviceStage, HostStage
from axtool.ops.storing import DTYPES, to_numbers, to_reals
from axtool.runtime import scheduler
from axtool.runtime.device import buffer_shape, padded, to_onnx, to_stored
from axtool.runtime.devices.model import DeviceModel, key_of
from axtool.runtime.model import HostSession
from axtool.runtime.op.device_options import DeviceOptions
from axtool.runtime.tensor_info import TensorInfo
from axtool.types import Plan, QFormat, Tensor, TensorSpec

Array = NDArray[Any]
_DEFAULT = DeviceOptions()


@dataclass(frozen=True)
class Lane:
    """One value at the border of the device part: a buffer of `tensor`, or a float array where `tensor` is None."""

    name: str
    info: TensorInfo
    tensor: Tensor | None

    def quantize(self, array: Array) -> Array:
        """float32 of the ONNX shape, or of NHWC where that is another order -> numbers (1, h, w, c)."""
        if self.tensor is None:
            return array
        numbers = to_numbers(np.asarray(array, np.float32), self.tensor.format)
        stored = (1, *self.tensor.numbers)
        return numbers if numbers.shape == stored else to_stored(numbers, self.tensor)

    def dequantize(self, numbers: Array) -> Array:
        """Numbers (1, h, w, c) -> float32 in the same order."""
        return numbers if self.tensor is None else to_reals(numbers, self.tensor.format)

    def align(self, array: Array) -> Array:
        """float32 (1, h, w, c) -> the ONNX tensor."""
        return array if self.tensor is None else to_onnx(array, self.tensor)


def cut(artefact: Artefact) -> tuple[tuple[HostStage, ...], tuple[HostStage | DeviceStage, ...], tuple[HostStage, ...]]:
    """(preamble, device part, postamble). Raises ValueError for a model without a device stage."""
    kinds = [isinstance(stage, DeviceStage) for stage in artefact.stages]
    if not any(kinds):
        raise ValueError("nothing of this model runs on the device")
    first, end = kinds.index(True), len(kinds) - kinds[::-1].index(True)
    return _host_only(artefact.stages[:first]), artefact.stages[first:end], _host_only(artefact.stages[end:])


@dataclass(frozen=True)
class _OnDevice:
    """Device stage `index` of a model: what goes in and out, in the order of its program."""

    index: int
    plan: Plan
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class DevicePart:
    """The stages between preamble and postamble, ready to run: device stages where the scheduler says, the host stages
    between them in the calling thread. Several threads may run it at once.
    """

    def __init__(
        self, artefact: Artefact, specs: Mapping[str, TensorSpec], path: Path, options: DeviceOptions = _DEFAULT
    ) -> None:
        """`specs` are what is known of tensors of the host: inputs and outputs of the model and of its preamble.

        Raises ValueError for an artefact without a device stage, and for a plan that no engine may run.
        """
        _, stages, after = cut(artefact)
        self.model = _device_model(artefact, path, options)
        plans = iter(enumerate(self.model.plans))
        self._stages: list[_OnDevice | HostSession] = [
            _OnDevice(*next(plans), stage.inputs, stage.outputs)
            if isinstance(stage, DeviceStage)
            else HostSession(stage)
            for stage in stages
        ]
        self._first = self._stages[0]
        assert isinstance(self._first, _OnDevice)
        self._made = {
            name: _device_lane(stage.plan, name)
            for stage in self._stages
            if isinstance(stage, _OnDevice)
            for name in stage.outputs
        }
        specs = dict(specs)
        for stage in self._stages:
            specs |= {} if isinstance(stage, _OnDevice) else stage.specs
        made_here = {name for stage in self._stages for name in stage.outputs}
        read_after = [name for stage in after for name in stage.inputs]
        wanted = [*read_after, *(spec.name for spec in artefact.outputs)]
        made_after = {name for stage in after for name in stage.outputs}
        read_later = [name for stage in self._stages[1:] for name in stage.inputs]
        passing = [name for name in dict.fromkeys([*read_later, *wanted]) if name not in made_here | made_after]
        self.inputs = tuple(
            [_device_lane(self._first.plan, name) for name in self._first.inputs]
            + [_float_lane(specs, name) for name in passing]
        )
        in_order = [name for stage in self._stages for name in stage.outputs]
        leaving = [name for name in dict.fromkeys(in_order) if name in set(wanted)]
        self.outputs = tuple(
            [self._made.get(name) or _float_lane(specs, name) for name in leaving]
            + [_float_lane(specs, name) for name in passing if name in set(wanted)]
        )
        self._wanted = tuple((lane.name, lane.info.shape, lane.info.dtype) for lane in self.inputs)
        # One device stage, and nothing passes by: most models. What goes in and out of it is what does here.
        self._is_whole = len(self._stages) == 1 and tuple(lane.name for lane in self.outputs) == self._first.outputs

    def run(self, values: Sequence[Array]) -> list[Array]:
        """Buffers and arrays of `inputs` -> those of `outputs`, which are the caller's: no later run changes them.

        Raises ValueError for a value of another shape or type, and what the scheduler raises.
        """
        if len(values) != len(self.inputs):
            raise ValueError(f"the device part takes {len(self.inputs)} values, got {len(values)}")
        for (name, shape, dtype), value in zip(self._wanted, values, strict=True):
            if value.shape != shape or value.dtype != dtype:
                raise ValueError(f"'{name}' wants {dtype} {shape}, got {value.dtype} {value.shape}")
        run_stage = scheduler.current().run_stage
        if self._is_whole:
            return list(run_stage(self.model, 0, values))
        known = {lane.name: value for lane, value in zip(self.inputs, values, strict=True) if lane.tensor is None}
        buffers = {lane.name: value for lane, value in zip(self.inputs, values, strict=True) if lane.tensor is not None}
        for stage in self._stages:
            if isinstance(stage, _OnDevice):
                given = (
                    [buffers[name] for name in stage.inputs]
                    if stage is self._first
                    else [padded(stage.plan, name, self._real(name, known, buffers)) for name in stage.inputs]
                )
                buffers |= zip(stage.outputs, run_stage(self.model, stage.index, given), strict=True)
            else:
                known |= stage.run({name: self._real(name, known, buffers) for name in stage.inputs})
        return [(known if lane.tensor is None else buffers)[lane.name] for lane in self.outputs]

    def _real(self, name: str, known: dict[str, Array], buffers: Mapping[str, Array]) -> Array:
        """The ONNX tensor of a name: one of the host's, or what a device stage made of it, kept for who asks again."""
        if name not in known:
            lane = self._made[name]
            known[name] = lane.align(lane.dequantize(buffers[name][lane.info.inside]))
        return known[name]


def _device_model(artefact: Artefact, path: Path, options: DeviceOptions) -> DeviceModel:
    """What a device is given of it, checked."""
    plans = tuple(stage.plan for stage in artefact.device_stages)
    made = DeviceModel(key_of(plans, artefact.target, options), path.name, plans, artefact.target, **vars(options))
    made.check()
    return made


def info_of(tensor: Tensor, shape: Sequence[int]) -> TensorInfo:
    """The buffer of a device tensor: numbers (1, h, w, c) inside, channels padded to those of `shape`."""
    padding = [(0, size - inside) for size, inside in zip(shape, (1, *tensor.numbers), strict=True)]
    scale, zero_point = _scale(tensor.format)
    return TensorInfo(shape, DTYPES[tensor.format.kind], tensor.name, padding, scale, zero_point)


def _scale(fmt: QFormat) -> tuple[Any, Any]:
    if fmt.kind == "fx32":
        return 2.0 ** -(fmt.fraction_bits or 0), 0
    if not fmt.scale:
        return 1.0, 0
    scale = fmt.scale[0] if len(fmt.scale) == 1 else np.array(fmt.scale, np.float32)
    zero_point = fmt.zero_point[0] if len(fmt.zero_point) == 1 else np.array(fmt.zero_point, np.int32)
    return scale, zero_point


def _device_lane(plan: Plan, name: str) -> Lane:
    tensor = plan.program.tensors[name]
    return Lane(name, info_of(tensor, buffer_shape(plan, name)), tensor)


def _float_lane(specs: Mapping[str, TensorSpec], name: str) -> Lane:
    """A tensor that stays on the host."""
    if name not in specs:
        raise ValueError(f"nothing says what '{name}' looks like")
    return Lane(name, TensorInfo(specs[name].shape, specs[name].dtype, name), None)


def _host_only(stages: Sequence[HostStage | DeviceStage]) -> tuple[HostStage, ...]:
    return tuple(stage for stage in stages if isinstance(stage, HostStage))
