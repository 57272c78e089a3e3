"""`UltraFacePostamble`: class scores and corner boxes of the light face detectors with a box decoder in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.dense_head import Output, dense_strips
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import find_levels
from axtool.runtime.mega.params import check_flag, check_list, check_numbers, check_size
from axtool.runtime.mega.prior_boxes import square_priors
from axtool.runtime.mega.ssd import box_tables
from axtool.runtime.mega.strips import Place, Strip
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo
from axtool.runtime.tolerance import Tolerance

_SIDES = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))


class UltraFacePostamble(Operator):
    """Decodes the heads of Ultra-Light-Fast face detectors: 2 class and 4 box channels an anchor on each grid.

    Families: UltraFace slim and RFB, at 320 x 240, 640 x 480 and any other size of input.

    min_sizes  sides in pixels of the square anchors of each level, from the finest grid on.
    decoded    False for the export without the decoder: boxes as encoded.
    backend, threads
               'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; rows are shared among threads.

    Emits float32 scores (1, anchors, 2) after the softmax, and boxes (1, anchors, 4): x1, y1, x2, y2 as fractions of
    the input, not cut off at its border. Variances are 0.1 and 0.2.

    Against the onnxruntime tail: rtol 1e-5, atol 1e-6 for scores and for boxes up to the size of the input.
    Raises ValueError for tensors and parameters that contradict each other.
    """

    postamble_slot = "fused_kernel"
    tolerances = (Tolerance(), Tolerance(row=1e-6))

    min_sizes: list[list[float]]
    decoded: bool
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        min_sizes: Sequence[Sequence[float]] = _SIDES,
        decoded: bool = True,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        check_size(model_width, model_height)
        sizes = enumerate(check_list("min_sizes", min_sizes))
        self.min_sizes = [list(check_numbers(f"min_sizes[{level}]", sides)) for level, sides in sizes]
        self.decoded = check_flag("decoded", decoded)
        levels = find_levels(infos, {"class": 2, "box": 4}, None, "that this is an UltraFace")
        anchors = [level.anchors for level in levels]
        if anchors != [len(sides) for sides in self.min_sizes]:
            raise ValueError(
                f"the grids have {anchors} anchors a cell (first {named(infos[levels[0].index['box']], 0)}), but "
                f"min_sizes has {[len(sides) for sides in self.min_sizes]} sides; check min_sizes, or {DROP}"
            )
        outputs = [Output("class", 2, "softmax"), Output("box", 4)]
        self.output_shapes, strips = dense_strips(infos, levels, outputs, join=True)
        if decoded:
            priors = square_priors(
                [(level.rows, level.cols) for level in levels],
                (model_height, model_width),
                min_sizes=self.min_sizes,
            )
            strips, first = [strip for strip in strips if strip.place.target == 0], 0
            for level, prior in zip(levels, priors, strict=True):
                index, step = level.index["box"], level.anchors * 4
                strips.append(
                    Strip(
                        "corner_box",
                        Place(index, 1, level.anchors, 4, 0, 4, first * 4, 4, step),
                        box_tables(infos[index], (10, 10, 5, 5)),
                        sizes=np.ascontiguousarray(prior.sizes[:, ::-1]),
                        rows=prior.rows,
                        cols=prior.cols,
                        columns_first=True,
                    )
                )
                first += level.boxes
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Unpacked:
        return Unpacked(self._heads.run(tensors))
