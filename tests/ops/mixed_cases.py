"""One random layer of an op on fx32 or fp16, with numbers that reach the ends of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.ops.boxes import Dims
from axtool.ops.packing_fp16 import pack_bias, pack_linear
from axtool.ops.tables import FX_POINTS
from tests.ops.cases import CHANNELS, SIZES, Case

INT32 = (-(2**31), 2**31 - 1)


class Dice:
    """Random choices, the same ones for the same op and seed."""

    def __init__(self, op: str, seed: int) -> None:
        self.op, self.rng = op, np.random.default_rng([seed, len(op), 32])

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def between(self, lo: int, hi: int) -> int:
        return int(self.rng.integers(lo, hi + 1))

    def dims(self) -> Dims:
        return self.pick(SIZES), self.pick(SIZES), self.pick(CHANNELS)

    def fx(self, *shape: int) -> NDArray[np.int32]:
        """int32 of every size, the ends among them."""
        wide = self.rng.integers(*INT32, shape, dtype=np.int32, endpoint=True) >> self.rng.integers(0, 31, shape)
        ends = self.rng.integers(0, 24, shape)
        return np.where(ends == 0, INT32[0], np.where(ends == 1, INT32[1], wide)).astype(np.int32)

    def fp16(self, *shape: int, strange: bool = True) -> NDArray[np.float16]:
        """fp16: normal ones, tiny ones, and where `strange` infinities and NaN."""
        x = (self.rng.normal(size=shape) * 2.0 ** self.rng.integers(-20, 6, shape)).astype(np.float16)
        if strange:
            bits = self.rng.integers(-(2**15), 2**15, shape, dtype=np.int16).view(np.float16)
            x = np.where(self.rng.integers(0, 8, shape) == 0, bits, x)
        return x

    def bounds(self, lo: int = INT32[0], hi: int = INT32[1]) -> dict[str, int]:
        if self.between(0, 2):
            return {"lo": lo, "hi": hi}
        low, high = sorted((self.between(lo, hi), self.between(lo, hi)))
        return {"lo": low, "hi": high}


def stored(numbers: NDArray[Any]) -> NDArray[np.int8]:
    """(h, w, c) of numbers as bytes."""
    return np.ascontiguousarray(numbers).view(np.int8)


def case_of(op: str, dims: Dims, attrs: Mapping[str, Any], *operands: NDArray[Any]) -> Case:
    """A layer whose output has `dims` numbers; its operands as arrays of numbers, or flat."""
    boxes = tuple(x if x.ndim == 1 else stored(x) for x in operands)
    return Case(op, boxes[0].shape, (*dims[:2], dims[2] * attrs["out_bytes"]), dict(attrs), boxes)


def mixed_case(op: str, seed: int) -> Case:
    """A small layer of `op`; the same one for the same seed."""
    return MAKERS[op](Dice(op, seed))


def _two(d: Dice) -> Case:
    out = d.dims()
    a = tuple(d.pick((size, size, 1)) for size in out)
    b = tuple(d.pick((size, 1)) if left == size else size for size, left in zip(out, a, strict=True))
    attrs: dict[str, Any] = {"a": a, "b": b, **d.bounds(), "a_bytes": 4, "b_bytes": 4, "out_bytes": 4}
    if d.op == "fx_add":
        attrs |= {"shift_a": d.between(-3, 5), "shift_b": d.between(-3, 5), "sub": d.between(0, 1)}
    else:
        attrs["shift"] = d.between(-4, 62)
    return case_of(d.op, out, attrs, d.fx(*a), d.fx(*b))


def _requantize(d: Dice) -> Case:
    dims = d.dims()
    attrs = {"shift": d.between(-30, 33), **d.bounds(), "x_bytes": 4, "out_bytes": 4}
    return case_of(d.op, dims, attrs, d.fx(*dims))


def _quantize(d: Dice) -> Case:
    dims, size = d.dims(), d.pick((1, 1, 2))
    ends = (-128, 127) if size == 1 else (-(2**15), 2**15 - 1)
    attrs = {"inverse": d.between(0, 2**31 - 1), "shift": d.between(0, 40), "rest": d.between(0, 24), **d.bounds(*ends)}
    attrs |= {"out_zp": d.between(-128, 127) if size == 1 else 0, "x_bytes": 4, "out_bytes": size}
    return case_of(d.op, dims, attrs, d.fx(*dims))


def _dequantize(d: Dice) -> Case:
    dims, size = d.dims(), d.pick((1, 1, 2))
    attrs = {
        "zp": d.between(-128, 127) if size == 1 else 0,
        "scale": d.between(0, 2**31 - 1),
        "shift": d.between(-8, 12),
    }
    x = d.rng.integers(-(2**7), 2**7, dims, np.int8) if size == 1 else d.rng.integers(-(2**15), 2**15, dims, np.int16)
    return case_of(d.op, dims, attrs | {"x_bytes": size, "out_bytes": 4}, x)


def _lut(d: Dice) -> Case:
    dims, step = d.dims(), d.between(0, 20)
    attrs = {"first": d.pick((INT32[0], -(1 << (11 + step)), d.between(*INT32))), "interval": step}
    return case_of(d.op, dims, attrs | {"x_bytes": 4, "out_bytes": 4}, d.fx(*dims), d.fx(FX_POINTS))


def _from_fp16(d: Dice) -> Case:
    dims = d.dims()
    return case_of(d.op, dims, {"f": d.between(0, 31), "x_bytes": 2, "out_bytes": 4}, d.fp16(*dims))


def _to_fp16(d: Dice) -> Case:
    dims = d.dims()
    return case_of(d.op, dims, {"f": d.between(0, 31), "x_bytes": 4, "out_bytes": 2}, d.fx(*dims))


def _linear(d: Dice) -> Case:
    (h, w, k), n = d.dims(), d.pick(CHANNELS)
    size, rows = d.pick((1, 2, 4)), d.pick((1, h * w))
    attrs = {"zp": d.between(-128, 127) if size == 1 else 0, "scale": d.between(2**20, 2**31 - 1)}
    attrs |= {"shift": d.between(-2, 8), "f_x": d.between(0, 31), "f": d.between(0, 31), "relu": d.between(0, 1)}
    attrs |= {"bias_rows": rows, "x_bytes": size, "out_bytes": d.pick((2, 4))}
    strange = d.between(0, 3) == 0
    x = {
        1: lambda: d.rng.integers(-128, 128, (h, w, k), np.int8),
        2: lambda: d.fp16(h, w, k, strange=strange),
        4: lambda: d.fx(h, w, k),
    }[size]()
    weights = pack_linear(d.fp16(k, n, strange=strange))
    bias = pack_bias(d.rng.normal(size=(rows, n)).astype(np.float32))
    return case_of(d.op, (h, w, n), attrs, x, weights, bias)


MAKERS: Mapping[str, Callable[[Dice], Case]] = {
    "fx_add": _two,
    "fx_mul": _two,
    "fx_requantize": _requantize,
    "fx_quantize": _quantize,
    "fx_dequantize": _dequantize,
    "fx_lut": _lut,
    "fx_from_fp16": _from_fp16,
    "fp16_from_fx": _to_fp16,
    "fp16_linear": _linear,
}
