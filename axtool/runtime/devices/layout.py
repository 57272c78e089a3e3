"""A model  ->  the memory in which a board in another process has it: commands, memory images, and mailboxes.

The memory begins with a directory (its length, then JSON) of byte ranges. A stage is rows of layers and commands, and
the images that they run over with the constants in place: what an engine takes, without names. Each mailbox holds the
inputs and outputs of one frame, so that the next frame is written while one computes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.storing import LITTLE
from axtool.runtime.device import buffer_shape
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer
from axtool.sim.images import encode_plan, host_slot, new_images
from axtool.types import Plan

Bytes = NDArray[np.uint8]
LINE = 64  # bytes: every range begins at a multiple
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Range:
    """Bytes of the memory, counted from the end of the directory."""

    offset: int
    size: int


@dataclass(frozen=True)
class Port:
    """A buffer of a stage: where it lies in a memory image, and where in each mailbox."""

    memory: str
    offset: int
    size: int
    mailbox: int  # from the begin of a mailbox


@dataclass(frozen=True)
class Pace:
    """Modelled seconds of a frame: on the core, over the link to the board, and back."""

    core_s: float = 0.0
    in_s: float = 0.0
    out_s: float = 0.0


@dataclass(frozen=True)
class StageLayout:
    """One device stage."""

    rows: tuple[Range, ...]  # of int64: layers, their offsets, commands, their offsets
    images: Mapping[str, Range]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    pace: Pace


@dataclass(frozen=True)
class Layout:
    """The directory: how to open the engines, and where everything is. `size` is that of all ranges."""

    engine: str
    threads: int
    isa: str
    stages: tuple[StageLayout, ...]
    mailboxes: tuple[int, ...]  # where each begins
    size: int

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(data: bytes) -> Layout:
        values = json.loads(data)
        values["stages"] = tuple(_stage_from(stage) for stage in values["stages"])
        values["mailboxes"] = tuple(values["mailboxes"])
        return Layout(**values)


@dataclass(frozen=True)
class Packed:
    """A layout, and what is to be written into it."""

    layout: Layout
    parts: tuple[tuple[Range, Bytes], ...]

    @property
    def size(self) -> int:
        """Bytes of the whole memory."""
        return _body(len(self.layout.to_json())) + self.layout.size

    def write(self, memory: Bytes) -> Bytes:
        """Fill a memory of zeros of `size` bytes; what is behind the directory."""
        directory = self.layout.to_json()
        memory[: _LENGTH.size] = np.frombuffer(_LENGTH.pack(len(directory)), np.uint8)
        memory[_LENGTH.size : _LENGTH.size + len(directory)] = np.frombuffer(directory, np.uint8)
        body = memory[_body(len(directory)) :]
        for where, data in self.parts:
            within(body, where)[...] = data
        return body


def pack(model: DeviceModel, mailboxes: int, paces: Sequence[Pace]) -> Packed:
    """The memory of a model with so many mailboxes, and a pace for each stage."""
    taken = _Taken()
    parts: list[tuple[Range, Bytes]] = []

    def placed(data: NDArray[Any]) -> Range:
        where = taken.take(data.nbytes)
        parts.append((where, np.ascontiguousarray(data).reshape(-1).view(np.uint8)))
        return where

    stages, longest = [], 0
    for plan, pace in zip(model.plans, paces, strict=True):
        rows = tuple(placed(rows) for rows in encode_plan(plan))
        images = {name: placed(image) for name, image in new_images(plan).items()}
        box = _Taken()
        inputs, outputs = (
            tuple(_port(plan, name, box) for name in names) for names in (plan.program.inputs, plan.program.outputs)
        )
        longest = max(longest, box.size)
        stages.append(StageLayout(rows, images, inputs, outputs, pace))
    begins = tuple(taken.take(longest).offset for _ in range(mailboxes))
    return Packed(Layout(model.engine, model.threads, model.isa, tuple(stages), begins, taken.size), tuple(parts))


def unpack(memory: Bytes) -> tuple[Layout, Bytes]:
    """The layout of a memory that `write` filled, and what is behind the directory."""
    (length,) = _LENGTH.unpack(memory[: _LENGTH.size].tobytes())
    directory = memory[_LENGTH.size : _LENGTH.size + length].tobytes()
    return Layout.from_json(directory), memory[_body(length) :]


def within(body: Bytes, where: Range) -> Bytes:
    """The bytes of a range, in place."""
    return body[where.offset : where.offset + where.size]


def letters(body: Bytes, begin: int, ports: Sequence[Port]) -> list[Bytes]:
    """The bytes of some buffers in the mailbox that begins there, in place."""
    return [within(body, Range(begin + port.mailbox, port.size)) for port in ports]


def buffers(plan: Plan, names: Sequence[str], letters: Sequence[Bytes]) -> list[Buffer]:
    """The same bytes as (1, h, w, c) numbers of the tensors of these names."""
    return [
        letter.view(LITTLE[plan.program.tensors[name].format.kind]).reshape(buffer_shape(plan, name))
        for name, letter in zip(names, letters, strict=True)
    ]


class _Taken:
    """Ranges one behind the other."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, size: int) -> Range:
        where = Range(self.size, size)
        self.size += -(-size // LINE) * LINE
        return where


def _port(plan: Plan, name: str, box: _Taken) -> Port:
    slot, tensor = host_slot(plan, name), plan.program.tensors[name]
    size = prod(buffer_shape(plan, name)) * tensor.number_bytes
    return Port(slot.memory, slot.offset, size, box.take(size).offset)


def _body(directory: int) -> int:
    return -(-(_LENGTH.size + directory) // LINE) * LINE


def _stage_from(values: Mapping[str, Any]) -> StageLayout:
    return StageLayout(
        rows=tuple(Range(**one) for one in values["rows"]),
        images={name: Range(**one) for name, one in values["images"].items()},
        inputs=tuple(Port(**one) for one in values["inputs"]),
        outputs=tuple(Port(**one) for one in values["outputs"]),
        pace=Pace(**values["pace"]),
    )
