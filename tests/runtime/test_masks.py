"""Masks of objects: where prototypes lie in the picture, and runs of pixels."""

from __future__ import annotations

import numpy as np
import pytest

from axtool.inputs.prepare import Placement
from axtool.runtime.masks import from_run_lengths, masks_in_picture, run_lengths

WHOLE = Placement(1.0, 1.0, 0.0, 0.0, (16, 24), (16, 24))  # a picture that is the model's input
EVERYWHERE = np.array([[-1.0, -1.0, 99.0, 99.0]])


def test_at_their_own_resolution_masks_are_the_signs_of_the_prototypes() -> None:
    random = np.random.default_rng(1)
    weights, prototypes = random.normal(size=(3, 5)), random.normal(size=(5, 4, 6))
    masks = masks_in_picture(np.repeat(EVERYWHERE, 3, 0), weights, prototypes, WHOLE, (4, 6))
    assert np.array_equal(list(masks), np.einsum("nm,mhw->nhw", weights, prototypes) > 0)


def test_a_mask_holds_only_pixels_whose_centre_is_in_the_box() -> None:
    boxes = np.array([[4.0, 2.0, 9.4, 6.6], [4.0, 2.0, 9.6, 6.4], [30.0, 0.0, 40.0, 9.0]])
    masks = masks_in_picture(boxes, np.ones((3, 1)), np.ones((1, 4, 6)), WHOLE, (16, 24))
    for mask, (x0, x1, y0, y1) in zip(masks, [(4, 9, 2, 7), (4, 10, 2, 6), (0, 0, 0, 0)], strict=True):
        wanted = np.zeros((16, 24), bool)
        wanted[y0:y1, x0:x1] = True
        assert np.array_equal(mask, wanted)


def test_a_mask_follows_the_picture_through_its_letterbox() -> None:
    place = Placement(0.5, 0.5, 0.0, 4.0, (16, 48), (16, 24))  # a picture of 48x16, half as large, 4 pixels down
    prototypes = np.full((1, 16, 24), -1.0)
    prototypes[0, 6:10, 3:9] = 1  # of the picture: rows 4 to 12, columns 6 to 18
    (mask,) = masks_in_picture(EVERYWHERE, np.ones((1, 1)), prototypes, place, (16, 48))
    wanted = np.zeros((16, 48), bool)
    wanted[4:12, 6:18] = True
    assert np.array_equal(mask, wanted)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 8), (16, 3)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_runs_are_read_back_as_the_mask_that_they_were_made_of(shape: tuple[int, int], share: float) -> None:
    mask = np.random.default_rng(3).random(shape) < share
    runs = run_lengths(mask)
    assert np.array_equal(from_run_lengths(runs, shape), mask)
    assert all(runs[1:])
    assert sum(runs) == mask.size


@pytest.mark.parametrize("runs", [[5], [7, -1], [3, 4]])
def test_runs_that_do_not_fill_the_mask_are_refused(runs: list[int]) -> None:
    with pytest.raises(ValueError, match="in a mask of 2x3"):
        from_run_lengths(runs, (2, 3))
