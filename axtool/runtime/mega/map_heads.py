"""Kernels of heads that are maps: one value a pixel and channel, left as it is or through a sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega import byte_functions as bf
from axtool.runtime.mega.byte_steps import Map, Placed, Steps
from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.params import check_choice, check_count
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo

_LAYOUTS = ("nchw", "nhwc")


class _Map(NamedTuple):
    """One output: what it is, its channels, and whether they are chances, which a sigmoid makes of the device's."""

    what: str
    channels: int
    chance: bool = False


class _MapHead(Operator):
    """Every tensor as float32, in the order in which they come. A kernel says which maps it reads."""

    backend: str

    maps: ClassVar[Sequence[_Map]] = ()

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        backend: str = "auto",
        name: str = "",
    ) -> None:
        self._prepare(output_infos, self.maps, "nchw", backend)
        super().__init__(name=name)

    def _prepare(self, infos: Sequence[TensorInfo], maps: Sequence[_Map], layout: str, backend: str) -> None:
        """Check the tensors against the maps. Raises ValueError for others than these, in this order."""
        check_infos(infos)
        sizes = [info.unpadded_shape for info in infos]
        if [c for *_, c in sizes] != [each.channels for each in maps]:
            wanted = ", ".join(f"{each.what} (1, h, w, {each.channels})" for each in maps)
            seen = ", ".join(named(info, index) for index, info in enumerate(infos))
            raise ValueError(f"reads {wanted}, this model has {seen}; {DROP}")
        self.output_shapes = tuple((1, h, w, c) if layout == "nhwc" else (1, c, h, w) for _, h, w, c in sizes)
        steps = []
        for index, (each, info, (_, h, w, c)) in enumerate(zip(maps, infos, sizes, strict=True)):
            to = Placed(index, 0, c, 1) if layout == "nhwc" else Placed(index, 0, 1, h * w)
            steps.append(Map(index, 0, c, to, (bf.logistic if each.chance else bf.linear)(info)))
        self._steps = Steps(infos, steps, self.output_shapes, backend=backend)
        self.backend = self._steps.backend

    def __call__(self, *tensors: NDArray[np.int8]) -> Any:
        made = self._steps.run(tensors)
        return made[0] if len(made) == 1 else Unpacked(made)


class DbnetPostamble(_MapHead):
    """The chance of text at every pixel, of DBNet's one output before its sigmoid.

    Families: DBNet and the text detectors of PaddleOCR that end in its probability map.

    backend  'auto', 'scalar', 'avx2', 'avx512' or 'neon', all with the same bits.

    Emits float32 (1, 1, h, w). Agrees with the onnxruntime tail to rtol 1e-5 and atol 1e-6.
    Raises ValueError for another number of outputs or channels.
    """

    postamble_slot = "fused_kernel"
    maps = (_Map("the one map of DBNet", 1, chance=True),)


class CenterFacePostamble(_MapHead):
    """The four maps of CenterFace: heat through a sigmoid, then size, offset and landmarks as they are.

    backend  'auto', 'scalar', 'avx2', 'avx512' or 'neon', all with the same bits.

    Emits float32 (1, 1, h, w), (1, 2, h, w), (1, 2, h, w) and (1, 10, h, w). Agrees with the onnxruntime tail to rtol
    1e-5 and atol 1e-6; maps without a sigmoid have the same bits.
    Raises ValueError for other outputs, or the same in another order.
    """

    postamble_slot = "fused_kernel"
    maps = (_Map("heat", 1, chance=True), _Map("size", 2), _Map("offset", 2), _Map("landmarks", 10))


class SigmoidMaskPostamble(_MapHead):
    """The chance of each class at every pixel, each on its own: a sigmoid, without a softmax between classes.

    Families: person and portrait segmentation (MediaPipe selfie, MODNet-like mattes), U-Nets and other networks whose
    tail is one Sigmoid over a map. A tail that enlarges the map after the sigmoid is not one of them.

    num_classes  channels of the one output: 1 for a person mask.
    layout       'nchw' (the default) or 'nhwc', as the model declares its output. Networks from TensorFlow often
                 declare (1, h, w, num_classes).
    backend      'auto', 'scalar', 'avx2', 'avx512' or 'neon', all with the same bits.

    Emits float32 (1, num_classes, h, w), or (1, h, w, num_classes). Agrees with the onnxruntime tail to rtol 1e-5 and
    atol 1e-6.
    Raises ValueError for another number of outputs or channels, and for a layout that is none.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    layout: Literal["nchw", "nhwc"]

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int,
        layout: Literal["nchw", "nhwc"] = "nchw",
        backend: str = "auto",
        name: str = "",
    ) -> None:
        check_choice("layout", layout, _LAYOUTS)
        self.num_classes, self.layout = check_count("num_classes", num_classes), layout
        self._prepare(output_infos, (_Map("one map", num_classes, chance=True),), layout, backend)
        Operator.__init__(self, name=name)
