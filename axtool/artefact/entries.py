"""Plans and specs  <->  the entries of the manifest and the tensors beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.manifest import DeviceEntry, FormatEntry, HostEntry, LayerEntry, SlotEntry, SpecEntry, TensorEntry
from axtool.artefact.stages import DeviceStage, HostStage
from axtool.ops.encoding import decode_command, encode_command, ragged
from axtool.types import Layer, Plan, Program, QFormat, Slot, Tensor, TensorSpec

Blobs = dict[str, NDArray[Any]]


def pack_stage(index: int, stage: HostStage | DeviceStage, blobs: Blobs) -> HostEntry | DeviceEntry:
    """The entry of a stage; its arrays are added to `blobs`."""
    if isinstance(stage, HostStage):
        blobs[f"{index}/onnx"] = np.frombuffer(stage.onnx, np.uint8)
        return HostEntry(kind="host", inputs=list(stage.inputs), outputs=list(stage.outputs))
    values, offsets = ragged(encode_command(command) for command in stage.plan.commands)
    blobs[f"{index}/commands"], blobs[f"{index}/offsets"] = values, offsets
    for number, name in enumerate(sorted(stage.plan.program.constants)):
        blobs[f"{index}/constant/{number}"] = np.ascontiguousarray(stage.plan.program.constants[name])
    return _device_entry(stage.plan)


def unpack_stage(index: int, entry: HostEntry | DeviceEntry, target: str, blobs: Blobs) -> HostStage | DeviceStage:
    """The stage of an entry; its arrays are taken out of `blobs`. Raises ValueError or KeyError where they differ."""
    if isinstance(entry, HostEntry):
        onnx = blobs.pop(f"{index}/onnx")
        if onnx.dtype != np.uint8:
            raise ValueError(f"{index}/onnx is {onnx.dtype}, want uint8")
        return HostStage(onnx.tobytes(), tuple(entry.inputs), tuple(entry.outputs))
    constants = {name: blobs.pop(f"{index}/constant/{i}") for i, name in enumerate(entry.constants)}
    for name, array in constants.items():
        if array.dtype not in (np.int8, np.int16, np.int32, np.float16, np.float32):
            raise ValueError(f"constant '{name}' is {array.dtype}, want int8, int16, int32, float16 or float32")
        tensor = entry.tensors[name]  # KeyError: a constant that nothing describes
        if tuple(tensor.shape) != array.shape:
            raise ValueError(f"constant '{name}' is declared {tensor.shape}, its data is {list(array.shape)}")
    program = Program(
        tensors={name: _tensor(name, tensor) for name, tensor in entry.tensors.items()},
        layers=tuple(_layer(layer) for layer in entry.layers),
        constants=constants,
        inputs=tuple(entry.inputs),
        outputs=tuple(entry.outputs),
    )
    rows = _rows(blobs.pop(f"{index}/commands"), blobs.pop(f"{index}/offsets"))
    plan = Plan(
        program=program,
        target=target,
        slots=tuple(Slot(s.tensor, s.memory, s.offset, s.size, s.first, s.last) for s in entry.slots),
        commands=tuple(decode_command(row) for row in rows),
        sizes={str(memory): size for memory, size in entry.sizes.items()},
        without=tuple(entry.without),
    )
    return DeviceStage(plan)


def _rows(values: NDArray[Any], offsets: NDArray[Any]) -> Iterator[list[int]]:
    if values.dtype != np.int64 or offsets.dtype != np.int64 or values.ndim != 1 or offsets.ndim != 1:
        raise ValueError("commands are not rows of int64")
    bad_order = offsets.size == 0 or offsets[0] != 0 or offsets[-1] != values.size or (np.diff(offsets) < 0).any()
    if bad_order:
        raise ValueError("the command offsets do not fit the commands")
    flat = values.tolist()
    return (flat[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def _device_entry(plan: Plan) -> DeviceEntry:
    program = plan.program
    return DeviceEntry(
        kind="device",
        inputs=list(program.inputs),
        outputs=list(program.outputs),
        tensors={name: _tensor_entry(tensor) for name, tensor in program.tensors.items()},
        layers=[_layer_entry(layer) for layer in program.layers],
        constants=sorted(program.constants),
        slots=[
            SlotEntry(tensor=s.tensor, memory=s.memory, offset=s.offset, size=s.size, first=s.first, last=s.last)
            for s in plan.slots
        ],
        sizes={"ext": int(plan.sizes.get("ext", 0)), "ocm": int(plan.sizes.get("ocm", 0))},
        **({"without": list(plan.without)} if plan.without else {}),
    )


def _tensor_entry(tensor: Tensor) -> TensorEntry:
    form = tensor.format
    return TensorEntry(
        shape=[int(n) for n in tensor.shape],
        format=FormatEntry(
            kind=form.kind,
            scale=[float(s) for s in form.scale],
            zero_point=[int(z) for z in form.zero_point],
            fraction_bits=form.fraction_bits,
        ),
        layout=tensor.layout,
        onnx_shape=[int(n) for n in tensor.onnx_shape],
    )


def _tensor(name: str, entry: TensorEntry) -> Tensor:
    form = entry.format
    return Tensor(
        name=name,
        shape=tuple(entry.shape),
        format=QFormat(form.kind, tuple(form.scale), tuple(form.zero_point), form.fraction_bits),
        layout=entry.layout,
        onnx_shape=tuple(entry.onnx_shape),
    )


def _layer_entry(layer: Layer) -> LayerEntry:
    return LayerEntry(
        op=layer.op,
        name=layer.name,
        inputs=list(layer.inputs),
        outputs=list(layer.outputs),
        attrs={key: _plain(value) for key, value in layer.attrs.items()},
        origin=list(layer.origin),
    )


def _plain(value: Any) -> int | list[int]:
    return [int(v) for v in value] if isinstance(value, (tuple, list)) else int(value)


def _layer(entry: LayerEntry) -> Layer:
    attrs = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.attrs.items()}
    return Layer(entry.op, tuple(entry.inputs), tuple(entry.outputs), attrs, tuple(entry.origin), entry.name)


def spec_entry(spec: TensorSpec) -> SpecEntry:
    return SpecEntry(name=spec.name, shape=[int(n) for n in spec.shape], dtype=spec.dtype)


def spec_of(entry: SpecEntry) -> TensorSpec:
    return TensorSpec(entry.name, tuple(entry.shape), entry.dtype)
