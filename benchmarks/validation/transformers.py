"""What the numbers of transformers on QC-U are worth: boxes, logits and labels beside the float models, embeddings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache

from axtool.errors import EnvironmentFault
from axtool.verify.label_metric import LabelAgreement
from benchmarks.transformer_accuracy import Boxes, detr_boxes, minilm_cosines, segformer_labels, text_labels
from benchmarks.validation.rows import LeftOut, Row, Rule

TITLE = "Transformers: their numbers"
TARGETS: Sequence[str] = ()  # no constant of a chip changes a number
ABOUT = """
DETR-R101, SegFormer-B0 and MiniLM-L6 as they are compiled for a QC-U, run on the simulated device, beside onnxruntime
in float. The notebooks of Quadric print what their trained weights do on one picture each; DETR and SegFormer have
seeded weights here and four made-up pictures that calibration did not see, so that those figures are for orientation.
MiniLM has its trained weights, which a package brings, and 100 sentences; so has PP-OCR's text detector, which is no
transformer but gives a label map as a trained network does, and 24 pages of text that calibration did not see.

- **DETR-R101**, `detr-mixed`: the ten best boxes of each picture, of the same class and with an IoU above 0.5.
- **SegFormer-B0**, `segformer-int8`: the label of every pixel, and of those whose best score is above the second by
  more than one step of the scores.
- **PP-OCR text detection**, the default recipe: text or none for every pixel, the chance being above DBNet's 0.3.
- **MiniLM-L6**, products in fp16, sums and norms in fx32: the cosine of the embeddings of a sentence.
"""
WRONG = (
    "Seeded weights spread their scores less than trained ones: near ties are more frequent, and classes that few "
    "pixels have weigh as much as others in a mean IoU.",
)
SET = "Numbers on the simulated device, beside onnxruntime in float"
PUBLISHED_BOXES, PUBLISHED_IOU, PUBLISHED_LABELS = 90.0, 0.971, 94.784  # per cent, mean, per cent
LEAST_BOXES, LEAST_DB, LEAST_CLEAR, LEAST_TEXT, LEAST_COSINE = 0.9, 25.0, 0.95, 0.98, 0.995
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


@cache
def text() -> LabelAgreement:
    """PP-OCR's text detector, by its threshold."""
    return text_labels()


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
    boxes, labels = detr(), segformer()
    clear = 0.0 if labels.clear_pixel is None else labels.clear_pixel
    return [
        Rule(SET, "DETR-R101: best boxes that agree", boxes.agreement.share, LEAST_BOXES, "at least", "%"),
        Rule(SET, "DETR-R101: logits", boxes.logits_db, LEAST_DB, "at least", "dB"),
        Rule(SET, "SegFormer-B0: same label, of pixels whose margin is above one step", clear, LEAST_CLEAR, "at least",
             "%"),
        *at_hand(_of_text),
        *at_hand(_of_sentences),
    ]  # fmt: skip


def _of_text() -> Rule:
    labels = text()
    what = f"PP-OCR text detection: same label, of the pixels of {labels.samples} pages"
    return Rule(SET, what, labels.pixel, LEAST_TEXT, "at least", "%")


def _of_sentences() -> Rule:
    cosines = minilm()
    what = f"MiniLM-L6: least cosine of {len(cosines)} sentences"
    return Rule(SET, what, min(cosines), LEAST_COSINE, "at least")


def at_hand(made: Callable[[], Rule]) -> list[Rule]:
    """The rule, or none where the package of its weights cannot be had, which is said."""
    try:
        return [made()]
    except EnvironmentFault as fault:
        print(f"left out: {fault}", file=sys.stderr, flush=True)
        return []


def leave_one_out() -> list[LeftOut]:
    """Nothing is fitted."""
    return []
