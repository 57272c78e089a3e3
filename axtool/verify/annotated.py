"""A COCO annotation file  ->  its pictures with their labels, as `axtool.verify.labelled` reads them.

Pictures lie where `file_name` says, relative to the file. A category's name is a label of the task. Boxes are
`[x, y, width, height]` in pixels of the picture; `keypoints` are triples x, y, visibility; `segmentation` is
`{"size": [rows, columns], "counts": [...]}` with uncompressed runs down the columns, over the whole picture at a
resolution that may be less than its own, the same for all masks of a picture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from axtool.config import refuse_special
from axtool.errors import UsageError, nearest, plural
from axtool.runtime.masks import from_run_lengths
from axtool.verify.labelled import Labels


class _Part(BaseModel):
    """COCO has keys that say nothing here: those are left."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Image(_Part):
    id: int
    file_name: str


class _Category(_Part):
    id: int
    name: str


_Side = Annotated[int, Field(gt=0, le=1 << 14)]


class _Mask(_Part):
    size: tuple[_Side, _Side]
    counts: list[Annotated[int, Field(ge=0, le=1 << 28)]]


class _Annotation(_Part):
    image_id: int
    category_id: int
    bbox: Annotated[list[float], Field(min_length=4, max_length=4)]
    keypoints: list[float] = []
    segmentation: _Mask | None = None


class _File(_Part):
    images: Annotated[list[_Image], Field(min_length=1)]
    categories: list[_Category]
    annotations: list[_Annotation]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture and what is in it."""

    path: Path
    labels: Labels


def read_annotated(path: Path, names: Sequence[str]) -> tuple[Picture, ...]:
    """The pictures of a file in its order, with the classes numbered as `names`.

    Raises UsageError for what is not such a file, a category that is not among the names, a picture that is outside
    the file's folder, and annotations that contradict each other.
    """
    refuse_special(path)
    try:
        file = _File.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    except (ValueError, RecursionError) as error:
        details = _faults(error) if isinstance(error, ValidationError) else [str(error)]
        raise UsageError(
            "not a COCO annotation file", where=str(path), details=details, code="bad-annotations"
        ) from error
    classes = {category.id: _class(category, names, path) for category in file.categories}
    if len(ids := {image.id for image in file.images}) < len(file.images):
        what = f"{len(file.images)} images have {plural(len(ids), 'id')}"
        raise UsageError(what, where=str(path), hint="give each its own", code=_BAD)
    by_image: dict[int, list[_Annotation]] = {image.id: [] for image in file.images}
    for annotation in file.annotations:
        if annotation.image_id not in by_image or annotation.category_id not in classes:
            what = f"image {annotation.image_id}, category {annotation.category_id}"
            raise UsageError(f"an annotation of {what}, which the file does not have", where=str(path), code=_BAD)
        by_image[annotation.image_id].append(annotation)
    return tuple(
        Picture(_inside(image, path), _labels(image, by_image[image.id], classes, path)) for image in file.images
    )


_BAD = "bad-annotations"


def _faults(error: ValidationError) -> list[str]:
    shown = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors()[:5]]
    more = error.error_count() - len(shown)
    return [*shown, *([f"and {plural(more, 'fault')} more"] if more > 0 else [])]


def _class(category: _Category, names: Sequence[str], path: Path) -> int:
    if category.name not in names:
        what = f"category '{category.name}' is no label of the task"
        raise UsageError(what, where=str(path), hint=nearest(category.name, names), code=_BAD)
    return list(names).index(category.name)


def _inside(image: _Image, path: Path) -> Path:
    folder = path.parent.resolve()
    found = (folder / image.file_name).resolve()
    if not found.is_relative_to(folder):
        raise UsageError(f"'{image.file_name}' leaves the folder {folder.name}", where=str(path), code=_BAD)
    return found


def _labels(image: _Image, rows: Sequence[_Annotation], classes: Mapping[int, int], path: Path) -> Labels:
    boxes = np.array([row.bbox for row in rows], np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    numbers = np.array([classes[row.category_id] for row in rows], np.int64)
    try:
        return Labels(boxes, numbers, _keypoints(rows), _masks(rows))
    except ValueError as error:
        raise UsageError(f"{image.file_name}: {error}", where=str(path), code=_BAD) from error


def _keypoints(rows: Sequence[_Annotation]) -> NDArray[np.float64] | None:
    if not any(row.keypoints for row in rows):
        return None
    if len({len(row.keypoints) for row in rows}) > 1 or len(rows[0].keypoints) % 3:
        raise ValueError("its objects have not all the same number of keypoints, x, y and visibility each")
    return np.array([row.keypoints for row in rows], np.float64).reshape(len(rows), -1, 3)[:, :, :2]


def _masks(rows: Sequence[_Annotation]) -> NDArray[np.bool_] | None:
    masks = [row.segmentation for row in rows]
    if not any(masks):
        return None
    if len({mask.size if mask else None for mask in masks}) > 1:
        raise ValueError("its masks have not all the same size")
    return np.stack([from_run_lengths(mask.counts, mask.size) for mask in masks if mask])
