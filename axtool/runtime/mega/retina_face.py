"""`RetinaFacePostamble`: loc, conf and landms of RetinaFace from its nine heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import check_infos
from axtool.runtime.mega.dense_head import Output, dense_strips
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import find_levels
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo

_OUTPUTS = (Output("box", 4), Output("class", 2, "softmax"), Output("keypoint", 10))


class RetinaFacePostamble(Operator):
    """Joins the heads of RetinaFace: for each level 4 box, 2 class and 10 landmark channels an anchor.

    Families: RetinaFace with any trunk and any input size (MobileNet-0.25, ResNet-50). No parameter is needed: the
    number of anchors follows from the channels, and boxes stay encoded, as the model declares them. The tensors may
    come in any order; the largest grid comes first in the outputs.

    tensor_roles  'box', 'class' or 'keypoint' for each output; never needed for tensors of one number of anchors.
    backend, threads
                  'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; rows are shared among threads.

    Emits float32 loc (1, rows, 4), conf (1, rows, 2) after the softmax, landms (1, rows, 10).

    Against the onnxruntime tail: loc and landms have the same bits, conf is within rtol 1e-5, atol 1e-6.
    Raises ValueError for tensors that are no such heads.
    """

    postamble_slot = "fused_kernel"

    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        tensor_roles: Sequence[str] | None = None,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        widths = {output.role: output.width for output in _OUTPUTS}
        levels = find_levels(infos, widths, tensor_roles, "that this is a RetinaFace")
        self.output_shapes, strips = dense_strips(infos, levels, _OUTPUTS, join=True)
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Unpacked:
        return Unpacked(self._heads.run(tensors))
