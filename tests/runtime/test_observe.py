"""Operators that look on: they change nothing, and what they write can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import CocoClasses, Image, op


def test_an_observer_sees_what_passes_by_and_changes_nothing() -> None:
    seen: list[Any] = []
    assert op.seq(op.observer(seen.append), lambda x: x + 1)(1) == 2
    assert seen == [1]


def test_an_observer_of_separate_arguments_gets_them_all() -> None:
    seen: list[Any] = []
    watched = op.observer(lambda *values: seen.append(values))
    assert op.seq(op.par(op.identity(), op.identity()), watched, lambda a, b: a + b)(2) == 4
    assert seen == [(2, 2)]


def test_an_array_is_written_with_its_bits_and_goes_on(tmp_path: Path) -> None:
    array, dumper = np.arange(6, dtype=np.float32).reshape(2, 3), op.dumper(tmp_path / "new", "rows")
    assert dumper(array) is array
    dumper(array + 1)
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "rows-000000.npy"), array)
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "rows-000001.npy"), array + 1)


def test_a_picture_is_written_as_its_pixels(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    op.dumper(tmp_path)(Image.from_array(pixels, "RGB"))
    np.testing.assert_array_equal(np.load(tmp_path / "frame-000000.npy"), pixels)


def test_several_arrays_are_written_to_one_file_by_place_or_by_name(tmp_path: Path) -> None:
    op.seq(op.par(op.identity(), op.identity()), op.dumper(tmp_path, "plain"))(np.arange(2))
    named = op.par(op.identity(name="boxes"), op.identity(name="masks"))
    op.seq(named, op.dumper(tmp_path, "named"))(np.arange(2))
    assert sorted(np.load(tmp_path / "plain-000000.npz").files) == ["0", "1"]
    assert sorted(np.load(tmp_path / "named-000000.npz").files) == ["boxes", "masks"]


def test_results_are_written_as_json(tmp_path: Path) -> None:
    op.seq(op.ax_detection(CocoClasses), op.dumper(tmp_path))(np.array([[0, 0.25, 1, 0.5, 0.5, 16]]))
    (found,) = json.loads((tmp_path / "frame-000000.json").read_text())
    assert found == {
        "index": 0, "class_id": {"id": 16, "name": "dog"}, "score": 0.5,
        "bbox": {"x0": 0.0, "y0": 0.25, "x1": 1.0, "y1": 0.5},
    }  # fmt: skip


def test_masks_of_results_are_written_too(tmp_path: Path) -> None:
    masks = np.array([[[True, False]]])
    op.seq(op.ax_segmentation(), op.dumper(tmp_path))((np.array([[0, 0, 1, 1, 0.5, 0]]), masks))
    assert json.loads((tmp_path / "frame-000000.json").read_text())[0]["mask"] == [[True, False]]


def test_what_is_neither_array_nor_result_is_refused_by_its_type(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="dumper writes arrays, pictures and results, got object"):
        op.dumper(tmp_path)(object())
