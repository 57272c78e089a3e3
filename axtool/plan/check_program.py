"""What a legal Program is: `verify_program` raises ValueError with the first rule that one breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np

from axtool.ops.elements import in_bytes, narrow
from axtool.ops.encoding import ATTENTIONS, FIELDS, MAC_OPS, decode_layer, dims_of, encode_layer
from axtool.ops.legal import check_layer
from axtool.ops.packing import PARAM_BYTES, blocks, conv_block_bytes, depthwise_block_bytes
from axtool.ops.packing_fp16 import bias_block_bytes, linear_block_bytes
from axtool.ops.reference_rows import PAIR_BYTES
from axtool.ops.regions import EXP_TABLE_BYTES, WIDE_TABLE_BYTES
from axtool.ops.tables import FX_POINTS, INTERP_ENTRIES
from axtool.plan.check_wide import verify_numbers
from axtool.plan.layout import stored_shape
from axtool.plan.tile_needs import boxed_inputs
from axtool.types import Layer, Program

# Activations an op reads, and whether its output keeps their format. Constants follow; concat reads any number.
OPERANDS: Mapping[str, tuple[int, bool]] = MappingProxyType(
    {
        "conv": (1, False), "depthwise": (1, False), "conv_transpose": (1, False), "add": (2, False), "mul": (2, False),
        "requantize": (1, False), "slice": (1, True), "pad": (1, True), "max_pool": (1, True), "avg_pool": (1, False),
        "resize_nearest": (1, True), "resize_linear": (1, False), "lut": (1, False), "transpose": (1, True),
        "reshape": (1, True), "depth_to_space": (1, True), "space_to_depth": (1, True),
        "wide_conv": (1, False), "wide_depthwise": (1, False), "wide_add": (2, False), "wide_mul": (2, False),
        "matmul": (2, False), "attention": (3, False), "fp16_matmul": (2, False), "fp16_attention": (3, False),
        "custom": (1, False),
        "wide_requantize": (1, False), "wide_lut": (1, False), "wide_avg_pool": (1, False),
        "softmax": (1, False), "layer_norm": (1, False), "arg_max": (1, False),
        "fx_softmax": (1, False), "fx_layer_norm": (1, False),
        "fx_add": (2, False), "fx_mul": (2, False), "fx_requantize": (1, False), "fx_quantize": (1, False),
        "fx_dequantize": (1, False), "fx_lut": (1, False), "fx_from_fp16": (1, False), "fp16_from_fx": (1, False),
        "fp16_linear": (1, False),
    }
)  # fmt: skip
STORED = ("int8", "int16", "fx32", "fp16", "int32")  # kinds of a tensor on the device; int32 are whole numbers
DTYPES = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "fp16": np.float16, "float32": np.float32}


def verify_program(program: Program) -> None:
    """Every name described, one writer for each tensor, an order that runs, attributes and constants that fit."""
    for name, tensor in program.tensors.items():
        _need(tensor.name == name, f"tensor '{name}' calls itself '{tensor.name}'")
    for name in program.constants:
        _verify_constant(program, name)
    ready = set(program.inputs) | set(program.constants)
    _need(len(ready) == len(program.inputs) + len(program.constants), "an input is given twice, or is a constant")
    for name in program.inputs:
        _verify_activation(program, name, "input")
    for layer in program.layers:
        _verify_names(program, layer, ready)
        _verify_layer(program, layer)
        ready.update(layer.outputs)
    for name in program.outputs:
        _need(name in ready and name not in program.constants, f"output '{name}' is not made by any layer")
    _need(len(set(program.outputs)) == len(program.outputs), "an output is listed twice")


def _verify_names(program: Program, layer: Layer, ready: set[str]) -> None:
    where = _where(layer)
    _need(layer.op in FIELDS, f"{where} is no device op")
    _need(len(layer.outputs) == 1, f"{where} has {len(layer.outputs)} outputs, want 1")
    for name in layer.inputs:
        _need(name in program.tensors, f"{where} reads '{name}', which nothing describes")
        _need(name in ready, f"{where} reads '{name}' before it is made")
    out = layer.outputs[0]
    _need(out not in ready, f"{where} writes '{out}', which already has a value")
    _verify_activation(program, out, where)


def _verify_layer(program: Program, layer: Layer) -> None:
    where = _where(layer)
    missing = set(FIELDS[layer.op]) ^ set(layer.attrs)
    _need(not missing, f"{where}: attributes {sorted(missing)} are missing or unknown")
    boxes = operands(layer)
    flat = layer.inputs[boxes:]
    _need(len(layer.inputs) >= boxes > 0, f"{where} has {len(layer.inputs)} inputs")
    for name in layer.inputs[:boxes]:
        _verify_activation(program, name, where)
    _verify_row(program, layer)
    sizes = _constant_bytes(program, layer)
    _need(len(flat) == len(sizes), f"{where} has {len(flat)} constants, want {len(sizes)}")
    for name, size in zip(flat, sizes, strict=True):
        _need(name in program.constants, f"{where}: '{name}' is not a constant")
        have = program.constants[name].nbytes
        _need(have == size or size < 0, f"{where}: constant '{name}' has {have} bytes, want {size}")
    if layer.op != "concat" and OPERANDS[layer.op][1]:
        one, other = (program.tensors[name].format for name in (layer.inputs[0], layer.outputs[0]))
        _need(one == other, f"{where} cannot change a format: {one} -> {other}")
    if layer.op == "concat":
        _verify_parts(program, layer)
    verify_numbers(program, layer, layer.inputs[:boxes])


def operands(layer: Layer) -> int:
    """How many activations a layer reads."""
    if layer.op in ("concat", "custom"):
        return boxed_inputs(layer)
    return OPERANDS[layer.op][0] + bool(layer.attrs.get("mask"))


def _verify_row(program: Program, layer: Layer) -> None:
    """The row that the engines read says the same, and they accept it."""
    try:
        op, in_dims, out_dims, attrs = decode_layer(encode_layer(layer, program))
        check_layer(op, in_dims, out_dims, attrs)
    except ValueError as error:
        raise ValueError(f"{_where(layer)}: {error}") from None
    if "b" in attrs:
        have = program.tensors[layer.inputs[1]].numbers
        _need(tuple(attrs["b"]) == have, f"{_where(layer)}: b is {attrs['b']}, its tensor {have}")  # type: ignore[arg-type]
    if layer.op in ATTENTIONS:
        _verify_attention(program, layer)


def _verify_attention(program: Program, layer: Layer) -> None:
    """Keys, values and mask are as large as the row says."""
    a, names = layer.attrs, layer.inputs
    (_, length, depth), (_, _, made) = (program.tensors[name].numbers for name in (names[0], layer.outputs[0]))
    wants = [(1, a["keys"], depth), (1, a["keys"], made)]
    if a["mask"]:
        wants.append((1, length if a["mask"] == 2 else 1, a["keys"]))
    for name, want in zip(names[1 : 1 + len(wants)], wants, strict=True):
        have = program.tensors[name].numbers
        _need(have == want, f"{_where(layer)}: '{name}' is {have}, want {want}")


def _verify_parts(program: Program, layer: Layer) -> None:
    """The parts of a concat are as many and as large as its inputs, and copied bytes have the output's format."""
    where, axis, parts = _where(layer), layer.attrs["axis"], layer.attrs["parts"]
    _need(len(parts) == 4 * len(layer.inputs), f"{where} has {len(parts)} integers for {len(layer.inputs)} parts")
    out, offset = program.tensors[layer.outputs[0]], 0
    for at, name in enumerate(layer.inputs):
        tensor = program.tensors[name]
        dims, want = list(dims_of(tensor.shape)), list(dims_of(out.shape))
        _need(parts[4 * at] == offset, f"{where}: part {at} begins at {parts[4 * at]}, want {offset}")
        offset += dims[axis]
        want[axis] = dims[axis]
        _need(dims == want, f"{where}: part {at} is {dims}, want {want}")
        _need(
            parts[4 * at + 2] > 0 or tensor.format == out.format, f"{where} copies '{name}', which has another format"
        )
    _need(offset == dims_of(out.shape)[axis], f"{where}: parts make {offset} of {dims_of(out.shape)[axis]}")


