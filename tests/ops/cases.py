"""One random layer of any device op, with random numbers to feed it: odd sizes, odd attributes, by seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.arithmetic import qfp
from axtool.ops.boxes import Box, Dims, Job, flat_tile, whole
from axtool.ops.elements import is_wide, narrow, out_bytes
from axtool.ops.encoding import MAC_OPS, PRODUCTS, window_of
from axtool.ops.exponential import exp_table, iterated_exp_table
from axtool.ops.legal_mixed import NUMBER_BYTES
from axtool.ops.packing import fold_bias, outputs_first, pack_conv_weights, pack_depthwise, pack_params
from axtool.ops.reference_fx_rows import fx_affine
from axtool.ops.reference_rows import affine_pairs, epsilon_fields
from axtool.types import Tile

CHANNELS = (1, 3, 7, 17, 65)
SIZES = (1, 2, 3, 5, 8, 13)


@dataclass(frozen=True)
class Case:
    """A layer and its operands: int8 (h, w, c), or 1-D flat data. A MAC op's was packed from `w` and `bias`."""

    op: str
    in_dims: Dims
    out_dims: Dims
    attrs: dict[str, Any]
    operands: tuple[NDArray[Any], ...]
    w: NDArray[np.int8] | None = None
    bias: NDArray[np.int64] | None = None

    def job(self, tile: Tile | None = None, part: int = 0) -> Job:
        return Job(self.op, self.in_dims, self.out_dims, self.attrs, tile or whole(self.out_dims), part)

    def boxes(self) -> list[Box]:
        """Every operand, whole."""
        return [whole_box(array) for array in self.operands]


def whole_box(array: NDArray[Any]) -> Box:
    if array.ndim == 1:
        data = np.ascontiguousarray(array).view(np.int8)
        return Box(data.reshape(1, 1, -1), flat_tile(0, data.size))
    return Box(array, whole(array.shape))


def random_case(op: str, seed: int) -> Case:
    """A small layer of `op`; the same one for the same seed."""
    if op in PRODUCTS:
        from tests.ops.product_cases import product_case  # it is made of the dice here

        return product_case(Dice(op, seed))
    if op == "custom":
        from tests.ops.custom_cases import custom_case

        return custom_case(Dice(op, seed))
    if op in NUMBER_BYTES and op not in _MAKERS:
        from tests.ops.mixed_cases import mixed_case

        return mixed_case(op, seed)
    if not is_wide(op):
        return _MAKERS[op](Dice(op, seed))
    from tests.ops.wide_cases import widened  # it is made of the cases here

    return widened(random_case(narrow(op), seed), seed)


