"""Postamble kernels as a user writes them, at module scope, for tests that name them as "module:ClassName"."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import TensorInfo, op


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
