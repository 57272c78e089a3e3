"""Decoders of heads whose boxes stand beside fixed priors: faces of RetinaFace, objects of YOLACT with their masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime import detect_priors as priors
from axtool.runtime.op.decode import Decoder, model_size, over, rows_of, shaped
from axtool.runtime.op.operator import Unpacked

Float = NDArray[np.float32]


class DecodeRetinaFace(Decoder):
    """Rows (n, 16): a face and its five landmarks x, y, of loc (1, n, 4), conf (1, n, 2) and landms (1, n, 10).

    Priors are those of RetinaFace: `min_sizes` in pixels for each of `steps`, `variances` of centre and size.
    With `keypoint_scores` rows (n, 21): the score of the face behind each landmark, which `ax_pose` reads.
    """

    confidence_threshold: float = 0.5
    max_boxes_pre_nms: int = 30000
    min_sizes: Sequence[Sequence[int]] = priors.FACE_SIDES
    steps: Sequence[int] = priors.FACE_STRIDES
    variances: tuple[float, float] = priors.VARIANCES
    width: int = 0
    height: int = 0
    keypoint_scores: bool = False

    def __post_init__(self) -> None:
        self.check(None, self.confidence_threshold, self.max_boxes_pre_nms)
        if len(self.min_sizes) != len(self.steps):
            raise ValueError(f"DecodeRetinaFace: {len(self.min_sizes)} min_sizes for {len(self.steps)} steps")

    def __call__(self, loc: Any, conf: Any, landms: Any) -> Float:
        width, height = model_size(self, self.width, self.height)
        boxes = priors.square_priors((width, height), self.steps, self.min_sizes)
        offsets = shaped(self, loc, (len(boxes), 4))
        chances, marks = shaped(self, conf, (len(boxes), 2)), shaped(self, landms, (len(boxes), 10))
        kept, scores, classes = over(chances[:, 1:].T, self.confidence_threshold, self.max_boxes_pre_nms)
        pixels = np.array((width, height), np.float32)
        corners = priors.corners(offsets[kept], boxes[kept], self.variances) * np.tile(pixels, 2)
        points = priors.landmarks(marks[kept], boxes[kept], self.variances) * pixels
        if self.keypoint_scores:
            points = np.concatenate([points, np.repeat(scores[:, None, None], 5, 1)], 2)
        return rows_of(corners, scores, classes, "xyxy", points.reshape(len(kept), -1))


class DecodeYolact(Decoder):
    """(rows (n, 6 + m), prototypes (m, h, w)) of loc (1, n, 4), conf (1, n, 1 + classes), mask (1, n, m) and proto
    (1, h, w, m): what `proto_to_mask` reads behind a `nms`.

    Priors are those of YOLACT: `scales` in pixels of the input, one for each grid from an eighth of the input on, and
    `aspect_ratios`, which scale both sides as its published weights want. Class 0 is the first behind the background.
    """

    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    scales: Sequence[float] = priors.MASK_SCALES
    aspect_ratios: Sequence[float] = priors.MASK_RATIOS
    variances: tuple[float, float] = priors.VARIANCES
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        self.check(None, self.confidence_threshold, self.max_boxes_pre_nms)

    def __call__(self, loc: Any, conf: Any, mask: Any, proto: Any) -> Unpacked:
        width, height = model_size(self, self.width, self.height)
        boxes = priors.mask_priors((width, height), self.scales, self.aspect_ratios)
        prototypes = np.asarray(proto, np.float32)
        if prototypes.ndim != 4 or len(prototypes) != 1:
            raise ValueError(f"DecodeYolact: want proto (1, h, w, m), got {prototypes.shape}")
        offsets = shaped(self, loc, (len(boxes), 4))
        chances, coefficients = (shaped(self, given, (len(boxes), None)) for given in (conf, mask))
        if coefficients.shape[1] != prototypes.shape[3]:
            raise ValueError(
                f"DecodeYolact: {coefficients.shape[1]} coefficients of a mask for {prototypes.shape[3]} prototypes"
            )
        kept, scores, classes = over(chances[:, 1:].T, self.confidence_threshold, self.max_boxes_pre_nms)
        corners = priors.corners(offsets[kept], boxes[kept], self.variances)
        rows = rows_of(
            corners * np.tile(np.array((width, height), np.float32), 2), scores, classes, "xyxy", coefficients[kept]
        )
        return Unpacked((rows, np.ascontiguousarray(prototypes[0].transpose(2, 0, 1))))
