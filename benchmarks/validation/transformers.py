"""What the numbers of transformers on QC-U are worth: boxes, logits and labels beside the float models, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from axtool.verify.label_metric import LabelAgreement
from benchmarks.transformer_accuracy import Boxes, detr_boxes, minilm_cosines, segformer_labels
from benchmarks.validation.rows import LeftOut, Row, Rule

TITLE = "Transformers: their numbers"
TARGETS: Sequence[str] = ()  # no constant of a chip changes a number
ABOUT = """
DETR-R101, SegFormer-B0 and MiniLM-L6 as they are compiled for a QC-U, run on the simulated device, beside onnxruntime
in float. The notebooks of Quadric print what their trained weights do on one picture each; DETR and SegFormer have
seeded weights here and four made-up pictures that calibration did not see, so that those figures are for orientation.
MiniLM has its trained weights, which a package brings, and 100 sentences.

- **DETR-R101**, `detr-mixed`: the ten best boxes of each picture, of the same class and with an IoU above 0.5.
- **SegFormer-B0**, `segformer-int8`: the label of every pixel, and of those whose best score is above the second by
  more than one step of the scores.
- **MiniLM-L6**, products in fp16, sums and norms in fx32: the cosine of the embeddings of a sentence.
"""
WRONG = (
    "Seeded weights spread their scores less than trained ones: near ties are more frequent, and classes that few "
    "pixels have weigh as much as others in a mean IoU.",
)
SET = "Numbers on the simulated device, beside onnxruntime in float"
PUBLISHED_BOXES, PUBLISHED_IOU, PUBLISHED_LABELS = 90.0, 0.971, 94.784  # per cent, mean, per cent
LEAST_BOXES, LEAST_DB, LEAST_CLEAR, LEAST_COSINE = 0.9, 25.0, 0.95, 0.995
SEEDED = "seeded weights; published: trained ones"


@cache
def detr() -> Boxes:
    """DETR-R101 in mixed precision: backbone and feed-forward blocks in int8."""
    return detr_boxes()


@cache
def segformer() -> LabelAgreement:
    """SegFormer-B0 in int8, its labels at the size of the picture."""
    return segformer_labels()


@cache
def minilm() -> tuple[float, ...]:
    """The cosines of 100 sentences."""
    return tuple(minilm_cosines())


def rows() -> list[Row]:
    """Agreement beside what is published."""
    boxes, labels = detr().agreement, segformer()
    return [
        Row(SET, "DETR-R101: best boxes that agree", "%", PUBLISHED_BOXES, 100 * boxes.share, note=SEEDED),
        Row(SET, "DETR-R101: mean IoU of them", "", PUBLISHED_IOU, boxes.mean_iou or 0.0, note=SEEDED),
        Row(SET, "SegFormer-B0: pixels with the same label", "%", PUBLISHED_LABELS, 100 * labels.pixel, note=SEEDED),
    ]


def rules(rows: Sequence[Row]) -> list[Rule]:
    """What must hold."""
    boxes, labels, cosines = detr(), segformer(), minilm()
    clear = 0.0 if labels.clear_pixel is None else labels.clear_pixel
    return [
        Rule(SET, "DETR-R101: best boxes that agree", boxes.agreement.share, LEAST_BOXES, "at least", "%"),
        Rule(SET, "DETR-R101: logits", boxes.logits_db, LEAST_DB, "at least", "dB"),
        Rule(SET, "SegFormer-B0: same label, of pixels whose margin is above one step", clear, LEAST_CLEAR, "at least",
             "%"),
        Rule(SET, f"MiniLM-L6: least cosine of {len(cosines)} sentences", min(cosines), LEAST_COSINE, "at least"),
    ]  # fmt: skip


def leave_one_out() -> list[LeftOut]:
    """Nothing is fitted."""
    return []
