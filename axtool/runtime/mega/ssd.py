"""`SsdPostamble`: single-shot detectors of the TensorFlow Object Detection API as boxes and class scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.mega.byte_functions import real_values
from axtool.runtime.mega.checks import DROP, check_infos, named
from axtool.runtime.mega.heads import Heads
from axtool.runtime.mega.levels import Level, find_levels
from axtool.runtime.mega.params import check_choice, check_count, check_flag, check_number, check_numbers, check_size
from axtool.runtime.mega.prior_boxes import Priors, multiple_grid, multiscale_grid
from axtool.runtime.mega.strips import Place, Strip, activated
from axtool.runtime.op.operator import Operator, Unpacked
from axtool.runtime.tensor_info import TensorInfo
from axtool.runtime.tolerance import Tolerance

_GENERATORS = ("multiscale", "ssd")


class SsdPostamble(Operator):
    """Decodes SSD heads: for each level a box tensor of 4 and a class tensor of 1 + classes channels an anchor.

    Families: SSD-MobileNet with FPN-lite (`anchor_generator='multiscale'`), SSD-MobileNet 300 and its like ('ssd').
    The parameters are the rule that makes the anchors, not the anchors; names and defaults are those of the
    TensorFlow Object Detection API.

    num_classes     classes that the output has, without the background.
    head_classes    classes that the class tensors have, where the graph cuts the last ones off; num_classes by default.
    min_level, max_level, anchor_scale, aspect_ratios, scales_per_octave
                    MultiscaleGridAnchorGenerator: 3, 7, 4.0, (1.0, 2.0, 0.5), 2. Level l has a stride of 2^l pixels.
    min_scale, max_scale, interpolated_scale_aspect_ratio, reduce_boxes_in_lowest_layer, aspect_ratios
                    ssd_anchor_generator: 0.2, 0.95, 1.0, True, (1.0, 2.0, 0.5, 3.0, 1/3). Fractions of the input.
    interpolated_second
                    whether the anchor between two scales is the second of a cell, as in early exports, not the last.
    box_coder       (y, x, height, width) scales of the Faster R-CNN box coder: (10, 10, 5, 5).
    tensor_roles    'box' or 'class' for each output; needed only with 3 classes, where both are 4 wide.
    backend, threads
                    'auto', 'scalar', 'avx2', 'avx512', 'neon', all with the same bits; rows are shared among threads.

    Emits the pair boxes (1, anchors, 4), float32 y1, x1, y2, x2 as fractions of the input and not cut off at its
    border, and scores (1, anchors, num_classes), the sigmoid of each class without the background.

    Against the onnxruntime tail: rtol 1e-5, atol 1e-6 for scores and for boxes up to the size of the input; an edge
    of a larger box is the difference of two large numbers and is good to 1e-6 of the box.
    Raises ValueError for tensors and parameters that contradict each other.
    """

    postamble_slot = "fused_kernel"
    tolerances = (Tolerance(row=1e-6), Tolerance())

    num_classes: int
    anchor_generator: str
    backend: str
    threads: int

    def __init__(
        self,
        output_infos: Sequence[TensorInfo],
        model_width: int,
        model_height: int,
        *,
        num_classes: int | None = None,
        head_classes: int | None = None,
        anchor_generator: str = "multiscale",
        min_level: int = 3,
        max_level: int = 7,
        anchor_scale: float = 4.0,
        aspect_ratios: Sequence[float] | None = None,
        scales_per_octave: int = 2,
        min_scale: float = 0.2,
        max_scale: float = 0.95,
        interpolated_scale_aspect_ratio: float = 1.0,
        reduce_boxes_in_lowest_layer: bool = True,
        interpolated_second: bool = False,
        box_coder: Sequence[float] = (10.0, 10.0, 5.0, 5.0),
        tensor_roles: Sequence[str] | None = None,
        backend: str = "auto",
        threads: int = 1,
        name: str = "",
    ) -> None:
        infos = check_infos(output_infos)
        if num_classes is None:
            raise ValueError("num_classes is missing: a wrong count mis-decodes every frame, so it is never guessed")
        self.num_classes = check_count("num_classes", num_classes)
        columns = 1 + check_count("head_classes", num_classes if head_classes is None else head_classes, num_classes)
        check_choice("anchor_generator", anchor_generator, _GENERATORS)
        check_size(model_width, model_height)
        # those of the other rule too: what is written must mean something
        for what, value in (("anchor_scale", anchor_scale), ("min_scale", min_scale), ("max_scale", max_scale)):
            check_number(what, value)
        check_count("scales_per_octave", scales_per_octave, most=64)
        check_count("max_level", max_level, check_count("min_level", min_level, 0, 30), 30)
        if interpolated_scale_aspect_ratio is False or interpolated_scale_aspect_ratio != 0:  # 0: none
            check_number("interpolated_scale_aspect_ratio", interpolated_scale_aspect_ratio)
        check_flag("reduce_boxes_in_lowest_layer", reduce_boxes_in_lowest_layer)
        check_flag("interpolated_second", interpolated_second)
        ratios = None if aspect_ratios is None else check_numbers("aspect_ratios", aspect_ratios)
        coder = check_numbers("box_coder", box_coder, count=4)
        self.anchor_generator = anchor_generator
        levels = find_levels(infos, {"box": 4, "class": columns}, tensor_roles, f"num_classes ({num_classes})")
        grids = [(level.rows, level.cols) for level in levels]
        if anchor_generator == "multiscale":
            _check_levels(grids, min_level, max_level)
            priors = multiscale_grid(
                grids,
                (model_height, model_width),
                min_level=min_level,
                anchor_scale=anchor_scale,
                aspect_ratios=ratios or (1.0, 2.0, 0.5),
                scales_per_octave=scales_per_octave,
            )
        else:
            priors = multiple_grid(
                grids,
                min_scale=min_scale,
                max_scale=max_scale,
                aspect_ratios=ratios or (1.0, 2.0, 0.5, 3.0, 1 / 3),
                interpolated_scale_aspect_ratio=interpolated_scale_aspect_ratio,
                reduce_boxes_in_lowest_layer=reduce_boxes_in_lowest_layer,
                interpolated_second=interpolated_second,
            )
        rows = sum(level.boxes for level in levels)
        self.output_shapes: tuple[tuple[int, ...], ...] = ((1, rows, 4), (1, rows, self.num_classes))
        strips, first = [], 0
        for level, prior in zip(levels, priors, strict=True):
            _check_anchors(infos, level, prior, anchor_generator)
            strips += _strips(infos, level, prior, first, self.num_classes, columns, coder)
            first += level.boxes
        self._heads = Heads(infos, strips, self.output_shapes, backend=backend, threads=threads)
        self.backend, self.threads = self._heads.backend, threads
        super().__init__(name=name)

    def __call__(self, *tensors: NDArray[np.int8]) -> Unpacked:
        return Unpacked(self._heads.run(tensors))


def _check_levels(grids: Sequence[tuple[int, int]], min_level: int, max_level: int) -> None:
    wanted = max_level - min_level + 1
    if len(grids) != wanted:
        raise ValueError(
            f"the model has {len(grids)} levels, but min_level={min_level} and max_level={max_level} make {wanted}; "
            f"anchor_generator='ssd' is the rule of SSD without a feature pyramid; or {DROP}"
        )


def _check_anchors(infos: Sequence[TensorInfo], level: Level, prior: Priors, generator: str) -> None:
    if len(prior.sizes) != level.anchors:
        index = level.index["box"]
        raise ValueError(
            f"{named(infos[index], index)} has {level.anchors} anchors a cell, but the rule "
            f"anchor_generator='{generator}' makes {len(prior.sizes)}; check aspect_ratios and the scales, or {DROP}"
        )


def _strips(
    infos: Sequence[TensorInfo],
    level: Level,
    prior: Priors,
    first: int,
    classes: int,
    columns: int,
    box_coder: Sequence[float],
) -> list[Strip]:
    """The scores and the boxes of a level, whose rows begin at `first` in both outputs."""
    box, cls = level.index["box"], level.index["class"]
    scores = Place(cls, 1, level.anchors, columns, 1, classes, first * classes, classes, level.anchors * classes)
    corners = Place(box, 0, level.anchors, 4, 0, 4, first * 4, 4, level.anchors * 4)
    boxes = Strip(
        "corner_box",
        corners,
        box_tables(infos[box], box_coder),
        sizes=prior.sizes,
        rows=prior.rows,
        cols=prior.cols,
    )
    return [activated(infos[cls], "sigmoid", scores), boxes]


def box_tables(info: TensorInfo, box_coder: Sequence[float]) -> NDArray[np.float32]:
    """(2, 256): t / 10 for centres, exp(t / 5) / 2 for half sizes. Raises ValueError for scales that differ by axis."""
    scales = list(box_coder)
    if scales[0] != scales[1] or scales[2] != scales[3]:
        raise ValueError(f"box_coder is {scales}, want (centre, centre, size, size), such as (10, 10, 5, 5); or {DROP}")
    real = real_values(info)
    centre = real * np.float32(1 / scales[0])
    with np.errstate(over="ignore"):
        half = np.exp((real * np.float32(1 / scales[2])).astype(np.float64)) / 2
    return np.stack([centre, half.astype(np.float32)])
