"""`AnchoredYoloPostamble`: YOLOv5 and YOLOv7 heads, one packed tensor a level, as the (1, rows, 5 + classes) output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_functions import table
from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.params import MOST_COUNT, check_choice, check_count, check_list, check_size, shown
from axtool.runtime.mega.strips import Place, Strip, activated
from axtool.runtime.op.operator import Operator
from axtool.runtime.tensor_info import TensorInfo
from axtool.runtime.tolerance import Tolerance

Decode = Literal["v5", "v2"]
_DECODES: tuple[Decode, ...] = ("v5", "v2")


class AnchoredYoloPostamble(Operator):
    """Decodes packed anchor heads: `num_anchors * (5 + num_classes)` channels in one tensor for each level.

    Families: YOLOv5 (release 6 on), YOLOv7, and with `decode='v2'` YOLOv2 and its tiny forms.

    num_classes  classes of the model; 0 for a 'v2' head of boxes and objectness alone.
    anchors      for each level, from the finest grid to the coarsest, the (w, h) pairs of the model's configuration
                 in pixels of the model's input: [[(10, 13), (16, 30), (33, 23)], ...]. A level may also be a flat list
                 w, h, w, h, ...
    decode       'v5': xy = (2 s - 0.5 + cell) * stride, wh = (2 s)^2 * anchor with s the sigmoid.
                 'v2': xy = (s + cell) * stride, wh = exp(t) * anchor.
    backend      'auto', 'scalar', 'avx2', 'avx512' or 'neon'. Every backend is vectorized where its name says so, and
                 all give the same bits: there is nothing to warn of.
    threads      rows of the grids are shared among so many threads.

    Emits float32 (1, rows, 5 + num_classes): x, y, w, h in pixels of the input, objectness, class scores. Rows are
    ordered by level as the tensors come, then anchor, then cell, as these models export them.

    Against the onnxruntime tail: rtol 1e-5, atol 1e-6; x and y also differ by a millionth of the stride (3e-5 pixels),
    since 2 s - 0.5 cancels near the left and upper border.
    Raises ValueError for tensors and parameters that contradict each other.
    """

    postamble_slot = "fused_kernel"

    num_classes: int
    anchors: list[list[tuple[float, float]]]
    decode: str
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int | None = None,
        anchors: Sequence[Sequence[Any]] | None = None,
        decode: str = "v5",
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        check_choice("decode", decode, _DECODES)
        check_size(model_width, model_height)
        if num_classes is None:
            raise ValueError("num_classes is missing: a wrong count mis-decodes every frame, so it is never guessed")
        self.num_classes = check_count("num_classes", num_classes, 0 if decode == "v2" else 1)
        self.anchors, self.decode = _pairs(anchors), decode
        width = 5 + self.num_classes
        levels = _levels(infos, self.anchors, width)
        rows = sum(len(pairs) * math.prod(info.unpadded_shape[1:3]) for info, pairs in zip(infos, levels, strict=True))
        self.output_shapes: tuple[tuple[int, ...], ...] = ((1, rows, width),)
        strips, offset = [], 0
        for index, (info, pairs) in enumerate(zip(infos, levels, strict=True)):
            strips += _strips(info, index, pairs, width, offset, (model_width, model_height), decode)
            offset += len(pairs) * math.prod(info.unpadded_shape[1:3]) * width
        stride = max(model_height / info.unpadded_shape[1] for info in infos)
        self.tolerances = (Tolerance(atol=np.array([1e-6 * stride] * 2 + [1e-6] * (3 + self.num_classes))),)
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> NDArray[np.float32]:
        return self._heads.run(tensors)[0]


def _pairs(anchors: Sequence[Sequence[Any]] | None) -> list[list[tuple[float, float]]]:
    """The (w, h) pairs of each level. Raises ValueError for what is no list of positive pairs."""
    if anchors is None:
        raise ValueError(
            "anchors are missing: for each level the pixel (w, h) pairs of the model's own configuration, "
            "[[(10, 13), (16, 30), (33, 23)], ...] from the finest grid on"
        )
    levels = []
    for level, values in enumerate(check_list("anchors", anchors)):
        try:
            flat = np.asarray(check_list("anchors", values), np.float64).reshape(-1)
        except (TypeError, ValueError, OverflowError):
            flat = np.empty(0)
        if flat.size == 0 or flat.size % 2 or not ((flat > 0) & (flat < MOST_COUNT)).all():
            raise ValueError(f"anchors of level {level} are {shown(values)}, want positive (w, h) pairs in pixels")
        levels.append([(float(w), float(h)) for w, h in flat.reshape(-1, 2)])
    return levels


def _levels(
    infos: Sequence[TensorInfo], anchors: Sequence[list[tuple[float, float]]], width: int
) -> list[list[tuple[float, float]]]:
    """The pairs of each tensor: `anchors` go from the largest grid to the smallest, the tensors in any order."""
    if len(anchors) != len(infos):
        raise ValueError(
            f"the model has {len(infos)} outputs and anchors {len(anchors)} levels, want one level for each output; "
            f"a split head (box and class tensors apart) needs UltralyticsYoloPostamble, or {DROP}"
        )
    order = sorted(range(len(infos)), key=lambda i: -math.prod(infos[i].unpadded_shape[1:3]))
    found: list[list[tuple[float, float]]] = [[] for _ in infos]
    for pairs, index in zip(anchors, order, strict=True):
        channels = infos[index].unpadded_shape[3]
        if channels != len(pairs) * width:
            raise ValueError(
                f"{named(infos[index], index)} has {channels} channels, want {len(pairs)} anchors * (5 + "
                f"{width - 5} classes) = {len(pairs) * width}; check num_classes and anchors. A split head needs "
                f"UltralyticsYoloPostamble; or {DROP}"
            )
        found[index] = pairs
    return found


def _strips(
    info: TensorInfo,
    index: int,
    pairs: Sequence[tuple[float, float]],
    width: int,
    offset: int,
    size: tuple[int, int],
    decode: str,
) -> list[Strip]:
    """The boxes of a level, and what follows them."""
    rows, cols = info.unpadded_shape[1:3]
    box = Place(index, 0, len(pairs), width, 0, 4, offset, rows * cols * width, width)
    rest = Place(index, 0, len(pairs), width, 4, width - 4, offset + 4, rows * cols * width, width)
    scores = activated(info, "sigmoid", rest)
    if decode == "v5":
        centre, shift = scores.table * np.float32(2), np.float32(0.5)
        shape = centre * centre
    else:
        centre, shift, shape = scores.table, np.float32(0), table(info, np.exp).tables[0]
    grid = Strip(
        "grid_box",
        box,
        np.stack([centre, shape]),
        sizes=np.array(pairs, np.float32),
        rows=np.arange(rows, dtype=np.float32) - shift,
        cols=np.arange(cols, dtype=np.float32) - shift,
        steps=np.array([size[0] / cols, size[1] / rows], np.float32),
    )
    return [scores, grid]
