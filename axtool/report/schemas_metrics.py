"""What the documents of `verify` and `run` say of the task: boxes that agree, labels of pixels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from axtool.report.schemas_base import Part


class PixelClass(Part):
    index: int
    label: str
    share: float = Field(description="Of the pixels.")


class Semantic(Part):
    kind: Literal["semantic"]
    size: list[int] = Field(min_length=2, max_length=2, description="Rows and columns of the map of labels.")
    classes: list[PixelClass] = Field(description="The largest first.")


class BoxMetric(Part):
    """The best boxes of each picture, paired: the same class, an IoU above the limit, each used once."""

    best: int = Field(description="Boxes of a picture that are taken, by score.")
    iou: float = Field(description="The limit.")
    samples: int
    reference_boxes: int
    device_boxes: int
    matched: int
    matched_share: float = Field(description="Of the reference's boxes.")
    mean_iou: float | None = Field(description="Of the pairs; null without any.")


class LabelMetric(Part):
    """The label of every pixel. Clear pixels: the float scores' margin is above one quantization step."""

    output: str
    samples: int
    pixels: int
    pixel_agreement: float
    mean_iou: float | None = Field(description="Over the classes that either model names; null without pixels.")
    classes: int = Field(description="That either model names.")
    step: float | None = Field(description="One quantization step of the scores; null where it is not known.")
    clear_pixels: int = Field(description="0 where the reference gives no scores.")
    clear_pixel_agreement: float | None


class VerifyMetrics(Part):
    boxes: BoxMetric | None
    labels: LabelMetric | None
