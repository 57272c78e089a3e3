"""Functions of one byte, as tables of 256 floats; and how NumPy applies them.

Everything transcendental in a postamble kernel is a function of a quantized number, so it is evaluated here, once for
each of its 256 values, when the kernel is made. A vector unit computes exp from three tables of eight entries, and the
table of 256 holds the same float32 products in the same order: `exp(q*s) = (A[u >> 6] * B[(u >> 3) & 7]) * C[u & 7]`
with u the byte as it is stored. So every way of running a kernel gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.tensor_info import TensorInfo

Float = NDArray[np.float32]
Bytes = NDArray[np.int8]

TABLE, LINEAR, LOGISTIC, GRID_X, GRID_Y, EXPONENTIAL = range(6)
_Q = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float64)  # the number of each byte, as it is stored
_EXP_RANGE = 80.0  # of the exponents of a tensor; beyond it a factor could leave float32, whose exp ends at 88


@dataclass(frozen=True, eq=False)
class ByteFunctions:
    """One function for each channel of a group: channel k of a tensor goes through function k % n.

    kinds (n,) int32, tables (n, 256) and params (n, 27) float32: scale, zero point, stride, then A, B, C.
    """

    kinds: NDArray[np.int32]
    tables: Float
    params: Float

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def wants_grid(self) -> bool:
        """Whether a function asks where a pixel lies."""
        return bool(np.isin(self.kinds, (GRID_X, GRID_Y)).any())


def together(*functions: ByteFunctions) -> ByteFunctions:
    """The functions of successive channels."""
    return ByteFunctions(
        np.concatenate([f.kinds for f in functions]),
        np.concatenate([f.tables for f in functions]),
        np.concatenate([f.params for f in functions]),
    )


def linear(info: TensorInfo) -> ByteFunctions:
    """(q - zero_point) * scale in float32, as the host dequantizes."""
    return _made(LINEAR, real_values(info), scale=float(info.scale), zero=float(info.zero_point))


def constant(value: float) -> ByteFunctions:
    """The same for every byte."""
    return _made(TABLE, np.full(256, value, np.float32))


def table(info: TensorInfo, function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> ByteFunctions:
    """Any function of the dequantized number, in float64, rounded once."""
    with np.errstate(over="ignore"):
        return _made(TABLE, function(real_values(info).astype(np.float64)).astype(np.float32))


def logistic(info: TensorInfo) -> ByteFunctions:
    """1 / (1 + exp(-x)) of the dequantized number x."""
    scale, zero = float(info.scale), float(info.zero_point)
    if 255 * scale > _EXP_RANGE:
        return table(info, lambda x: 1 / (1 + np.exp(-x)))
    factors = _factors(lambda q: -(q - zero) * scale, lambda step: -step * scale)
    one = np.float32(1)
    return _made(LOGISTIC, one / (one + _products(factors)), factors=factors)


def tanh(info: TensorInfo) -> ByteFunctions:
    """tanh(x) of the dequantized number x, as (1 - e) / (1 + e) with e = exp(-2 x): good to 1e-7 of 1.

    Of kind TABLE; `params` hold the factors of e where no exponent leaves their range, else zeros.
    """
    scale, zero = float(info.scale), float(info.zero_point)
    if 2 * 255 * scale > _EXP_RANGE:
        return table(info, np.tanh)
    factors = _factors(lambda q: -2 * (q - zero) * scale, lambda step: -2 * step * scale)
    one, e = np.float32(1), _products(factors)
    return _made(TABLE, (one - e) / (one + e), factors=factors)


def exponential_of_bins(info: TensorInfo) -> tuple[ByteFunctions, bool]:
    """exp((q - 127) * scale), for a softmax; and whether the largest byte must be taken to 127 first, since exponents
    would reach too far otherwise. A softmax does not feel what all its exponents share.
    """
    scale = float(info.scale)
    if 255 * scale > _EXP_RANGE:
        return _made(TABLE, np.exp((_Q - 127) * scale).astype(np.float32)), True
    factors = _factors(lambda q: (q - 127) * scale, lambda step: step * scale)
    return _made(EXPONENTIAL, _products(factors), factors=factors), False


def on_grid(info: TensorInfo, stride: float, factor: float = 1.0) -> ByteFunctions:
    """(x * factor + grid x) * stride, then the same with grid y: two functions. A factor that is a power of two scales
    without rounding, so it is part of the scale.
    """
    scale, zero = float(np.float32(info.scale) * np.float32(factor)), float(info.zero_point)
    values = real_values(info) * np.float32(factor)
    return together(*(_made(kind, values, scale=scale, zero=zero, stride=stride) for kind in (GRID_X, GRID_Y)))


def real_values(info: TensorInfo) -> Float:
    """The dequantized number of each byte, as it is stored: float32 (256,)."""
    values: Float = (_Q - float(info.zero_point)).astype(np.float32) * np.float32(info.scale)
    return values


def mapped(x: Bytes, functions: ByteFunctions, grid: Float | None = None) -> Float:
    """Channel k of x (h, w, c) through function k % n: (h * w, c). grid is (2, h * w)."""
    stored = x.reshape(-1, x.shape[-1]).view(np.uint8)
    out = np.empty(stored.shape, np.float32)
    for k in range(min(len(functions), x.shape[-1])):
        values = functions.tables[k][stored[:, k :: len(functions)]]
        if functions.kinds[k] in (GRID_X, GRID_Y):
            assert grid is not None
            values = (values + grid[functions.kinds[k] - GRID_X][:, None]) * functions.params[k, 2]
        out[:, k :: len(functions)] = values
    return out


def expected_bins(x: Bytes, bins: int, exp: ByteFunctions, shifted: bool) -> Float:
    """The expected bin of each of four sides of x (h, w, 4 * bins): (4, h * w), sum(b * e) / sum(e).

    Bins are added eight lanes at a time, then the lanes in pairs.
    """
    q = x.reshape(-1, 4, bins)
    if shifted:
        q = np.maximum(q + (np.int16(127) - q.max(-1, keepdims=True)), -128).astype(np.int8)
    e = exp.tables[0][q.view(np.uint8)]
    weighted = np.arange(bins, dtype=np.float32) * e
    expected: Float = (lane_sums(weighted) / lane_sums(e)).T
    return expected


def boxes(distances: Float, grid: Float, stride: float, cos: Float | None = None, sin: Float | None = None) -> Float:
    """Left, top, right, bottom distances (4, n) from grid points (2, n) as centre and size in pixels: (n, 4).

    With cos and sin (n,) the offset of the centre is turned by that angle, and the size is the sum of the distances.
    """
    low, high, half = distances[:2], distances[2:], np.float32(0.5)
    if cos is None or sin is None:
        first, last = grid - low, grid + high
        centre, size = (first + last) * half, last - first
    else:
        fx, fy = (high - low) * half
        centre = np.stack([(fx * cos - fy * sin) + grid[0], (fx * sin + fy * cos) + grid[1]])
        size = low + high
    made: Float = (np.concatenate([centre, size]) * np.float32(stride)).T
    return made


def native_module() -> Any:
    """The native module, or None where it is not built."""
    try:
        from axtool.native import _native
    except ImportError:
        return None
    return _native


def grid_points(h: int, w: int, offset: float) -> Float:
    """x and y of the points of an h x w grid, row by row: float32 (2, h * w)."""
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([x.ravel(), y.ravel()]).astype(np.float32) + np.float32(offset)


def lane_sums(values: Float) -> Float:
    """Sums along the last axis in the order of an eight-lane vector unit."""
    full = np.zeros((*values.shape[:-1], -(-values.shape[-1] // 8) * 8), np.float32)
    full[..., : values.shape[-1]] = values
    lanes = full[..., :8].copy()
    for start in range(8, full.shape[-1], 8):
        lanes += full[..., start : start + 8]
    for _ in range(3):
        lanes = lanes[..., 0::2] + lanes[..., 1::2]
    return lanes[..., 0]


def _factors(
    base: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    step: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Float:
    """A, B, C: exp at the first number of each 64 (its four entries twice), and of steps of eight and of one."""
    eight = np.arange(8.0)
    return np.exp(np.stack([base(_Q[::64][np.arange(8) % 4]), step(8 * eight), step(eight)])).astype(np.float32)


def _products(factors: Float) -> Float:
    u = np.arange(256)
    products: Float = (factors[0][u >> 6] * factors[1][(u >> 3) & 7]) * factors[2][u & 7]
    return products


def _made(
    kind: int, values: Float, *, scale: float = 0, zero: float = 0, stride: float = 0, factors: Float | None = None
) -> ByteFunctions:
    params = np.zeros((1, 27), np.float32)
    params[0, :3] = scale, zero, stride
    if factors is not None:
        params[0, 3:] = factors.ravel()
    return ByteFunctions(np.array([kind], np.int32), values.astype(np.float32)[None], params)
