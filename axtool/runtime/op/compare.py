"""A kernel against the onnxruntime tail that it replaces, on the same buffers of the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.op.combinators import arguments
from axtool.runtime.tensor_info import TensorInfo

Array = NDArray[Any]

# of the greatest number of the output: a coordinate in pixels is a difference of sums, which rounds at their size
TOLERANCE = 1e-5


class Difference(NamedTuple):
    """One output of the kernel beside the tail's: the greatest error, absolute and of the number itself.

    `allowed` is `TOLERANCE` of the output's greatest number, at least of 1; a label, an integer, has to be the same.
    `fault` says what is wrong, and is empty where all is well.
    """

    absolute: float
    relative: float
    allowed: float
    fault: str


def random_buffers(infos: Sequence[TensorInfo], seed: int = 0) -> list[Array]:
    """Numbers of the whole range of every type, the padding included."""
    rng = np.random.default_rng(seed)
    return [_random(info, rng) for info in infos]


def differences(kernel: Callable[..., Any], tail: Callable[..., Any], buffers: Sequence[Array]) -> list[Difference]:
    """Output by output. Raises what either raises, and ValueError where they give another number of values."""
    got, want = arguments(kernel(*buffers)), arguments(tail(list(buffers)))
    if len(got) != len(want):
        raise ValueError(f"gives {len(got)} values, the onnxruntime tail gives {len(want)}")
    return [difference(np.asarray(a), np.asarray(b)) for a, b in zip(got, want, strict=True)]


def difference(got: Array, want: Array) -> Difference:
    """One array beside the one that is right."""
    if got.shape != want.shape or got.dtype != want.dtype:
        fault = f"is {got.dtype} {list(got.shape)}, the onnxruntime tail gives {want.dtype} {list(want.shape)}"
        return Difference(np.inf, np.inf, 0.0, fault)
    exact = want.dtype.kind not in "fc"
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        errors = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))
        absolute = float(errors.max(initial=0.0))
        relative = float(np.where(same, 0.0, errors / np.abs(b)).max(initial=0.0))
    finite = np.abs(b[np.isfinite(b)])
    allowed = 0.0 if exact else TOLERANCE * max(1.0, float(finite.max(initial=0.0)))
    wrong = f"is off by {absolute:.3g}, of which {allowed:.3g} is allowed" if absolute > allowed else ""
    return Difference(absolute, relative, allowed, wrong)


def fault_of(kernel: Callable[..., Any], tail: Callable[..., Any], buffers: Sequence[Array]) -> str:
    """What is wrong with the first output that differs; empty where the kernel does what the tail does."""
    try:
        rows = differences(kernel, tail, buffers)
    except Exception as error:  # whatever a kernel raises, the tail stays
        return f"{type(error).__name__}: {error}"
    return next((f"output {at} {row.fault}" for at, row in enumerate(rows) if row.fault), "")


def _random(info: TensorInfo, rng: np.random.Generator) -> Array:
    if info.dtype.kind in "iu":
        limits = np.iinfo(info.dtype)
        return rng.integers(limits.min, limits.max, info.shape, info.dtype, endpoint=True)
    return rng.standard_normal(info.shape).astype(info.dtype)
