"""Decoder of transformers that name each object once: DETR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from axtool.runtime.detect_heads import decode_detr
from axtool.runtime.op.decode import Decoder, model_size, rows_of, shaped


class DecodeDetr(Decoder):
    """Rows (n, 6) of logits (1, queries, classes + 1), the last for 'no object', and boxes (1, queries, 4): centre and
    size, 0 to 1. A row is a query's best class after a softmax, so that no `nms` belongs behind it.
    """

    confidence_threshold: float = 0.5
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        self.check(None, self.confidence_threshold, 1)

    def __call__(self, logits: Any, boxes: Any) -> NDArray[np.float32]:
        width, height = model_size(self, self.width, self.height)
        outputs = {"boxes": shaped(self, boxes, (None, 4))[None]}
        outputs = {"logits": shaped(self, logits, (outputs["boxes"].shape[1], None))[None], **outputs}
        found = decode_detr({"size": (height, width)}, outputs, self.confidence_threshold)
        return rows_of(
            found.boxes.astype(np.float32), found.scores.astype(np.float32), found.classes.astype(np.intp), "xyxy"
        )
