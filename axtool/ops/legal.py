"""What a layer row must satisfy before an engine may believe it: one reason for each way to be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any

from axtool.ops.arithmetic import LIMITS
from axtool.ops.boxes import Dims
from axtool.ops.custom import MOST_INPUTS
from axtool.ops.elements import in_bytes, is_sized, is_wide, narrow, out_bytes
from axtool.ops.legal_mixed import NUMBER_BYTES, mixed_faults
from axtool.ops.legal_products import product_faults

LARGEST = 2**31 - 1
MOST_SIZE = 2**23  # of an axis
MOST_REACH, MOST_PRODUCTS, MOST_BAND_BYTES = 2**30, 2**24, 2**28
MOST_ROW = 2**16  # channels of an op that looks at all of a pixel
LABEL_BYTES = 4  # of an index of a channel
MOST_FACTOR_BITS = 29
MOST_EXPONENT = 2**12
MOST_SHIFT = 62  # of a product of 64 bits
FORMS: Mapping[str, int] = MappingProxyType({"softmax": 2, "layer_norm": 4, "fx_softmax": 2, "fx_layer_norm": 4})
IN_WORDS = {2: "two", 4: "four"}
ZERO_POINTS = {"x_zp": "x_bytes", "zp": "x_bytes", "zp_a": "a_bytes", "zp_b": "b_bytes", "out_zp": "out_bytes"}


def check_layer(op: str, in_dims: Dims, out_dims: Dims, attrs: Mapping[str, Any]) -> None:
    """Raises ValueError with the first reason why no engine could run this layer."""
    if not all(1 <= size < MOST_SIZE for size in (*in_dims, *out_dims)):
        raise ValueError(f"{op}: {in_dims} -> {out_dims} is not a size")
    for fault in chain(_bytes(op, in_dims, out_dims, attrs), _numbers(attrs)):  # lazily: the later believe the earlier
        raise ValueError(f"{op}: {fault}")
    for fault in _windows(op, in_dims, out_dims, attrs):
        raise ValueError(f"{op}: {fault}")
    given, made = _counted(in_dims, in_bytes(attrs)), _counted(out_dims, out_bytes(attrs))
    for fault in _family(narrow(op), given, made, attrs):
        raise ValueError(f"{op}: {fault}")


def _bytes(op: str, in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of as many bytes as the op can have, whole ones, and zero points and bounds that they hold."""
    if not is_sized(a):
        return
    sizes = {name: a[name] for name in ("x_bytes", "a_bytes", "b_bytes", "out_bytes") if name in a}
    known = NUMBER_BYTES.get(op, {})
    for name, size in sizes.items():
        choices = known.get(name, (1, 2) if is_wide(op) else (1, 2, 4))
        if size not in choices:
            yield f"{name} {size} is not {' or '.join(map(str, choices))}"
    if is_wide(op) and 2 not in sizes.values():
        yield "no operand has numbers of two bytes"
    if in_dims[2] % in_bytes(a) or out_dims[2] % out_bytes(a):
        yield f"{in_dims} -> {out_dims} cuts a number"
    for name, of in ZERO_POINTS.items():
        if a.get(name) and a[of] > 1:
            yield f"{name} {a[name]} of a number of {IN_WORDS[a[of]]} bytes is not 0"
    if a.get("act") and a["out_bytes"] == 2:
        yield "act 1 makes numbers of one byte"


