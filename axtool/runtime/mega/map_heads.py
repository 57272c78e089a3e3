"""Kernels of heads that are maps: one value a pixel and channel, left as they are or through a sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.checks import DROP, check_backend, check_infos, check_tensors, named
from axtool.runtime.mega.pool import Pool
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo


class _Maps(Operator):
    """Every tensor as float32 (1, c, h, w), through one function each."""

    backend: str

    def __init__(
        self, infos: Sequence[TensorInfo], functions: Sequence[bf.ByteFunctions], backend: str, name: str
    ) -> None:
        self._infos, self._functions, self.backend = tuple(infos), tuple(functions), check_backend(backend)
        sizes = [info.unpadded_shape for info in infos]
        self.output_shapes = tuple((1, c, h, w) for _, h, w, c in sizes)
        self._pools = [Pool(shape) for shape in self.output_shapes]
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Any:
        check_tensors(tensors, self._infos)
        made = []
        for tensor, info, function, pool in zip(tensors, self._infos, self._functions, self._pools, strict=True):
            out = pool.take()
            bf.map_s8_f32(tensor[info.inside][0], function, out.reshape(out.shape[1], -1).T, backend=self.backend)
            made.append(out)
        return made[0] if len(made) == 1 else Unpacked(made)


class DbnetPostamble(_Maps):
    """The chance of text at every pixel, of DBNet's one output before its sigmoid.

    Emits float32 (1, 1, h, w). Agrees with the onnxruntime tail to rtol 1e-5 and atol 1e-6.
    """

    postamble_slot = "fused_kernel"

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        backend: str = "auto",
        name: str = "",
    ) -> None:
        check_infos(output_infos)
        if len(output_infos) != 1 or output_infos[0].unpadded_shape[3] != 1:
            seen = ", ".join(named(info, index) for index, info in enumerate(output_infos))
            raise ValueError(f"reads the one map of DBNet, (1, h, w, 1), this model has {seen}; {DROP}")
        super().__init__(output_infos, [bf.logistic(output_infos[0])], backend, name)


class CenterFacePostamble(_Maps):
    """The four maps of CenterFace: heat through a sigmoid, then size, offset and landmarks as they are.

    Emits float32 (1, 1, h, w), (1, 2, h, w), (1, 2, h, w) and (1, 10, h, w). Agrees with the onnxruntime tail to rtol
    1e-5 and atol 1e-6; maps without a sigmoid have the same bits.
    """

    postamble_slot = "fused_kernel"

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        backend: str = "auto",
        name: str = "",
    ) -> None:
        check_infos(output_infos)
        channels = [info.unpadded_shape[3] for info in output_infos]
        if channels != [1, 2, 2, 10]:
            seen = ", ".join(named(info, index) for index, info in enumerate(output_infos))
            raise ValueError(f"reads heat, size, offset and landmarks of 1, 2, 2 and 10 channels, got {seen}; {DROP}")
        first, *others = output_infos
        super().__init__(output_infos, [bf.logistic(first), *map(bf.linear, others)], backend, name)
