"""`ClassificationPostamble`: the softmax of a classifier, in NumPy from end to end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import check_backend, check_infos, check_tensors, named
from axtool.runtime.mega.params import check_count
from axtool.runtime.op.operator import Operator
from axtool.runtime.tensor_info import TensorInfo


class ClassificationPostamble(Operator):
    """Depad, dequantize and softmax the one output of a classifier.

    num_classes: classes of the model, which its output must have as channels of one pixel. backend is accepted as by
    every kernel and makes no difference: a row of a thousand numbers is no work for one.

    Emits probabilities, float32 (1, num_classes): the pipeline behind must not softmax again, which would flatten them
    without an error. Agrees with the onnxruntime tail to rtol 1e-5 and atol 1e-6.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    backend: str
    model_width: int
    model_height: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int,
        backend: str = "auto",
        name: str = "",
    ) -> None:
        if len(output_infos) != 1:
            raise ValueError(f"reads the one output of a classifier, this model has {len(output_infos)}")
        check_infos(output_infos)
        (info,) = output_infos
        wanted = (1, 1, 1, check_count("num_classes", num_classes))
        if info.unpadded_shape != wanted:
            raise ValueError(f"{named(info, 0)}: want {wanted} for num_classes={num_classes}")
        self.num_classes, self.backend = num_classes, check_backend(backend)
        self.model_width, self.model_height = model_width, model_height
        self.output_shapes = ((1, num_classes),)
        self._info = info
        super().__init__(name=name)

    def __call__(self, raw: NDArray[np.int8]) -> NDArray[np.float32]:
        info = self._info
        (raw,) = check_tensors((raw,), (info,))
        x = (raw[info.inside].astype(np.float32) - np.float32(info.zero_point)) * np.float32(info.scale)
        x = x.reshape(1, self.num_classes)
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        probabilities: NDArray[np.float32] = e / e.sum(axis=-1, keepdims=True)
        return probabilities
