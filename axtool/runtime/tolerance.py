"""How far a kernel may be from the onnxruntime tail that it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Tolerance:
    """|kernel - tail| <= atol + rtol * |tail| for each value; `atol` may be an array that broadcasts to the output.

    `row` times the largest |tail| of the last axis comes on top: an edge of a box is the difference of numbers as large
    as the others. Whole numbers such as labels agree exactly, but for a share `differing` of them (0..1).

    A kernel that needs other bounds says so: its attribute `tolerances` is a sequence of these, one an output. Of
    labels it may also show that two are as good: `equal_labels(got, wanted, *tensors)`, True where both have the same
    score.
    """

    rtol: float = 1e-5
    atol: float | NDArray[np.float64] = 1e-6
    row: float = 0.0
    differing: float = 0.0

    def allowed(self, size: NDArray[np.float64]) -> NDArray[np.float64]:
        """The error that each value may have, from the sizes |tail| of an output."""
        made = self.atol + self.rtol * size
        if self.row and size.ndim and size.size:
            made = made + self.row * size.max(-1, keepdims=True)
        return np.asarray(made)


def tolerances_of(kernel: Any, outputs: int) -> tuple[Tolerance, ...]:
    """What a kernel says of itself, or the default for each output. Raises ValueError for another number of them."""
    told = tuple(getattr(kernel, "tolerances", ()) or (Tolerance(),) * outputs)
    if len(told) != outputs or not all(isinstance(item, Tolerance) for item in told):
        raise ValueError(f"tolerances of {type(kernel).__name__}: want a Tolerance for each of {outputs} outputs")
    return told
