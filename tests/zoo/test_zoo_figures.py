"""What the configs of the package say of their accuracy, and the pictures of what they find."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest

import axtool as axtool_package
from axtool.report.zoo_entries import entry_document, entry_text
from axtool.zoo.catalogue import Entry, entries
from axtool.zoo.schema import LABELLED
from tests.zoo_at_hand import AT_HAND

PICTURES = Path(axtool_package.__file__).parents[1] / "docs" / "pictures"


@pytest.mark.parametrize("entry", AT_HAND, ids=lambda entry: entry.config.name)
def test_an_entry_says_what_was_measured_with_the_tail_and_with_the_kernel(entry: Entry) -> None:
    assert entry.config.expected
    for item in entry.config.expected:
        assert item.int8 is not None
        assert item.int8_kernel == pytest.approx(item.int8, abs=2e-3)
        assert item.minimum <= min(item.int8, item.int8_kernel or 0)
        assert (item.float_value is not None) == (item.metric in LABELLED)


@pytest.mark.parametrize("entry", AT_HAND, ids=lambda entry: entry.config.name)
def test_the_page_of_models_has_a_small_picture_of_what_an_entry_finds(entry: Entry) -> None:
    path = PICTURES / f"{entry.config.name}.webp"
    picture = cv2.imread(str(path))
    assert picture is not None
    assert picture.shape[1] <= 640
    assert path.stat().st_size < 64 << 10


def test_info_tells_the_figures_of_float_and_of_int8_with_tail_and_kernel() -> None:
    (entry,) = (entry for entry in entries() if entry.config.name == "digits-v8seg")
    text = entry_text(entry_document(entry))
    assert "mask_iou float 0.731, int8 0.726, int8 with the kernel 0.726, at least 0.71" in text
    assert "labels      detection/digits/scenes.json" in text


def test_the_digit_models_share_their_pictures_and_labels() -> None:
    digits = [entry for entry in entries() if entry.config.name.startswith("digits-")]
    assert len(digits) == 4
    assert len({entry.file(entry.config.annotations) for entry in digits}) == 1
