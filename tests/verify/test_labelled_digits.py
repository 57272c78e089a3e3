"""Accuracy of four float models on labelled scenes: the figures that were published with the models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from axtool.runtime.boxes import centres_to_corners, nms
from axtool.verify.labelled import Found, Labels, Tally
from tests.shared_data import MODELS, needs_models

CLASSES, KEYPOINTS, MAP = 10, 4, 40  # a mask is 40 x 40 for an input of 160 x 160
PUBLISHED = {
    "v8det": {"map50": 0.753},
    "v8pose": {"map50": 0.753, "keypoint_pck": 0.558},
    "v8seg": {"map50": 0.753, "mask_iou": 0.731},
    "v5anchor": {"map50": 0.582},
}


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("head", PUBLISHED)
def test_the_float_model_has_its_published_accuracy(head: str) -> None:
    folder = MODELS / "digitscene"
    session = ort.InferenceSession(folder / f"digits_{head}_160.onnx", providers=["CPUExecutionProvider"])
    accuracy = Tally()
    with np.load(folder / "test200.npz") as data:
        scenes = {name: data[name] for name in data}
    for index, image in enumerate(scenes["images"]):
        rows = slice(scenes["offsets"][index], scenes["offsets"][index + 1])
        outputs = session.run(None, {"images": image.transpose(2, 0, 1)[None].astype(np.float32) / 255})
        accuracy.add(labels(scenes, rows), found(head, outputs))
    figures = accuracy.to_dict()
    assert (figures["pictures"], figures["labels"]) == (200, 598)
    assert {name: round(float(figures[name] or 0), 3) for name in PUBLISHED[head]} == pytest.approx(
        PUBLISHED[head], abs=1e-3
    )


def labels(scenes: dict[str, Any], rows: slice) -> Labels:
    masks = np.unpackbits(scenes["masks"][rows], axis=1).reshape(-1, MAP, MAP).astype(bool)
    return Labels(scenes["boxes"][rows].astype(float), scenes["cls"][rows], scenes["kps"][rows].astype(float), masks)


def found(head: str, outputs: list[Any]) -> Found:
    """All above 0.02, at most 100 after suppression at 0.6, as the published figures were made."""
    table = outputs[0][0].astype(float)
    if head == "v5anchor":
        scores, extra = table[:, 5:] * table[:, 4:5], table[:, :0]
    else:
        table = table.T
        scores, extra = table[:, 4 : 4 + CLASSES], table[:, 4 + CLASSES :]
    kept = scores.max(1) > 0.02
    boxes, best, classes = centres_to_corners(table[kept, :4]), scores.max(1)[kept], scores.argmax(1)[kept]
    order = nms(boxes, best, classes, 0.6)[:100]
    boxes, best, classes, extra = boxes[order], best[order], classes[order], extra[kept][order]
    keypoints = extra.reshape(-1, KEYPOINTS, 3)[:, :, :2] if head == "v8pose" else None
    masks = cut(np.einsum("nk,khw->nhw", extra, outputs[1][0]) > 0, boxes / 4) if head == "v8seg" else None
    return Found(boxes, best, classes, keypoints, masks)


def cut(masks: Any, boxes: Any) -> Any:
    """Only pixels whose centre is in the box."""
    y, x = np.mgrid[0:MAP, 0:MAP] + 0.5
    x0, y0, x1, y1 = (boxes[:, at, None, None] for at in range(4))
    return masks & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
