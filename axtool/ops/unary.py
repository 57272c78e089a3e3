"""Every unary function by ONNX name: float64 in, float64 out. The one place where transcendentals are evaluated.

The results go into tables at compile time, rounded to output steps, so that a C library's last bit does not show. All
of them are finite for finite arguments, or infinite with a sign, which a table clamps; NaN where the real function
has no value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Attrs = Mapping[str, Any]
Unary = Callable[[Array, Attrs], Array]

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # ONNX's defaults


def evaluate(op: str, x: Array, attrs: Attrs) -> Array:
    """`UNARY[op]` without NumPy's warnings: an infinite result is a value here."""
    with np.errstate(all="ignore"):
        return np.asarray(UNARY[op](np.asarray(x, np.float64), attrs), np.float64)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))  # in (0, 1]: never overflows
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _clip(x: Array, attrs: Attrs) -> Array:
    """min first, then max: where min > max, max wins, as in ONNX."""
    return np.minimum(np.maximum(x, attrs.get("min", -math.inf)), attrs.get("max", math.inf))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def _gelu(x: Array, attrs: Attrs) -> Array:
    if attrs.get("approximate", "none") == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0.0, 1.0)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _selu(x: Array, attrs: Attrs) -> Array:
    gamma, alpha = float(attrs.get("gamma", SELU_GAMMA)), float(attrs.get("alpha", SELU_ALPHA))
    return gamma * _elu(x, alpha)


def _celu(x: Array, attrs: Attrs) -> Array:
    alpha = float(attrs.get("alpha", 1.0))
    return np.maximum(x, 0.0) + np.minimum(0.0, alpha * np.expm1(x / alpha))


def _leaky(x: Array, slope: float) -> Array:
    return np.where(x >= 0, x, slope * x)


def _shrink(x: Array, attrs: Attrs) -> Array:
    bias, lambd = attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0))


UNARY: Mapping[str, Unary] = MappingProxyType(
    {
        "Abs": lambda x, a: np.abs(x),
        "Acos": lambda x, a: np.arccos(x),
        "Acosh": lambda x, a: np.arccosh(x),
        "Asin": lambda x, a: np.arcsin(x),
        "Asinh": lambda x, a: np.arcsinh(x),
        "Atan": lambda x, a: np.arctan(x),
        "Atanh": lambda x, a: np.arctanh(x),
        "Ceil": lambda x, a: np.ceil(x),
        "Celu": _celu,
        "Clip": _clip,
        "Cos": lambda x, a: np.cos(x),
        "Cosh": lambda x, a: np.cosh(x),
        "Elu": lambda x, a: _elu(x, a.get("alpha", 1.0)),
        "Erf": lambda x, a: _erf(x),
        "Exp": lambda x, a: np.exp(x),
        "Floor": lambda x, a: np.floor(x),
        "Gelu": _gelu,
        "HardSigmoid": lambda x, a: _hard_sigmoid(x, a.get("alpha", 0.2), a.get("beta", 0.5)),
        "HardSwish": lambda x, a: x * _hard_sigmoid(x, 1.0 / 6.0, 0.5) * a.get("ratio", 1.0),
        "Identity": lambda x, a: x,
        "LeakyRelu": lambda x, a: _leaky(x, a.get("alpha", 0.01)),
        "Log": lambda x, a: np.log(x),
        "Mish": lambda x, a: x * np.tanh(_softplus(x)),
        "Neg": lambda x, a: -x,
        "Reciprocal": lambda x, a: 1.0 / x,
        "Relu": lambda x, a: np.maximum(x, 0.0),
        "Round": lambda x, a: np.rint(x),  # halves to even, as in ONNX
        "Selu": _selu,
        "Shrink": _shrink,
        "Sigmoid": lambda x, a: _sigmoid(x),
        "Sign": lambda x, a: np.sign(x),
        "Silu": lambda x, a: x * _sigmoid(x),
        "Sin": lambda x, a: np.sin(x),
        "Sinh": lambda x, a: np.sinh(x),
        "Softplus": lambda x, a: _softplus(x),
        "Softsign": lambda x, a: x / (1.0 + np.abs(x)),
        "Sqrt": lambda x, a: np.sqrt(x),
        "Swish": lambda x, a: x * _sigmoid(a.get("alpha", 1.0) * x),
        "Tan": lambda x, a: np.tan(x),
        "Tanh": lambda x, a: np.tanh(x),
        "ThresholdedRelu": lambda x, a: np.where(x > a.get("alpha", 1.0), x, 0.0),
    }
)
