"""Case files, trained models and pictures in a folder `shared` beside the repository, for tests that want them.

They are no part of the repository: without the folder these tests have no parameters and are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
CASES = SHARED / "cases"
MODELS = SHARED / "models"
IMAGES = SHARED / "images"
EXPORTS = SHARED.parent / "exports"  # of well-known architectures, in a folder beside that one
YOURS = {  # of zoo entries whose model the user brings
    "retinaface-mnet025-640": MODELS / "retinaface_mnet025_640.onnx",
    "ssd-face-512": MODELS / "faceapi_ssdmnv1_512_decoded.onnx",
}
RTOL, ATOL = 1e-4, 1e-5  # of the float path, where a case says nothing else

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the case files are not at hand")
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the trained models are not at hand")
needs_images = pytest.mark.skipif(not IMAGES.is_dir(), reason="the pictures are not at hand")


def cases(kind: str) -> list[dict[str, Any]]:
    """The cases of a kind: `valid`, `broken` or `calibration`; none where the folder is missing."""
    file = CASES / "cases.json"
    found = json.loads(file.read_text(encoding="utf-8"))[kind] if file.is_file() else []
    assert isinstance(found, list)
    return found


def case_name(case: dict[str, Any]) -> str:
    """The name of a case, to call its test by."""
    return str(case.get("name") or case["id"])


def models() -> list[Path]:
    """Every trained model; none where the folder is missing."""
    return sorted(MODELS.rglob("*.onnx")) if MODELS.is_dir() else []


def arrays(path: Path, side: str) -> dict[str, NDArray[Any]]:
    """The `input` or `output` arrays of a case's .npz, by the names of the model."""
    with np.load(path, allow_pickle=False) as data:
        return {str(name): data[f"{side}_{at}"] for at, name in enumerate(data[f"{side}_names"])}
