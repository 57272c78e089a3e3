"""COCO annotation files: what is read of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.verify.annotated import read_annotated

FILE: dict[str, Any] = {
    "images": [{"id": 7, "file_name": "a/one.png", "height": 8}, {"id": 9, "file_name": "two.png"}],
    "categories": [{"id": 4, "name": "dog"}, {"id": 2, "name": "cat"}],
    "annotations": [
        {
            "image_id": 7, "category_id": 4, "bbox": [1, 2, 3, 4], "keypoints": [1, 2, 2, 3, 4, 0],
            "segmentation": {"size": [2, 3], "counts": [1, 2, 3]}, "iscrowd": 0,
        },
    ],
}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "labels.json"
    path.write_text(json.dumps({**FILE, **changes}), encoding="utf-8")
    return path


def changed(**values: Any) -> list[dict[str, Any]]:
    return [{**FILE["annotations"][0], **values}]


def test_pictures_lie_beside_the_file_and_classes_are_numbered_as_the_task_names_them(tmp_path: Path) -> None:
    one, two = read_annotated(written(tmp_path), ["cat", "bird", "dog"])
    assert (one.path, two.path) == (tmp_path / "a" / "one.png", tmp_path / "two.png")
    assert one.labels.classes.tolist() == [2]
    assert one.labels.boxes.tolist() == [[1, 2, 4, 6]]
    assert one.labels.keypoints is not None
    assert one.labels.keypoints.tolist() == [[[1, 2], [3, 4]]]
    assert len(two.labels.classes) == 0


def test_runs_of_a_mask_go_down_its_columns(tmp_path: Path) -> None:
    (mask,) = np.asarray(read_annotated(written(tmp_path), ["cat", "dog"])[0].labels.masks)
    assert mask.astype(int).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"images": []}, "images: List should have at least 1 item"),
        ({"categories": [{"id": 4, "name": "dgo"}]}, "category 'dgo' is no label of the task"),
        ({"images": [{"id": 7, "file_name": "../one.png"}]}, "'../one.png' leaves the folder"),
        ({"annotations": changed(image_id=8)}, "image 8, category 4, which the file does not have"),
        ({"images": FILE["images"][:1] * 2}, "2 images have 1 id"),
        ({"annotations": changed(bbox=[1, 2, 3])}, "annotations.0.bbox"),
        ({"annotations": changed(bbox=[1, 2, 3, float("nan")])}, "annotations.0.bbox.3"),
        ({"annotations": changed(segmentation={"size": [2, 1 << 40], "counts": [1]})}, "segmentation.size.1"),
        ({"annotations": changed(segmentation={"size": [2, 3], "counts": [1 << 70]})}, "segmentation.counts.0"),
        ({"annotations": changed(keypoints=[1, 2])}, "x, y and visibility each"),
        ({"annotations": [*changed(), *changed(keypoints=[])]}, "not all the same number of keypoints"),
        ({"annotations": [*changed(), *changed(segmentation=None)]}, "not all the same size"),
        ({"annotations": changed(segmentation={"size": [2, 3], "counts": [9]})}, "runs of 9 pixels in a mask of 2x3"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_with_what_is_wrong(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_annotated(written(tmp_path, **changes), ["cat", "dog"])
    assert said in "\n".join([str(caught.value), *caught.value.details])
    assert str(tmp_path / "labels.json") in str(caught.value)


def test_a_file_that_is_no_json_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UsageError, match="not a COCO annotation file"):
        read_annotated(tmp_path / "x.json", [])
    with pytest.raises(UsageError, match="cannot read"):
        read_annotated(tmp_path / "y.json", [])
