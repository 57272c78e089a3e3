"""What `axtool.runtime` offers, and what it costs to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import axtool.runtime
from axtool.runtime import op, results

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", axtool.runtime.__all__)
def test_every_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(axtool.runtime, name) is not None


def test_results_are_the_same_classes_by_either_name() -> None:
    assert axtool.runtime.BBox is results.BBox


@pytest.mark.parametrize("name", op.__all__)
def test_every_operator_that_is_offered_is_there(name: str) -> None:
    assert getattr(op, name) is not None


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'axtool\.runtime' has no attribute 'Bbox'"):
        _ = axtool.runtime.Bbox  # type: ignore[attr-defined]


def test_loading_operators_imports_neither_the_compiler_nor_onnxruntime() -> None:
    code = (
        "import sys; from axtool.runtime import Postamble, op; "
        "print([m for m in ('onnx', 'onnx_ir', 'onnxruntime', 'cv2') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.strip() == "[]"
