"""Whether a kernel does what the onnxruntime tail does: the same buffers of the device through both.

`axtool verify --postamble` tells how far apart they are (`axtool.verify.tail`); here it is yes or no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.op.combinators import arguments
from axtool.runtime.tolerance import Tolerance, tolerances_of

Array = NDArray[Any]


def fault_of(kernel: Callable[..., Any], tail: Callable[..., Any], frames: Iterable[Sequence[Array]]) -> str:
    """What is wrong with the first output that differs by more than the kernel's tolerance; empty where none does."""
    try:
        for buffers in frames:
            got, wanted = arguments(kernel(*buffers)), arguments(tail(list(buffers)))
            if len(got) != len(wanted):
                return f"gives {len(got)} values, the onnxruntime tail gives {len(wanted)}"
            rows = zip(got, wanted, tolerances_of(kernel, len(wanted)), strict=True)
            faults = [f"output {at} {fault}" for at, row in enumerate(rows) if (fault := _fault(*row))]
            if faults:
                return faults[0]
    except Exception as error:  # whatever a kernel raises, the tail stays
        return f"{type(error).__name__}: {error}"
    return ""


def _fault(got: Any, wanted: Array, tolerance: Tolerance) -> str:
    a, b = np.asarray(got), np.asarray(wanted)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"is {a.dtype} {list(a.shape)}, the onnxruntime tail gives {b.dtype} {list(b.shape)}"
    if b.dtype.kind != "f":
        share = float((a != b).mean()) if b.size else 0.0
        return f"differs in {share:.2%} of its values" if share > tolerance.differing else ""
    a, b = a.astype(np.float64), b.astype(np.float64)
    apart = (a != b) & ~(np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(apart, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf), 0.0)
    over = error > tolerance.allowed(np.where(np.isfinite(b), np.abs(b), 0.0))
    return f"is off by {error[over].max():.3g}, more than its tolerance" if over.any() else ""
