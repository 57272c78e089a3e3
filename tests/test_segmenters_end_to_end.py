"""Trained segmenters: nearly every pixel keeps the label that the float model gives it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from axtool.inputs.images import read_image
from tests import shared_data as shared
from tests.shared_data import IMAGES, MODELS
from tests.tiny import axtool

pytestmark = [pytest.mark.slow, shared.needs_models, shared.needs_images]

# The logits of the mask reach from -500 to 500, and a sigmoid tells nothing apart beyond a few: the steps of int8 go
# to what decides.
CLIPPED = """
schema: axtool.quant/1
description: the default, with the logits of the mask cut to what their sigmoid tells apart
layers:
  - match: {op: ConvTranspose}
    range: [-24, 24]
"""


def crops(names: Sequence[str], count: int, folder: Path) -> Path:
    """Parts of pictures, every other one mirrored, 256 x 256."""
    import cv2

    folder.mkdir()
    rng = np.random.default_rng(3)
    for at in range(count):
        image = read_image(IMAGES / names[at % len(names)])
        part = rng.uniform(0.55, 1.0)
        height, width = (int(size * part) for size in image.shape[:2])
        y, x = rng.integers(0, image.shape[0] - height + 1), rng.integers(0, image.shape[1] - width + 1)
        cut = image[y : y + height, x : x + width, ::-1]
        cut = cut[:, ::-1] if rng.random() < 0.5 else cut
        cv2.imwrite(str(folder / f"{at:02}.png"), cv2.resize(cut, (256, 256), interpolation=cv2.INTER_AREA))
    return folder


def test_a_person_is_cut_out_as_in_float(work: Path) -> None:
    known = ("faceapi_sample1.jpg", "faceapi_sample2.jpg", "skimage_astronaut.png", "skimage_coffee.png",
             "sklearn_china.jpg")  # fmt: skip
    calibration = crops(known, 40, work / "calibration")
    new = crops(("faceapi_sample3.jpg", "faceapi_sample4.jpg", "mpl_grace_hopper.jpg"), 12, work / "new")
    (work / "clipped.yaml").write_text(CLIPPED)
    model = MODELS / "selfie_seg_256.onnx"
    words = ("--resize", "fit", "--task", "semantic", "--labels", "background,person", "--recipe", "clipped.yaml")
    ran = axtool("compile", model, "--calib", calibration, "-o", "selfie.axm", *words)
    assert ran.code == 0, ran.err
    ran = axtool("verify", "selfie.axm", "--against", model, "--data", new, "--min-pixel", "0.98", "--metric", "pixel")
    assert ran.code == 0, ran.out
