"""Is an Artefact one that can be used? Names that join, formats that are numbers, memories as large as their slots.

A file from outside may hold anything. What is checked here needs no engine; the commands' addresses are checked by
the engine that runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from axtool.artefact.stages import Artefact, DeviceStage
from axtool.ops.elements import narrow
from axtool.ops.encoding import FIELDS, MAC_OPS, decode_layer, encode_layer
from axtool.ops.legal import check_layer
from axtool.ops.reference_rows import LARGEST_FACTOR
from axtool.ops.window_counts import window_counts
from axtool.target import Target
from axtool.target_file import target_from_dict
from axtool.types import Layer, Plan, Program, Slot, Tensor, TensorSpec

MAX_ELEMENTS = 2**31  # of one tensor
MAX_EXTERNAL_BYTES = 2**35
MOST_FRACTION_BITS = 31
STORED = ("int8", "int16", "fx32", "fp16", "int32")
MOST_SHIFT = 62  # of a product of 32 by 64 bits
ALIGNMENT = 64  # bytes that a memory may be longer than its last slot


def check_artefact(artefact: Artefact) -> None:
    """Raises ValueError with the first fault, UsageError for a description of a chip that is not one."""
    target = target_from_dict(artefact.target)
    known = _check_specs(artefact.inputs, "input")
    for index, stage in enumerate(artefact.stages):
        _check_joined(index, stage.inputs, stage.outputs, known)
        shapes: Mapping[str, tuple[int, ...] | None] = dict.fromkeys(stage.outputs)
        if isinstance(stage, DeviceStage):
            _check_plan(stage.plan, target)
            tensors = stage.plan.program.tensors
            for name in stage.inputs:
                _same_shape(name, known[name], tensors[name].onnx_shape)
            shapes = {name: tensors[name].onnx_shape for name in stage.outputs}
        known |= shapes
    _check_specs(artefact.outputs, "output")
    for spec in artefact.outputs:
        _need(spec.name in known, f"output '{spec.name}' is made by no stage")
        _same_shape(spec.name, known[spec.name], spec.shape)


def _check_specs(specs: Sequence[TensorSpec], what: str) -> dict[str, tuple[int, ...] | None]:
    _need(len({spec.name for spec in specs}) == len(specs), f"an {what} is named twice")
    for spec in specs:
        _need(prod(spec.shape) < MAX_ELEMENTS, f"{what} '{spec.name}' has {prod(spec.shape)} elements")
        _need(_is_type(spec.dtype), f"{what} '{spec.name}' has the unknown type {spec.dtype}")
    return {spec.name: spec.shape for spec in specs}


def _is_type(name: str) -> bool:
    try:
        return np.dtype(name).kind in "fiubcUTO"
    except TypeError:
        return False


def _check_joined(index: int, inputs: Sequence[str], outputs: Sequence[str], known: Mapping[str, object]) -> None:
    for name in inputs:
        _need(name in known, f"stage {index} reads '{name}', which nothing makes")
    for name in outputs:
        _need(name not in known, f"stage {index} makes '{name}', which is there already")
    _need(len(outputs) > 0, f"stage {index} makes nothing")
    _need(len(set(outputs)) == len(outputs), f"stage {index} names an output twice")


def _same_shape(name: str, known: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    _need(known is None or known == wanted, f"'{name}' has the shape {known} in one place and {wanted} in another")


def _check_plan(plan: Plan, target: Target) -> None:
    program = plan.program
    _check_names(plan)
    for name, tensor in program.tensors.items():
        if name not in program.constants:
            _check_activation(tensor)
    for index, layer in enumerate(program.layers):
        _need(layer.op in FIELDS, f"layer {index} is '{layer.op}', which is no device op")
        _need(len(layer.outputs) == 1 and len(layer.inputs) > 0, f"layer {index} wants inputs and one output")
        _check_ends(index, layer, program)
        check_layer(*decode_layer(encode_layer(layer, program)))
        if narrow(layer.op) == "avg_pool":
            _check_counts(index, layer, program)
        if layer.op == "layer_norm":
            _check_pairs(index, layer, program)
        if layer.op in MAC_OPS and layer.op != "fp16_linear":
            _check_params(index, layer, program)
    _check_slots(plan, target)


def _check_ends(index: int, layer: Layer, program: Program) -> None:
    """A layer reads and makes what has pixels; constants may be of any shape."""
    source, made = layer.inputs[0], layer.outputs[0]
    _need(made not in program.constants, f"layer {index} makes the constant '{made}'")
    _need(len(program.tensors[source].shape) == 4, f"layer {index} reads '{source}', which has no pixels")


def _check_params(index: int, layer: Layer, program: Program) -> None:
    """Scales that an engine can multiply by: rows of bias, mantissa, f and sum, for 16 channels at a time."""
    name = layer.inputs[2] if len(layer.inputs) > 2 else ""
    _need(name in program.constants, f"layer {index} wants weights and params")
    params = program.constants[name]
    _need(params.dtype == np.int32 and params.size % 64 == 0, f"layer {index}: '{name}' is no params")
    _check_scales(index, *params.reshape(-1, 4, 16)[:, 1:3].swapaxes(0, 1))


def _check_scales(index: int, mantissas: NDArray[np.int32], shifts: NDArray[np.int32]) -> None:
    bad = (mantissas < 0) | (shifts < 0) | (shifts > MOST_SHIFT)
    for m, f in zip(mantissas[bad][:1].tolist(), shifts[bad][:1].tolist(), strict=True):
        raise ValueError(f"layer {index}: the constants hold {m} * 2^-{f}, which is no scale")


def _check_counts(index: int, layer: Layer, program: Program) -> None:
    """An engine that finds no constant for a window has no answer: there is one for each number of cells."""
    _need(len(layer.inputs) == 2 and layer.inputs[1] in program.constants, f"layer {index} wants constants of counts")
    rows = program.constants[layer.inputs[1]]
    _need(rows.dtype == np.int32 and rows.ndim == 2 and rows.shape[1] == 3, f"layer {index}: the counts are no rows")
    have, made = program.tensors[layer.inputs[0]].shape, program.tensors[layer.outputs[0]].shape
    _check_scales(index, rows[:, 1], rows[:, 2])
    known = {int(count) for count in rows[:, 0]}
    missing = [count for count in window_counts(have[1:3], made[1:3], layer.attrs) if count not in known]
    _need(not missing, f"layer {index} has no constant for windows of {missing[:1]} cells")


def _check_pairs(index: int, layer: Layer, program: Program) -> None:
    """Factors and offsets whose sums stay in 32 bits."""
    _need(len(layer.inputs) == 2 and layer.inputs[1] in program.constants, f"layer {index} wants factors and offsets")
    pairs = program.constants[layer.inputs[1]]
    _need(pairs.dtype == np.int32 and pairs.shape[-1:] == (2,), f"layer {index}: the factors are no pairs")
    most = int(np.abs(pairs.astype(np.int64)).max(initial=0))
    _need(most <= LARGEST_FACTOR, f"layer {index} has a factor or offset of {most}, the most is {LARGEST_FACTOR}")


def _check_names(plan: Plan) -> None:
    program = plan.program
    used = [name for layer in program.layers for name in (*layer.inputs, *layer.outputs)]
    for name in (*program.inputs, *program.outputs, *used):
        _need(name in program.tensors, f"tensor '{name}' is not described")
    for name in (*program.inputs, *program.outputs):
        _need(name not in program.constants, f"constant '{name}' is an input or output")
    for command in plan.commands:
        _need(
            0 <= command.layer < len(program.layers),
            f"a command is for layer {command.layer} of {len(program.layers)}",
        )


def _check_activation(tensor: Tensor) -> None:
    shape, form = tensor.shape, tensor.format
    _need(len(shape) == 4 and shape[0] == 1 and min(shape) > 0, f"'{tensor.name}' is stored as {shape}")
    _need(prod(shape) < MAX_ELEMENTS, f"'{tensor.name}' has {prod(shape)} elements")
    outside = tensor.onnx_shape
    _need(form.kind in STORED, f"'{tensor.name}' is {form.kind}, want int8, int16, fx32, fp16 or int32")
    inside = prod(shape) == prod(outside) * tensor.number_bytes and shape[3] % tensor.number_bytes == 0
    _need(inside, f"'{tensor.name}' is {outside} outside and {shape} inside")
    spread = tensor.layout != "channel_first" or len(outside) <= 4
    _need(spread, f"'{tensor.name}' is channel_first with {len(outside)} axes, the most is 4")
    if form.kind in ("fx32", "fp16"):
        _check_precise(tensor)
        return
    _need(len(form.scale) == len(form.zero_point) == 1, f"'{tensor.name}' wants one scale and one zero point")
    _need(form.kind != "int32" or form.scale == (1.0,), f"'{tensor.name}' is int32 with the scale {form.scale}")
    low, high = (-128, 127) if form.kind == "int8" else (0, 0)
    _need(low <= form.zero_point[0] <= high, f"'{tensor.name}' has the zero point {form.zero_point[0]}")


def _check_precise(tensor: Tensor) -> None:
    """fx32 has a number of fraction bits and nothing else, fp16 nothing."""
    form = tensor.format
    _need(form.scale == () and form.zero_point == (0,), f"'{tensor.name}' is {form.kind}, which has no scale")
    bits = form.fraction_bits
    _need((bits is None) == (form.kind == "fp16"), f"'{tensor.name}' is {form.kind} with {bits} fraction bits")
    _need(bits is None or bits <= MOST_FRACTION_BITS, f"'{tensor.name}' has {bits} fraction bits")


def _check_constants_apart(slots: list[Slot]) -> None:
    """What the commands read at the place of a constant is what was checked as that constant."""
    ordered = sorted(slots, key=lambda slot: slot.offset)
    for one, following in pairwise(ordered):
        _need(
            one.offset + one.size <= following.offset,
            f"the constants '{one.tensor}' and '{following.tensor}' share bytes",
        )


def _check_slots(plan: Plan, target: Target) -> None:
    """Slots inside their memories, memories no longer than their slots, and a place for all that the host writes."""
    program, ends = plan.program, {"ext": 0, "ocm": 0}
    places: dict[str, Slot] = {}
    host = {*program.constants, *program.inputs, *program.outputs}  # others may lie spread inside a larger tensor
    for slot in plan.slots:
        _need(slot.tensor in program.tensors, f"a slot is for '{slot.tensor}', which is not described")
        end = slot.offset + slot.size
        _need(end <= plan.sizes.get(slot.memory, 0), f"the slot of '{slot.tensor}' ends outside {slot.memory}")
        _need(slot.first <= slot.last < max(len(program.layers), 1), f"the slot of '{slot.tensor}' lives for no layer")
        ends[slot.memory] = max(ends[slot.memory], end)
        if slot.memory == "ext":
            _need(slot.tensor not in places, f"'{slot.tensor}' has two places in ext")
            places[slot.tensor] = slot
            if slot.tensor in host:
                _check_external(slot, program, target)
    _check_constants_apart([places[name] for name in program.constants if name in places])
    for memory, end in ends.items():
        size = plan.sizes.get(memory, 0)
        _need(size < end + ALIGNMENT, f"{memory} is {size} bytes, its slots end at {end}")
    _need(plan.sizes.get("ext", 0) <= MAX_EXTERNAL_BYTES, f"ext is {plan.sizes.get('ext')} bytes")
    _need(
        plan.sizes.get("ocm", 0) <= target.memory.ocm_bytes,
        f"the plan uses {plan.sizes.get('ocm')} bytes on chip, {target.name} has {target.memory.ocm_bytes}",
    )
    for name in (*program.inputs, *program.outputs):
        _need(name in places, f"'{name}' has no place in ext")
    for name in program.constants:
        _need(name in places, f"constant '{name}' has no place in ext")


def _check_external(slot: Slot, program: Program, target: Target) -> None:
    """As long as its tensor: the host finds a pixel by dividing the slot by the pixels."""
    if slot.tensor in program.constants:
        wanted = program.constants[slot.tensor].nbytes
    else:
        _, h, w, c = program.tensors[slot.tensor].shape
        wanted = h * w * target.stored_channels(c)
    _need(slot.size == wanted, f"the slot of '{slot.tensor}' is {slot.size} bytes, want {wanted}")


def _need(true: bool, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)
