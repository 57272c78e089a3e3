"""Outputs and the task that the model was made for  ->  what was seen: classes with scores, or objects with boxes.

A task is plain values from a zoo config, stored in the .axm: `kind` (classification or detection), `labels`, and for
a detector `decode`, `threshold` and `iou`; `keep` lists the labels to show where not all are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from axtool.artefact.manifest import TaskEntry
from axtool.errors import UsageError, nearest
from axtool.inputs.prepare import Placement
from axtool.runtime.boxes import nms
from axtool.runtime.detect import DECODERS, label
from axtool.types import TensorSpec

TOP = 5
KINDS = ("classification", "detection")


def check_task(task: Mapping[str, Any]) -> None:
    """Raise UsageError for a task that `interpret` could not read."""
    kind, decode = str(task.get("kind")), str(task.get("decode"))
    if kind not in KINDS:
        raise UsageError(f"there is no task '{kind}'", hint=nearest(kind, KINDS), code="bad-task")
    if kind == "detection" and decode not in DECODERS:
        hint = nearest(decode, list(DECODERS))
        raise UsageError(f"there is no decoder '{decode}'", hint=hint, code="bad-task")
    try:
        TaskEntry.model_validate(dict(task))
    except ValidationError as error:
        faults = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors()]
        raise UsageError(f"task: {'; '.join(faults)}", code="bad-task", details=faults) from error
    labels = list(task.get("labels", ()))
    for name in task.get("keep") or ():
        if name not in labels:
            raise UsageError(f"keep: '{name}' is no label", hint=nearest(name, labels), code="bad-task")


def completed(task: Mapping[str, Any], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> dict[str, Any]:
    """A task with what its decoder needs from the model, where it does not say it: the input's size, the outputs."""
    made = dict(task)
    if made.get("decode") == "yolox" and not made.get("size") and inputs and len(inputs[0].shape) == 4:
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


def _objects(
    task: Mapping[str, Any], outputs: Mapping[str, NDArray[Any]], placement: Placement | None
) -> dict[str, Any]:
    threshold = float(task.get("threshold", 0.3))
    boxes, scores, classes = DECODERS[task["decode"]](task, outputs, threshold)
    if task.get("keep"):
        labels = task.get("labels", ())
        wanted = np.isin(classes, [i for i, name in enumerate(labels) if name in task["keep"]])
        boxes, scores, classes = boxes[wanted], scores[wanted], classes[wanted]
    kept = nms(boxes, scores, classes, float(task.get("iou", 0.5)))
    boxes, scores, classes = boxes[kept], scores[kept], classes[kept]
    if placement is not None and len(boxes):
        height, width = placement.image_size
        corners = placement.to_image(boxes.reshape(-1, 2, 2))
        boxes = np.clip(corners, 0, (width, height)).reshape(-1, 4)
    rows = [
        {
            "label": label(task.get("labels", ()), int(c)),
            "index": int(c),
            "score": float(s),
            "box": [round(float(v), 3) for v in box],
        }
        for box, s, c in zip(boxes, scores, classes, strict=True)
    ]
    return {"kind": "detection", "threshold": threshold, "detections": rows}


def draw(picture: Path, result: Mapping[str, Any], suffix: str = ".png") -> bytes:
    """The picture as bytes of a .png or .jpg, with boxes and labels, or the best class in the corner."""
    import cv2

    from axtool.inputs.images import read_image

    image = np.ascontiguousarray(read_image(picture)[:, :, ::-1])
    short = min(image.shape[:2])
    if short < 480:  # labels need pixels to be read
        factor = -(-480 // short)
        image = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_NEAREST)
    else:
        factor = 1
    thick = max(1, min(image.shape[:2]) // 320)
    for row in result.get("detections", ()):
        colour = _COLOURS[row["index"] % len(_COLOURS)]
        x1, y1, x2, y2 = (round(v * factor) for v in row["box"])
        cv2.rectangle(image, (x1, y1), (x2, y2), colour, thick)
        _write(image, f"{row['label']} {row['score']:.2f}", (x1, y1), colour, thick)
    for row in result.get("classes", ())[:1]:
        _write(image, f"{row['label']} {row['score']:.2f}", (0, 0), _COLOURS[0], thick)
    return bytes(cv2.imencode(suffix, image)[1].tobytes())


_COLOURS = (
    (0, 158, 230), (178, 114, 0), (115, 158, 0), (66, 228, 240), (167, 121, 204), (233, 180, 86), (0, 94, 213),
)  # fmt: skip


def _write(image: NDArray[np.uint8], text: str, at: tuple[int, int], colour: tuple[int, int, int], thick: int) -> None:
    """Text on a filled box above `at`, or below where there is no room."""
    import cv2

    font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.5 * thick
    (width, height), base = cv2.getTextSize(text, font, scale, thick)
    x, y = max(0, min(at[0], image.shape[1] - width)), at[1]
    top = y - height - base if y >= height + base else y
    cv2.rectangle(image, (x, top), (x + width, top + height + base), colour, -1)
    cv2.putText(image, text, (x, top + height), font, scale, (0, 0, 0), thick, cv2.LINE_AA)
