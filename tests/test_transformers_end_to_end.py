"""Whole transformers through the compiler and the engine: embeddings, labels and boxes beside the float models."""

from __future__ import annotations

import pytest

from axtool.errors import EnvironmentFault
from benchmarks.transformer_accuracy import detr_boxes, minilm_cosines, segformer_labels, text_labels

pytestmark = pytest.mark.slow


def test_minilm_embeds_100_sentences_as_in_float() -> None:
    try:
        cosines = minilm_cosines()
    except EnvironmentFault as fault:
        pytest.skip(f"the weights are not at hand: {fault}")
    assert len(cosines) == 100
    assert min(cosines) >= 0.995


def test_pixels_of_text_and_of_none_stay_what_they_are_in_float() -> None:
    try:
        labels = text_labels()
    except EnvironmentFault as fault:
        pytest.skip(f"the weights are not at hand: {fault}")
    assert labels.samples == 24
    assert sorted(labels.common) == [0, 1]
    assert labels.common[1] > 0.05 * labels.pixels  # the pages hold text
    assert labels.pixel >= 0.98
    assert labels.miou is not None
    assert labels.miou >= 0.95  # nine of ten pixels are ground: it alone would make most of the share


def test_clear_pixels_of_segformer_keep_their_labels() -> None:
    labels = segformer_labels()
    assert labels.clear > 0.9 * labels.pixels
    assert labels.clear_pixel is not None
    assert labels.clear_pixel >= 0.95


def test_boxes_and_logits_of_detr_agree() -> None:
    boxes = detr_boxes()
    assert boxes.agreement.share >= 0.9
    assert boxes.logits_db >= 25