def random_tile(case: Case, seed: int) -> Tile:
    """Any box of the output, of whole numbers; of a MAC op one that begins with a block of 16 channels."""
    rng = np.random.default_rng(seed)
    bounds, number = [], out_bytes(case.attrs)
    for size in (*case.out_dims[:2], case.out_dims[2] // number):
        start = int(rng.integers(size))
        bounds.append((start, int(rng.integers(1, size - start + 1))))
    (y, h), (x, w), (c, n) = bounds
    if case.op in MAC_OPS:
        channels = case.out_dims[2] // number
        share = channels if narrow(case.op) == "depthwise" else channels // window_of(case.attrs)["group"]
        c -= c % share % 16
    return Tile(y, x, c * number, h, w, n * number)


class Dice:
    """Random numbers of a case; the same ones for the same op and seed."""

    def __init__(self, op: str, seed: int) -> None:
        self.op, self.rng = op, np.random.default_rng([seed, len(op)])

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def between(self, lo: int, hi: int) -> int:
        return int(self.rng.integers(lo, hi + 1))

    def pair(self, lo: int, hi: int) -> tuple[int, int]:
        return self.between(lo, hi), self.between(lo, hi)

    def dims(self) -> Dims:
        return self.pick(SIZES), self.pick(SIZES), self.pick(CHANNELS)

    def array(self, *shape: int) -> NDArray[np.int8]:
        return self.rng.integers(-128, 128, shape, dtype=np.int8)

    def zp(self) -> int:
        return self.between(-128, 127)

    def scale(self, middle: float) -> tuple[int, int]:
        return qfp(float(middle * 2.0 ** self.rng.uniform(-2, 2)))

    def clamp(self) -> dict[str, int]:
        lo, hi = sorted(self.pair(-128, 127))
        return {"lo": lo, "hi": hi} if self.between(0, 2) == 0 else {"lo": -128, "hi": 127}


def _windows(d: Dice, largest_pad: int = 4) -> dict[str, Any]:
    return {
        "kernel": d.pair(1, 4),
        "stride": d.pair(1, 3),
        "dilation": d.pair(1, 2),
        "pad": d.pair(0, largest_pad),
    }


def _sliding(size: int, k: int, s: int, d: int, before: int, after: int) -> int:
    return max((size + before + after - (k - 1) * d - 1) // s + 1, 1)


def _mac(d: Dice) -> Case:
    a = _windows(d)
    group = d.pick((1, 1, 2, 3))
    h, w = d.pick(SIZES), d.pick(SIZES)
    if d.op == "depthwise":
        group = d.pick(CHANNELS)
        cing, coutg = 1, d.pick((1, 1, 2, 3))
    else:
        cing, coutg = d.pick(CHANNELS), d.pick(CHANNELS)
    cin, cout = cing * group, coutg * group
    if d.op == "conv_transpose":
        weights = d.array(cin, coutg, *a["kernel"])
        wsum = weights.reshape(group, cing, coutg, -1).sum(axis=(1, 3), dtype=np.int64).reshape(-1)
        out = tuple(
            max((size - 1) * s + (k - 1) * e + 1 - p - d.between(0, p), 1)
            for size, k, s, e, p in zip((h, w), a["kernel"], a["stride"], a["dilation"], a["pad"], strict=True)
        )
        packed = pack_conv_weights(outputs_first(weights, group), group)
    else:
        weights = d.array(cout, cing, *a["kernel"])
        wsum = weights.reshape(cout, -1).sum(axis=1, dtype=np.int64)
        out = tuple(
            _sliding(size, k, s, e, p, d.between(0, 3))
            for size, k, s, e, p in zip((h, w), a["kernel"], a["stride"], a["dilation"], a["pad"], strict=True)
        )
        packed = pack_depthwise(weights) if d.op == "depthwise" else pack_conv_weights(weights, group)
    a |= {"group": group, "x_zp": d.zp(), "out_zp": d.zp(), "act": d.between(0, 1), **d.clamp()}
    middle = 100.0 / (5000.0 * np.sqrt(cing * a["kernel"][0] * a["kernel"][1])) * (256 if a["act"] else 1)
    m, f = zip(*(d.scale(middle) for _ in range(cout)), strict=True)
    bias = d.rng.integers(-20000, 20001, cout)
    params = pack_params(fold_bias(bias, a["x_zp"], wsum), m, f, wsum, 1 if d.op == "depthwise" else group)
    operands = [d.array(h, w, cin), packed, params]
    if a["act"]:
        operands.append(d.rng.integers(-(2**15), 2**15, 1025, dtype=np.int16))
    return Case(d.op, (h, w, cin), (*out, cout), a, tuple(operands), weights, bias)


def _binary(d: Dice) -> Case:
    out = d.dims()
    a = tuple(d.pick((size, size, 1)) for size in out)
    b = tuple(d.pick((size, 1)) if left == size else size for size, left in zip(out, a, strict=True))
    attrs: dict[str, Any] = {"a": a, "b": b, "zp_a": d.zp(), "zp_b": d.zp(), "out_zp": d.zp(), **d.clamp()}
    if d.op == "add":
        (m_a, f_a), (m_b, f_b) = d.scale(0.7), d.scale(0.7)
        attrs |= {"m_a": m_a, "f_a": f_a, "m_b": m_b, "f_b": f_b, "sub": d.between(0, 1)}
    else:
        attrs["m"], attrs["f"] = d.scale(0.01)
    return Case(d.op, a, out, attrs, (d.array(*a), d.array(*b)))


def _concat(d: Dice) -> Case:
    base, axis = d.dims(), d.between(0, 2)
    sizes = [d.pick(CHANNELS) for _ in range(d.between(1, 4))]
    parts: list[int] = []
    for at, _ in enumerate(sizes):
        parts += [sum(sizes[:at]), d.zp(), *(d.pick(((0, 0), d.scale(1.0))))]
    shapes = [tuple(size if k == axis else n for k, n in enumerate(base)) for size in sizes]
    out = tuple(sum(sizes) if k == axis else n for k, n in enumerate(base))
    attrs = {"axis": axis, "out_zp": d.zp(), "parts": tuple(parts)}
    return Case(d.op, shapes[0], out, attrs, tuple(d.array(*shape) for shape in shapes))


def _requantize(d: Dice) -> Case:
    dims, (m, f) = d.dims(), d.scale(1.0)
    return Case(d.op, dims, dims, {"zp": d.zp(), "m": m, "f": f, "out_zp": d.zp(), **d.clamp()}, (d.array(*dims),))


def _lut(d: Dice) -> Case:
    dims, per_channel = d.dims(), d.between(0, 1)
    table = d.array(256 * (dims[2] if per_channel else 1))
    return Case(d.op, dims, dims, {"per_channel": per_channel}, (d.array(*dims), table))


def _slice(d: Dice) -> Case:
    dims, picked = d.dims(), []
    for size in dims:
        step, start = d.pick((1, 1, 2, 3, -1, -2)), d.between(0, size - 1)
        room = (size - 1 - start) // step if step > 0 else start // -step
        picked.append((start, step, d.between(1, room + 1)))
    start, step, out = zip(*picked, strict=True)
    return Case(d.op, dims, out, {"start": start, "step": step}, (d.array(*dims),))


def _pad(d: Dice) -> Case:
    dims = d.dims()
    before = tuple(d.between(-1, 3) for _ in dims)
    out = tuple(max(size + b + d.between(-1, 3), 1) for size, b in zip(dims, before, strict=True))
    return Case(d.op, dims, out, {"before": before, "mode": d.between(0, 2), "value": d.zp()}, (d.array(*dims),))


def _pool(d: Dice) -> Case:
    dims, a = d.dims(), _windows(d, 2)
    after = d.pair(0, 3)  # what ceil_mode adds as well
    sizes = zip(dims[:2], a["kernel"], a["stride"], a["dilation"], a["pad"], after, strict=True)
    out = (*(_sliding(*size) for size in sizes), dims[2])
    if d.op == "max_pool":
        return Case(d.op, dims, out, a, (d.array(*dims),))
    counts = range(1, a["kernel"][0] * a["kernel"][1] + 1)
    rows = [(count, *qfp(1.3 / count)) for count in counts]
    a |= {"pad_end": d.pair(0, 2), "include_pad": d.between(0, 1), "zp": d.zp(), "out_zp": d.zp(), **d.clamp()}
    return Case(d.op, dims, out, a, (d.array(*dims), np.array(rows, np.int32).reshape(-1)))


def _resize(d: Dice) -> Case:
    dims, factor = d.dims(), d.pair(1, 4)
    out = (dims[0] * factor[0], dims[1] * factor[1], dims[2])
    a: dict[str, Any] = {"factor": factor}
    if d.op == "resize_linear":
        m, f = qfp(1.1 / (4 * factor[0] * factor[1]))
        a |= {"mode": d.between(0, 1), "zp": d.zp(), "m": m, "f": f, "out_zp": d.zp()}
    return Case(d.op, dims, out, a, (d.array(*dims),))


def _transpose(d: Dice) -> Case:
    dims, perm = d.dims(), tuple(int(axis) for axis in d.rng.permutation(3))
    return Case(d.op, dims, tuple(dims[axis] for axis in perm), {"perm": perm}, (d.array(*dims),))


def _reshape(d: Dice) -> Case:
    dims, out, left = d.dims(), [], 0
    left = dims[0] * dims[1] * dims[2]
    for _ in range(2):
        out.append(d.pick([n for n in range(1, left + 1) if left % n == 0]))
        left //= out[-1]
    return Case(d.op, dims, (*out, left), {}, (d.array(*dims),))


def _blocks(d: Dice) -> Case:
    (h, w, c), block = d.dims(), d.between(1, 3)
    deep, wide = (h, w, c * block * block), (h * block, w * block, c)
    if d.op == "depth_to_space":
        return Case(d.op, deep, wide, {"block": block, "mode": d.between(0, 1)}, (d.array(*deep),))
    return Case(d.op, wide, deep, {"block": block}, (d.array(*wide),))


def _softmax(d: Dice) -> Case:
    dims, scale = d.dims(), 10.0 ** d.rng.uniform(-3, 1)
    table = d.pick((exp_table, iterated_exp_table))(scale)
    m, f = qfp(d.pick((127.0, 255.0, 400.0 * 10.0 ** d.rng.uniform(-3, 1))))
    attrs = {"m": m, "f": f, "out_zp": d.pick((-128, 0, d.zp())), **d.clamp(), "form": d.between(0, 1)}
    return Case(d.op, dims, dims, attrs, (_narrow_rows(d, dims), table))


def _layer_norm(d: Dice) -> Case:
    dims = d.dims()
    gamma, beta = d.rng.normal(1, 0.3, dims[2]), d.rng.normal(0, d.pick((0, 0.5, 20)), dims[2])
    pairs, f = affine_pairs(gamma, beta, float(d.pick((0.001, 0.03, 3.0))), dims[2])
    epsilon = epsilon_fields(float(d.pick((0, 1e-5, 1.0, 1e9))), float(d.pick((1e-4, 0.02, 1.0))), dims[2])
    attrs = {"f": f, "out_zp": d.zp(), **d.clamp(), **epsilon, "form": d.between(0, 3)}
    return Case(d.op, dims, dims, attrs, (_narrow_rows(d, dims), pairs.reshape(-1)))


def _fx_softmax(d: Dice) -> Case:
    dims, f_x = d.dims(), d.between(0, 31)
    x = d.rng.normal(0, 2.0 ** min(d.between(f_x - 3, f_x + 4), 29), dims)
    attrs = {"f_x": f_x, "f": d.between(20, 31), "form": d.between(0, 1), "x_bytes": 4, "out_bytes": 4}
    return _fx_rows(d, x, attrs)


def _fx_layer_norm(d: Dice) -> Case:
    dims, bits = d.dims(), d.between(10, 28)
    gamma, beta = d.rng.normal(1, 0.3, dims[2]), d.rng.normal(0, d.pick((0, 0.5, 20)), dims[2])
    pairs, shift = fx_affine(gamma, beta, d.between(10, 29), dims[2])
    x = d.rng.normal(d.pick((0.0, 2.0**27)), 2.0 ** d.between(0, 29), dims)
    epsilon = epsilon_fields(float(d.pick((0, 1e-5, 1.0, 1e9))), 2.0**-bits, dims[2])
    return _fx_rows(d, x, {"shift": shift, **epsilon, "form": d.between(0, 3), "x_bytes": 4, "out_bytes": 4}, pairs)


def _fx_rows(d: Dice, x: NDArray[np.float64], attrs: dict[str, Any], *flat: NDArray[Any]) -> Case:
    """Numbers of fx32 as they lie in memory; now and then the ends of what they hold."""
    whole = np.where(d.rng.random(x.shape) < 0.02, d.pick((-(2.0**31), 2.0**31 - 1)), x)
    stored = np.clip(whole, -(2.0**31), 2.0**31 - 1).astype("<i4").view(np.int8)
    return Case(d.op, stored.shape, stored.shape, attrs, (stored, *(values.reshape(-1) for values in flat)))


def _arg_max(d: Dice) -> Case:
    (h, w, c), size, flat = d.dims(), d.pick((1, 1, 2, 4)), d.between(0, 1)
    spread = d.pick((2, 5, 100))
    x = d.rng.integers(-spread, spread, (h, w, c)).astype(f"<i{size}").view(np.int8)
    attrs = {"flat": flat, "last": d.between(0, 1), "x_bytes": size, "out_bytes": 4}
    return Case(d.op, x.shape, (1, h, w * 4) if flat else (h, w, 4), attrs, (x,))


def _narrow_rows(d: Dice, dims: Dims) -> NDArray[np.int8]:
    """Some rows over all of int8, some of a few neighbouring numbers, some of one."""
    spread = d.rng.choice([1, 2, 5, 60, 256], (*dims[:2], 1))
    return (d.rng.integers(-128, 129 - spread) + d.rng.integers(0, 2**16, dims) % spread).astype(np.int8)


_MAKERS = {
    "conv": _mac,
    "depthwise": _mac,
    "conv_transpose": _mac,
    "add": _binary,
    "mul": _binary,
    "concat": _concat,
    "requantize": _requantize,
    "slice": _slice,
    "pad": _pad,
    "max_pool": _pool,
    "avg_pool": _pool,
    "resize_nearest": _resize,
    "resize_linear": _resize,
    "lut": _lut,
    "transpose": _transpose,
    "reshape": _reshape,
    "depth_to_space": _blocks,
    "space_to_depth": _blocks,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "arg_max": _arg_max,
    "fx_softmax": _fx_softmax,
    "fx_layer_norm": _fx_layer_norm,
}