def _windows(op: str, in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    """Windows whose positions an engine can count, and of numbers of two bytes those that it can gather and sum."""
    if "stride" not in a:
        return
    if max(map(abs, a.get("pad_end", (0,)))) >= MOST_REACH // 2:
        yield f"pad_end {a['pad_end']} reaches beyond 2^29 positions"
    for size, made, kernel, stride, dilation, pad in zip(
        in_dims, out_dims, a["kernel"], a["stride"], a["dilation"], a["pad"], strict=False
    ):
        if max(size, made) * stride + kernel * dilation + abs(pad) >= MOST_REACH:
            yield f"a window of {kernel} by {dilation} with pad {pad} reaches beyond 2^30 positions"
    if not is_wide(op) or "group" not in a or a["group"] < 1:
        return
    inputs, outputs = in_dims[2] // in_bytes(a), out_dims[2] // out_bytes(a)
    (kh, kw), (dh, dw) = a["kernel"], a["dilation"]
    if kh * kw * (inputs // a["group"]) > MOST_PRODUCTS or kh * kw > MOST_PRODUCTS:
        yield "more than 2^24 products in a sum"
    width = (out_dims[1] - 1) * a["stride"][1] + (kw - 1) * dw + 1
    channels = -(-outputs // 16) * 16 if narrow(op) == "depthwise" else -(-inputs // a["group"] // 4) * 4
    if ((kh - 1) * dh + 1) * width * 2 * channels > MOST_BAND_BYTES:
        yield "a row of outputs looks at more than 2^28 bytes"


def _counted(dims: Dims, size: int) -> Dims:
    return dims[0], dims[1], dims[2] // size


def _numbers(a: Mapping[str, Any]) -> Iterator[str]:
    """Rules that hold for a field wherever it appears."""
    for name in ("x_zp", "out_zp", "zp", "zp_a", "zp_b", "zp_q", "zp_k", "zp_s", "zp_m", "zp_v", "value"):
        if name in a and not -128 <= a[name] <= 127:
            yield f"{name} {a[name]} is not an int8"
    kind = {1: "int8", 2: "int16", 4: "int32"}[out_bytes(a)]
    for name in ("lo", "hi"):
        if name in a and not LIMITS[kind][0] <= a[name] <= LIMITS[kind][1]:
            yield f"{name} {a[name]} is not an {kind}"
    if "lo" in a and a["lo"] > a["hi"]:
        yield f"lo {a['lo']} is above hi {a['hi']}"
    for name in ("kernel", "stride", "dilation", "factor", "block"):
        values = a.get(name, 1)
        if not all(1 <= value <= LARGEST for value in (values if isinstance(values, tuple) else (values,))):
            yield f"{name} {values} is not positive"
    for name in ("pad", "pad_end", "before"):
        if not all(abs(value) <= LARGEST for value in a.get(name, ())):
            yield f"{name} {a[name]} is not a distance"
    for m, f in (("m", "f"), ("m_a", "f_a"), ("m_b", "f_b"), ("m_s", "f_s"), ("m_m", "f_m")):
        if m in a and not (0 <= a[m] <= LARGEST and 0 <= a[f] <= 31):
            yield f"{m} {a[m]}, {f} {a[f]} is not a scale"
    for name in ("act", "sub", "include_pad", "per_channel", "trans_b", "flat", "last", "relu"):
        if name in a and not 0 <= a[name] <= 1:
            yield f"{name} {a[name]} is not 0..1"


def _family(op: str, in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    if op in NUMBER_BYTES:
        yield from mixed_faults(op, in_dims, out_dims, a)
    match op:
        case "conv" | "depthwise" | "conv_transpose":
            yield from _mac(op, in_dims[2], out_dims[2], a["group"])
        case "add" | "mul" | "fx_add" | "fx_mul":
            yield from _broadcast(in_dims, out_dims, a)
        case "concat":
            yield from _concat(in_dims, out_dims, a["axis"], a["parts"])
        case "requantize" | "lut" | "fx_requantize" | "fx_quantize" | "fx_dequantize":
            yield from _same(in_dims, out_dims)
        case "matmul" | "fp16_matmul" | "attention" | "fp16_attention":
            yield from product_faults(op, in_dims, out_dims, a)
        case "arg_max":
            yield from _arg_max(in_dims, out_dims, a)
        case "softmax" | "layer_norm" | "fx_softmax" | "fx_layer_norm":
            yield from _same(in_dims, out_dims)
            yield from _row(op, in_dims[2], a)
        case "fx_lut" | "fx_from_fp16" | "fp16_from_fx":
            yield from _same(in_dims, out_dims)
        case "fp16_linear":
            yield from _same(in_dims[:2], out_dims[:2])
        case "max_pool" | "avg_pool":
            yield from _same(in_dims[2:], out_dims[2:])
        case "slice":
            for size, count, start, step in zip(in_dims, out_dims, a["start"], a["step"], strict=True):
                if step == 0 or not (0 <= start < size and 0 <= start + (count - 1) * step < size):
                    yield f"{count} positions from {start} by {step} leave an axis of {size}"
        case "pad":
            if not 0 <= a["mode"] <= 2:
                yield f"mode {a['mode']} is not 0..2"
        case "resize_nearest" | "resize_linear":
            if not 0 <= a.get("mode", 0) <= 1:
                yield f"mode {a['mode']} is not 0..1"
            yield from _same((in_dims[0] * a["factor"][0], in_dims[1] * a["factor"][1], in_dims[2]), out_dims)
        case "transpose":
            if sorted(a["perm"]) != [0, 1, 2]:
                yield f"perm {a['perm']} is not a permutation"
            else:
                yield from _same(tuple(in_dims[axis] for axis in a["perm"]), out_dims)
        case "reshape":
            if in_dims[0] * in_dims[1] * in_dims[2] != out_dims[0] * out_dims[1] * out_dims[2]:
                yield f"{in_dims} and {out_dims} have different numbers of elements"
        case "depth_to_space":
            if not 0 <= a["mode"] <= 1:
                yield f"mode {a['mode']} is not 0..1"
            yield from _blocks(in_dims, out_dims, a["block"])
        case "custom":
            yield from _custom(in_dims, out_dims, a)
        case "space_to_depth":
            yield from _blocks(out_dims, in_dims, a["block"])


def _mac(op: str, cin: int, cout: int, group: int) -> Iterator[str]:
    if group < 1 or cin % group or cout % group:
        yield f"{cin} -> {cout} channels do not divide into {group} groups"
    elif op == "depthwise" and cin != group:
        yield f"{cin} input channels in {group} groups: want one in each"


def _arg_max(in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    if a["out_bytes"] != LABEL_BYTES:
        yield f"out_bytes {a['out_bytes']} is not {LABEL_BYTES}"
    h, w, _ = in_dims
    yield from _same((1, h, w) if a["flat"] else (h, w, 1), out_dims)


def _row(op: str, channels: int, a: Mapping[str, Any]) -> Iterator[str]:
    """Rows whose sums an engine can hold."""
    if channels > MOST_ROW:
        yield f"{channels} channels are more than 2^16"
    if not 0 <= a["form"] < FORMS[op]:
        yield f"form {a['form']} is not 0..{FORMS[op] - 1}"
    if op == "layer_norm" and not 0 <= a["f"] <= MOST_FACTOR_BITS:
        yield f"f {a['f']} is not 0..{MOST_FACTOR_BITS}"
    if "eps_m" in a and a["eps_m"] and not (2**30 <= a["eps_m"] <= LARGEST and abs(a["eps_e"]) <= MOST_EXPONENT):
        yield f"eps_m {a['eps_m']}, eps_e {a['eps_e']} is not a number of 31 bits and its exponent"
    yield from (f"{name} {a[name]} is not 0..31" for name in ("f_x", "f") if "f_x" in a and not 0 <= a[name] <= 31)
    if not 0 <= a.get("shift", 0) <= MOST_SHIFT:
        yield f"shift {a['shift']} is not 0..{MOST_SHIFT}"


def _broadcast(in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    yield from _same(in_dims, a["a"])
    for name in "ab":
        if any(size not in (1, out) for size, out in zip(a[name], out_dims, strict=True)):
            yield f"operand {name} {a[name]} does not broadcast to {out_dims}"
    if any(out not in (left, right) for left, right, out in zip(a["a"], a["b"], out_dims, strict=True)):
        yield f"{a['a']} and {a['b']} do not make {out_dims}"


def _concat(in_dims: Dims, out_dims: Dims, axis: int, parts: tuple[int, ...]) -> Iterator[str]:
    if not 0 <= axis <= 2:
        yield f"axis {axis} is not 0..2"
        return
    if not parts or len(parts) % 4:
        yield f"{len(parts)} integers are not parts of 4"
        return
    offsets = (*parts[::4], out_dims[axis])
    if offsets[0] != 0 or any(left >= right for left, right in pairwise(offsets)):
        yield f"offsets {offsets[:-1]} do not fill {out_dims[axis]} in order"
        return
    first = list(out_dims)
    first[axis] = offsets[1]
    yield from _same(in_dims, tuple(first))
    for _, zp, m, f in zip(*(parts[start::4] for start in range(4)), strict=True):
        if not (-128 <= zp <= 127 and 0 <= m <= LARGEST and 0 <= f <= 31):
            yield f"part (zp {zp}, m {m}, f {f}) is not a format"


def _custom(in_dims: Dims, out_dims: Dims, a: Mapping[str, Any]) -> Iterator[str]:
    dims = [tuple(a["boxes"][at : at + 3]) for at in range(0, len(a["boxes"]), 3)]
    if a["whole"] not in (0, 1) or a["count"] < 1:
        yield f"whole {a['whole']}, count {a['count']}: want 0 or 1, and a byte at least"
    if not 1 <= len(dims) <= MOST_INPUTS or len(dims[-1]) != 3 or not all(1 <= n < MOST_SIZE for n in a["boxes"]):
        yield f"boxes {a['dims']} are not those of 1 to {MOST_INPUTS} inputs"
        return
    yield from _same(dims[0], in_dims)
    if not a["whole"] and any(
        size not in (1, out) for one in dims for size, out in zip(one[:2], out_dims, strict=False)
    ):
        yield f"inputs of {dims} have other pixels than {out_dims}"


def _blocks(deep: Dims, wide: Dims, block: int) -> Iterator[str]:
    yield from _same(deep, (wide[0] // block, wide[1] // block, wide[2] * block * block))
    if wide[0] % block or wide[1] % block:
        yield f"{wide[:2]} is not a multiple of the block {block}"


def _same(got: tuple[int, ...], want: tuple[int, ...]) -> Iterator[str]:
    if tuple(got) != tuple(want):
        yield f"{tuple(got)} does not fit {tuple(want)}"
