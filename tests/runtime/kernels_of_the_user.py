"""Postamble kernels as a user writes them, at module scope, for tests that name them as "module:ClassName"."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import TensorInfo, op
from axtool.runtime.tolerance import Tolerance


class SoftmaxTail(op.Operator):
    """The page's own example: a softmax over one output."""

    postamble_slot = "kernel"

    infos: list[TensorInfo]
    model_width: int
    model_height: int
    axis: int

    def __init__(
        self, infos: list[TensorInfo], model_width: int, model_height: int, *, axis: int = -1, name: str = ""
    ) -> None:
        if len(infos) != 1:
            raise ValueError(f"SoftmaxTail reads one output, this model has {len(infos)}")
        self.infos = infos
        self.model_width = model_width
        self.model_height = model_height
        self.axis = axis
        super().__init__(name=name)

    def __call__(self, x: NDArray[np.float32]) -> Any:
        e = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return e / e.sum(axis=self.axis, keepdims=True)


class RawSoftmaxTail(op.Operator):
    """The same over the padded buffer of the device."""

    postamble_slot = "fused_kernel"

    infos: list[TensorInfo]

    def __init__(self, infos: list[TensorInfo], model_width: int, model_height: int, *, name: str = "") -> None:
        self.infos = infos
        super().__init__(name=name)

    def __call__(self, raw: NDArray[np.int8]) -> Any:
        (info,) = self.infos
        x = (raw[info.inside].astype(np.float32) - info.zero_point) * np.float32(info.scale)
        e = np.exp(x - x.max()).reshape(1, -1)
        return e / e.sum()


class TwoTails(op.Operator):
    """Several outputs, as a plain tuple, in any slot: it does not say which it is written for."""

    def __init__(self, infos: list[TensorInfo], model_width: int, model_height: int, *, name: str = "") -> None:
        super().__init__(name=name)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return values


class WrongShapes(TwoTails):
    """Says that it makes something else than the model declares."""

    output_shapes = ((1, 2, 3),)


class Broken(TwoTails):
    """Raises while it runs."""

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        raise KeyError("anchors")


class Refusing(op.Operator):
    """Checks what it is given, as every kernel should."""

    def __init__(self, infos: list[TensorInfo], model_width: int, model_height: int, *, name: str = "") -> None:
        if len(infos) != 3:
            raise ValueError(f"reads three outputs, this model has {len(infos)}")
        super().__init__(name=name)


class NoOperator:
    """No kernel at all."""


class MapAndChances(op.Operator):
    """The tail of the two-stage model: a sigmoid, and a softmax over its pixels. `fault` makes it a wrong one."""

    postamble_slot = "kernel"

    fault: str

    def __init__(
        self, infos: list[TensorInfo], model_width: int, model_height: int, *, fault: str = "", name: str = ""
    ) -> None:
        self.fault = fault
        if fault == "tolerances":
            self.tolerances = (1e-3,)
        super().__init__(name=name)

    def __call__(self, x: NDArray[np.float32]) -> Any:
        made = (1 / (1 + np.exp(-x))).astype(np.float32)
        e = np.exp(made.reshape(1, 4, -1))
        chances = (e / e.sum(-1, keepdims=True)).astype(np.float32)
        if self.fault == "one value":
            made[0, 2, 1, 3] += 0.01
        elif self.fault == "saturated" and np.unique(x).size == 2:
            made[0, 0] = 0
        elif self.fault == "not a number":
            made[0, 0, 0, 0] = np.nan
        elif self.fault == "type":
            made = made.astype(np.float64)
        elif self.fault == "shape":
            made = made[0]
        elif self.fault == "raises":
            raise KeyError("anchors")
        return (chances,) if self.fault == "one output" else (chances, made)


class Labels(op.Operator):
    """The tail of `labels.axm`: the class with the greatest score. `off` of the first pixels get another one."""

    postamble_slot = "kernel"

    off: int

    def __init__(
        self, infos: list[TensorInfo], model_width: int, model_height: int, *, off: int = 0, share: float = 0.0,
        name: str = "",
    ) -> None:  # fmt: skip
        self.off = off
        self.tolerances = (Tolerance(differing=share),)
        super().__init__(name=name)

    def __call__(self, x: NDArray[np.float32]) -> Any:
        labels = x.argmax(1)
        labels.reshape(-1)[: self.off] += 1
        return labels
