"""Artefact  <->  an .axm file: a safetensors file with one metadata key, `axm`, whose value is the JSON manifest.

Any safetensors reader opens it, it is mapped and not parsed, and it holds no code and no time stamp: the same
artefact gives the same bytes. The reader checks everything before it uses anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from axtool.artefact.manifest import (
    FORMAT,
    DeviceEntry,
    FormatEntry,
    HostEntry,
    LayerEntry,
    Manifest,
    SlotEntry,
    SpecEntry,
    TensorEntry,
)
from axtool.config import write_whole
from axtool.errors import UsageError
from axtool.ops.encoding import decode_command, encode_command, ragged
from axtool.types import Layer, Plan, Program, QFormat, Slot, Tensor, TensorSpec


@dataclass(frozen=True)
class HostStage:
    """A piece of the model that the host runs: a complete ONNX model."""

    onnx: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class DeviceStage:
    """A piece of the model that the chip runs."""

    plan: Plan

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.plan.program.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.plan.program.outputs


@dataclass(frozen=True)
class Artefact:
    """A compiled model. `target` is the chip's description as plain values; `preparation` how inputs are made."""

    target: Mapping[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    stages: tuple[HostStage | DeviceStage, ...]
    preparation: Mapping[str, Any] | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    quantization: Mapping[str, Any] = field(default_factory=dict)
    support: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device_stages(self) -> tuple[DeviceStage, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, DeviceStage))


def write(path: Path, artefact: Artefact, *, force: bool = False) -> int:
    """Write the file whole or not at all; the number of bytes. Errors as `axtool.config.write_whole`."""
    data = pack(artefact)
    write_whole(path, data, force=force)
    return len(data)


