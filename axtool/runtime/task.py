"""Outputs and the task that the model was made for  ->  what was seen: classes with scores, objects with boxes, or the
classes of all pixels.

A task is plain values from a zoo config, stored in the .axm: `kind` (a classification; objects: a detection, a pose, a
segmentation; or the label of every pixel, semantic), `labels`, and for objects `decode`, `threshold` and `iou`; `keep`
lists the labels to show where not all are wanted, `keypoints` is how many a pose has, `coefficients` how many a mask
is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from axtool.artefact.manifest import TaskEntry
from axtool.errors import UsageError, nearest
from axtool.inputs.prepare import Placement
from axtool.plain_faults import faults_of
from axtool.runtime.detect import DECODERS, label
from axtool.runtime.label_map import THRESHOLD, first_map, label_map, over_picture, shares
from axtool.runtime.masks import run_lengths
from axtool.runtime.objects import objects_of
from axtool.types import TensorSpec

TOP = 5
OBJECTS = ("detection", "pose", "segmentation")
KINDS = ("classification", *OBJECTS, "semantic")
WITH_MORE = {  # decoders that give keypoints, and masks
    "pose": ("yolo", "yolo-anchored", "retinaface"), "segmentation": ("yolo", "yolo-anchored", "yolact"),
}  # fmt: skip
_SIZED = ("yolox", "retinaface", "ssd", "yolact", "detr")  # decoders that want the size of the model's input


def check_task(task: Mapping[str, Any]) -> None:
    """Raise UsageError for a task that `interpret` could not read."""
    kind, decode = str(task.get("kind")), str(task.get("decode"))
    if kind not in KINDS:
        raise UsageError(f"there is no task '{kind}'", hint=nearest(kind, KINDS), code="bad-task")
    if kind in OBJECTS and decode not in DECODERS:
        hint = nearest(decode, list(DECODERS))
        raise UsageError(f"there is no decoder '{decode}'", hint=hint, code="bad-task")
    if decode not in WITH_MORE.get(kind, (decode,)):
        hint = f"those that do: {', '.join(WITH_MORE[kind])}"
        raise UsageError(f"decoder '{decode}' gives no {kind}", hint=hint, code="bad-task")
    if kind == "pose" and not task.get("keypoints"):
        raise UsageError("a pose wants `keypoints`, how many there are", hint="keypoints: 17", code="bad-task")
    try:
        TaskEntry.model_validate(dict(task))
    except ValidationError as error:
        faults = faults_of(error, TaskEntry)
        raise UsageError(f"task: {'; '.join(faults)}", code="bad-task", details=faults) from error
    labels = list(task.get("labels", ()))
    for name in task.get("keep") or ():
        if name not in labels:
            raise UsageError(f"keep: '{name}' is no label", hint=nearest(name, labels), code="bad-task")


def completed(task: Mapping[str, Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> dict[str, Any]:
    """A task with what its decoder needs from the model, where it does not say it: the input's size, the outputs."""
    made = dict(task)
    sized = made.get("decode") in _SIZED or made.get("kind") == "segmentation"
    if sized and not made.get("size") and inputs and len(inputs[0].shape) == 4:
        _, a, b, c = inputs[0].shape
        made["size"] = [b, c] if a in (1, 3) else [a, b]
    if made.get("decode") == "centerface" and not made.get("outputs"):
        made["outputs"] = [spec.name for spec in outputs]
    return made


def interpret(
    task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]], placement: Placement | None = None
) -> dict[str, Any]:
    """The result as plain values. Boxes are in pixels of the image where `placement` is known, else of the input."""
    check_task(task)
    try:
        if task["kind"] == "classification":
            return _classes(task, next(iter(outputs.values())))
        if task["kind"] == "semantic":
            return _pixels(task, outputs)
        return _objects(task, outputs, placement)
    except (KeyError, IndexError, ValueError) as error:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
        what = f"the outputs are not those of a {task.get('decode', task['kind'])} model: {shapes}"
        raise UsageError(what, hint="change the task, or use -o for the arrays", code="bad-task") from error


def _classes(task: Mapping[str, Any], output: NDArray[Any]) -> dict[str, Any]:
    scores = output.reshape(-1).astype(np.float64)
    if task.get("softmax", False):
        scores = np.exp(scores - scores.max())
        scores /= scores.sum()
    order = np.argsort(-scores, kind="stable")[: min(TOP, scores.size)]
    rows = [{"index": int(i), "label": label(task.get("labels", ()), int(i)), "score": float(scores[i])} for i in order]
    return {"kind": "classification", "classes": rows}


def _pixels(task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    labels = labels_of(task, outputs)
    return {"kind": "semantic", "size": list(labels.shape), "classes": shares(labels, task.get("labels", ()))}


def labels_of(task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The label of every pixel (h, w) of a semantic segmenter. Raises ValueError where the output is no such map."""
    return label_map(outputs[first_map(task, outputs)], **map_settings(task))


def labels_on_picture(
    task: Mapping[str, Any] | None, outputs: Mapping[str, NDArray[Any]], placement: Placement | None
) -> NDArray[np.int64] | None:
    """What `draw` colours a picture with: the label of each of its pixels. None for other tasks, and no picture."""
    if task is None or task.get("kind") != "semantic" or placement is None:
        return None
    return over_picture(labels_of(task, outputs), placement)


def map_settings(task: Mapping[str, Any]) -> dict[str, Any]:
    """What a task says of its map: the threshold of a single chance, and how many classes there are."""
    threshold = task.get("mask_threshold")
    return {"threshold": THRESHOLD if threshold is None else threshold, "classes": len(task.get("labels", ())) or None}


def _objects(
    task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]], placement: Placement | None
) -> dict[str, Any]:
    threshold = float(task.get("threshold", 0.3))
    found = objects_of(task, outputs, placement, threshold=threshold)
    rows: list[dict[str, Any]] = [
        {"label": label(task.get("labels", ()), int(c)), "index": int(c), "score": float(s), "box": _rounded(box)}
        for box, s, c in zip(found.boxes, found.scores, found.classes, strict=True)
    ]
    if found.keypoints is not None:
        for row, points in zip(rows, found.keypoints, strict=True):
            row["keypoints"] = [_rounded(point) for point in points]
    if found.masks is not None:
        for row, mask in zip(rows, found.masks, strict=True):
            row["mask"] = {"size": list(mask.shape), "counts": run_lengths(mask)}
    return {"kind": task["kind"], "threshold": threshold, "detections": rows}


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 3) for value in values]