def _constant_bytes(program: Program, layer: Layer) -> list[int]:
    """Bytes of each flat constant of a layer; -1 where any number will do."""
    a = layer.attrs
    cin, cout = (program.tensors[name].numbers[2] for name in (layer.inputs[0], layer.outputs[0]))
    if layer.op == "fp16_linear":
        return [blocks(cout) * linear_block_bytes(cin), blocks(cout) * bias_block_bytes(a["bias_rows"])]
    if layer.op in MAC_OPS:
        group = a["group"]
        if narrow(layer.op) == "depthwise":
            number, size = blocks(cout), depthwise_block_bytes(a["kernel"])
        else:
            number, size = group * blocks(cout // group), conv_block_bytes(a["kernel"], cin // group)
        return [number * size, number * PARAM_BYTES] + ([2 * INTERP_ENTRIES] if a["act"] else [])
    if layer.op == "custom":
        return [a["count"]]
    if layer.op == "lut":
        return [256 * (cin if a["per_channel"] else 1)]
    if layer.op in ("layer_norm", "fx_layer_norm"):
        return [cout * PAIR_BYTES]
    if layer.op == "wide_lut":
        return [WIDE_TABLE_BYTES[in_bytes(a)]]
    if layer.op in ("attention", "softmax"):
        return [EXP_TABLE_BYTES]
    if layer.op == "fx_lut":
        return [FX_POINTS * 4]
    return [-1] if narrow(layer.op) == "avg_pool" else []


def _verify_activation(program: Program, name: str, where: str) -> None:
    _need(name in program.tensors, f"{where}: nothing describes '{name}'")
    tensor = program.tensors[name]
    _need(_is_stored(tensor.shape), f"{where}: '{name}' has the shape {tensor.shape}, want (1, h, w, c)")
    form = tensor.format
    _need(form.kind in STORED, f"{where}: '{name}' is {form.kind}, want {', '.join(STORED[:-1])} or {STORED[-1]}")
    whole = form.kind == "int8" or form.zero_point == (0,)
    _need(whole, f"{where}: '{name}' is {form.kind} with zero {form.zero_point}")
    _need(form.kind != "int32" or form.scale == (1.0,), f"{where}: '{name}' is int32 with the scale {form.scale}")
    if form.kind == "fx32":
        _need(form.fraction_bits is not None, f"{where}: '{name}' is fx32 without a number of fraction bits")
    if tensor.onnx_shape:
        want = stored_shape(tensor.onnx_shape, tensor.layout, tensor.number_bytes)
        _need(tensor.shape == want, f"{where}: '{name}' is stored as {tensor.shape}, {tensor.onnx_shape} wants {want}")


def _verify_constant(program: Program, name: str) -> None:
    _need(name in program.tensors, f"nothing describes the constant '{name}'")
    tensor, values = program.tensors[name], program.constants[name]
    _need(tensor.shape == values.shape, f"constant '{name}' is {values.shape}, described as {tensor.shape}")
    boxed = values.ndim == 4  # beside a tensor, and like one: bytes
    want = np.int8 if boxed else DTYPES.get(tensor.format.kind)
    _need(values.dtype == want, f"constant '{name}' is {values.dtype}, described as {tensor.format.kind}")


def _is_stored(shape: Sequence[int]) -> bool:
    return len(shape) == 4 and shape[0] == 1 and prod(shape) > 0 and min(shape) > 0


def _where(layer: Layer) -> str:
    return f"layer '{layer.name}' ({layer.op})"


def _need(true: bool, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)