def pack(artefact: Artefact) -> bytes:
    """The bytes of the file."""
    from safetensors.numpy import save

    blobs: dict[str, NDArray[Any]] = {}
    entries: list[HostEntry | DeviceEntry] = []
    for index, stage in enumerate(artefact.stages):
        if isinstance(stage, HostStage):
            blobs[f"{index}/onnx"] = np.frombuffer(stage.onnx, np.uint8)
            entries.append(HostEntry(kind="host", inputs=list(stage.inputs), outputs=list(stage.outputs)))
        else:
            values, offsets = ragged(encode_command(command) for command in stage.plan.commands)
            blobs[f"{index}/commands"], blobs[f"{index}/offsets"] = values, offsets
            for number, name in enumerate(sorted(stage.plan.program.constants)):
                blobs[f"{index}/constant/{number}"] = np.ascontiguousarray(stage.plan.program.constants[name])
            entries.append(_device_entry(stage.plan))
    manifest = Manifest(
        format=FORMAT,
        target=dict(artefact.target),
        inputs=[_spec_entry(spec) for spec in artefact.inputs],
        outputs=[_spec_entry(spec) for spec in artefact.outputs],
        stages=entries,
        preparation=None if artefact.preparation is None else dict(artefact.preparation),
        task=dict(artefact.task),
        quantization=dict(artefact.quantization),
        support=[dict(row) for row in artefact.support],
        provenance=dict(artefact.provenance),
    )
    text = json.dumps(manifest.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return bytes(save(blobs, metadata={"axm": text}))


def read(path: Path) -> Artefact:
    """The artefact in a file. Raises UsageError, with the reason, for anything that is not a whole .axm file."""
    manifest, blobs = _open(path)
    try:
        stages = tuple(_stage(index, entry, blobs) for index, entry in enumerate(manifest.stages))
    except (KeyError, ValueError, OverflowError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise _refused(path, reason) from error
    if blobs:
        raise _refused(path, f"holds data that nothing names: {', '.join(sorted(blobs)[:3])}")
    return Artefact(
        target=manifest.target,
        inputs=tuple(_spec(entry) for entry in manifest.inputs),
        outputs=tuple(_spec(entry) for entry in manifest.outputs),
        stages=stages,
        preparation=manifest.preparation,
        task=manifest.task,
        quantization=manifest.quantization,
        support=tuple(manifest.support),
        provenance=manifest.provenance,
    )


def is_axm(path: Path) -> bool:
    """Whether a file begins as a safetensors file does: 8 bytes of length, then a JSON object."""
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return len(head) == 9 and head[8:] == b"{" and 0 < int.from_bytes(head[:8], "little") < 2**40


def _open(path: Path) -> tuple[Manifest, dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise UsageError("no such file", where=str(path), code="file-not-found")
    if path.is_dir():
        raise UsageError("is a folder; want an .axm file", where=str(path), code="not-axm")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            blobs = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror or error}", where=str(path), code="cannot-read") from error
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _refused(path, str(error)) from error
    if set(metadata) != {"axm"}:
        raise _refused(path, "a safetensors file, but without the one metadata key 'axm'")
    try:
        document = json.loads(metadata["axm"])
        found = document.get("format") if isinstance(document, dict) else None
        if isinstance(found, str) and found.startswith("axtool.axm/") and found != FORMAT:
            raise UsageError(
                f"version {found}; this axtool reads {FORMAT}",
                where=str(path),
                hint="compile the model again with this version",
                code="axm-version",
            )
        return Manifest.model_validate(document), blobs
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _refused(path, f"manifest: {place}: {first['msg']} ({error.error_count()} faults)") from error
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"manifest: {error}") from error


def _refused(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"not an .axm file: {reason}", where=str(path), hint="make one with `axtool compile`", code="not-axm"
    )


def _stage(index: int, entry: HostEntry | DeviceEntry, blobs: dict[str, NDArray[Any]]) -> HostStage | DeviceStage:
    if isinstance(entry, HostEntry):
        onnx = blobs.pop(f"{index}/onnx")
        if onnx.dtype != np.uint8:
            raise ValueError(f"{index}/onnx is {onnx.dtype}, want uint8")
        return HostStage(onnx.tobytes(), tuple(entry.inputs), tuple(entry.outputs))
    constants = {name: blobs.pop(f"{index}/constant/{i}") for i, name in enumerate(entry.constants)}
    for name, array in constants.items():
        if array.dtype not in (np.int8, np.int16, np.int32):
            raise ValueError(f"constant '{name}' is {array.dtype}, want int8, int16 or int32")
        tensor = entry.tensors[name]
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
        target="",
        slots=tuple(Slot(s.tensor, s.memory, s.offset, s.size, s.first, s.last) for s in entry.slots),
        commands=tuple(decode_command(row) for row in rows),
        sizes={str(memory): size for memory, size in entry.sizes.items()},
    )
    _check_names(plan)
    return DeviceStage(plan)


def _check_names(plan: Plan) -> None:
    """Every name is described, every slot inside its memory."""
    program, known = plan.program, set(plan.program.tensors)
    for name in (*program.inputs, *program.outputs, *(n for x in program.layers for n in (*x.inputs, *x.outputs))):
        if name not in known:
            raise ValueError(f"tensor '{name}' is not described")
    for slot in plan.slots:
        if slot.tensor not in known:
            raise ValueError(f"a slot is for '{slot.tensor}', which is not described")
        if slot.offset + slot.size > plan.sizes.get(slot.memory, 0):
            raise ValueError(f"the slot of '{slot.tensor}' ends outside {slot.memory}")
    for command in plan.commands:
        if not 0 <= command.layer < len(program.layers):
            raise ValueError(f"a command is for layer {command.layer} of {len(program.layers)}")


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


def _spec_entry(spec: TensorSpec) -> SpecEntry:
    return SpecEntry(name=spec.name, shape=[int(n) for n in spec.shape], dtype=spec.dtype)


def _spec(entry: SpecEntry) -> TensorSpec:
    return TensorSpec(entry.name, tuple(entry.shape), entry.dtype)
