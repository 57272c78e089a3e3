"""A plan and quantized inputs -> the memory images that its commands run over, and the outputs read back from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.encoding import encode_command, encode_layer, ragged
from axtool.ops.storing import DTYPES, LITTLE
from axtool.sim.engine import Engine, open_engine
from axtool.types import Plan, Slot, Tensor

Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
MEMORIES = ("ext", "ocm")
Numbers = NDArray[Any]  # of int8, int16, int32 (fx32) or float16 (fp16)


def encode_plan(plan: Plan) -> Rows:
    """(layers, layer offsets, commands, command offsets): what `open_engine` takes."""
    layers, layer_offsets = ragged(encode_layer(layer, plan.program) for layer in plan.program.layers)
    commands, command_offsets = ragged(encode_command(command) for command in plan.commands)
    return layers, layer_offsets, commands, command_offsets


def sizes_of(plan: Plan) -> dict[str, int]:
    """Bytes of each memory, 0 for one that the plan does not use."""
    return {memory: int(plan.sizes.get(memory, 0)) for memory in MEMORIES}


def open_plan(plan: Plan, engine: str = "reference", threads: int = 1, isa: str = "auto", merge: bool = True) -> Engine:
    """An engine that runs this plan."""
    return open_engine(engine, *encode_plan(plan), sizes_of(plan), threads=threads, isa=isa, merge=merge)


def run_plan(
    plan: Plan,
    inputs: Mapping[str, Numbers],
    engine: str = "reference",
    threads: int = 1,
    isa: str = "auto",
    merge: bool = True,
) -> dict[str, Numbers]:
    """Run a plan once: numbers of each tensor's format (1, h, w, c) in and out."""
    runner = open_plan(plan, engine, threads, isa, merge)
    memories = new_images(plan)
    for name in plan.program.inputs:
        write_tensor(memories, host_slot(plan, name), plan.program.tensors[name], inputs[name])
    runner.run(memories["ext"], memories["ocm"], None)
    return {
        name: read_tensor(memories, host_slot(plan, name), plan.program.tensors[name]) for name in plan.program.outputs
    }


def new_images(plan: Plan) -> dict[str, NDArray[np.uint8]]:
    """Both memories, zero, with the constants at the offsets of their slots in ext."""
    memories = {memory: np.zeros(size, np.uint8) for memory, size in sizes_of(plan).items()}
    for name, array in plan.program.constants.items():
        slot = host_slot(plan, name)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.size > slot.size or slot.offset + data.size > memories[slot.memory].size:
            raise ValueError(f"constant '{name}' has {data.size} bytes, its slot at {slot.offset} has {slot.size}")
        memories[slot.memory][slot.offset : slot.offset + data.size] = data
    return memories


def host_slot(plan: Plan, name: str) -> Slot:
    """Where the host writes or reads a tensor: its slot in ext, or else its only slot. ValueError when it has none."""
    slots = [slot for slot in plan.slots if slot.tensor == name]
    in_ext = [slot for slot in slots if slot.memory == "ext"]
    if not slots:
        raise ValueError(f"'{name}' has no slot")
    return (in_ext or slots)[0]


def write_tensor(memories: Mapping[str, NDArray[np.uint8]], slot: Slot, tensor: Tensor, values: NDArray[Any]) -> None:
    """Store numbers (1, h, w, c); the channels that pad a pixel hold the zero point."""
    shape, kind = (1, *tensor.numbers), tensor.format.kind
    if values.shape != shape or values.dtype != DTYPES[kind]:
        raise ValueError(f"'{tensor.name}' is {kind} {shape}, got {values.dtype} {values.shape}")
    stored = values[0] if kind == "int8" else np.ascontiguousarray(values[0].astype(LITTLE[kind], copy=False))
    pixels = stored_pixels(memories, slot, tensor)
    pixels.reshape(-1)[:] = tensor.format.zero_point[0] & 0xFF
    assign_pixels(pixels[:, :, : tensor.shape[3]], stored.view(np.uint8))


def assign_pixels(to: NDArray[Any], values: NDArray[Any]) -> None:
    """to[...] = values, both (…, c); NumPy copies a few channels much faster plane by plane."""
    if to.shape[-1] > 4:
        to[...] = values
    else:
        for channel in range(to.shape[-1]):
            to[..., channel] = values[..., channel]


def read_tensor(memories: Mapping[str, NDArray[np.uint8]], slot: Slot, tensor: Tensor) -> Numbers:
    """A copy of the numbers that are stored: (1, h, w, c)."""
    pixels = stored_pixels(memories, slot, tensor)
    return numbers_of(pixels[None, :, :, : tensor.shape[3]].copy(), tensor)


def numbers_of(stored: NDArray[np.uint8], tensor: Tensor) -> Numbers:
    """The numbers in the bytes (1, h, w, bytes) of a tensor, in place where this CPU stores them so too."""
    kind = tensor.format.kind
    return stored.view(np.int8) if kind == "int8" else np.asarray(stored.view(LITTLE[kind]), DTYPES[kind])


def stored_pixels(memories: Mapping[str, NDArray[np.uint8]], slot: Slot, tensor: Tensor) -> NDArray[np.uint8]:
    """The whole slot as (h, w, bytes of a pixel), in place."""
    _, h, w, c = tensor.shape
    pixel = slot.size // (h * w)
    if pixel < c or slot.offset + h * w * pixel > memories[slot.memory].size:
        raise ValueError(f"'{tensor.name}' {tensor.shape} does not fit its slot of {slot.size} bytes at {slot.offset}")
    return memories[slot.memory][slot.offset : slot.offset + h * w * pixel].reshape(h, w, pixel)
