"""What is known of a model's inputs, heads and outputs  ->  the task and the Postamble that it may be for, and why.

What an exporter wrote goes first; else shapes speak. A guess is said to be one: shapes alone prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axtool.errors import UsageError, plural
from axtool.runtime.export import postambles_of, task_of
from axtool.runtime.postamble import Postamble
from axtool.zoo.heads import Heads, fault_of

YOLO, PACKED = "UltralyticsYoloPostamble", "AnchoredYoloPostamble"
BINS = (16, 17, 1)  # `reg_max` of split heads: YOLOv8 to YOLO12, YOLOv6, and heads that regress distances
FEW_VALUES = 4  # of a box; what is beyond are classes


@dataclass(frozen=True)
class Guess:
    """`task` is empty and `postamble` without a kernel where nothing is known. `notes` say what it is from."""

    task: Mapping[str, Any]
    postamble: Postamble
    notes: tuple[str, ...]


def guess(heads: Heads, last_ops: Mapping[str, str], labels: Sequence[str]) -> Guess:
    """`last_ops` is the op that makes each output, `labels` are the user's names of the classes.

    Raises UsageError for another number of names than of classes.
    """
    task = dict(task_of(heads.export, heads.outputs))
    notes = ["task: as the exporter says"] if task else []
    if not task:
        task, notes = _task_by_shape(heads, last_ops)
    postamble = next((one for one in _kernels(heads, task, last_ops) if not fault_of(one, heads)), Postamble())
    if postamble.is_empty:
        notes.append("postamble: no kernel was found to fit; what follows the device runs in onnxruntime")
    else:
        notes.append(f"postamble: {postamble.kernel_name} fits the heads by their shapes")
    if task and labels:
        count = len(task.get("labels", ()))
        if count not in (0, len(labels)):
            raise UsageError(f"--labels: {plural(len(labels), 'name')} for {count} classes", code="bad-option")
        task["labels"] = list(labels)
    return Guess(task, postamble, tuple(notes))


def _task_by_shape(heads: Heads, last_ops: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    shapes = [spec.shape for spec in heads.outputs]
    if len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] == 1 and shapes[0][1] > 1:
        ends = last_ops.get(heads.outputs[0].name, "")
        known = {"kind": "classification", "labels": _numbered(shapes[0][1])}
        return (
            known if ends == "Softmax" else {**known, "softmax": True},
            [f"task: one output of {shapes[0][1]} values is taken for classes; it ends in {ends or 'no known op'}"],
        )
    if len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][0] == 1:
        _, rows, columns = shapes[0]
        cells = sum(info.shape[1] * info.shape[2] for info in _levels(heads))
        if columns == cells and rows > FEW_VALUES and _has_channels(heads, rows - FEW_VALUES):
            classes = rows - FEW_VALUES
            return (
                {"kind": "detection", "decode": "yolo", "labels": _numbered(classes)},
                [f"task: an output of {rows} rows for {columns} cells, and heads of {classes} channels: YOLOv8's way"],
            )
        packed = {info.shape[3] for info in heads.fused}
        if len(packed) == 1 and columns > FEW_VALUES + 1 and packed == {columns * (rows // cells if cells else 0)}:
            classes = columns - FEW_VALUES - 1
            return (
                {"kind": "detection", "decode": "yolo-anchored", "labels": _numbered(classes)},
                [f"task: {rows // cells} anchors a cell with {columns} values each: YOLOv5's way; {PACKED} fits once "
                 "its anchors are written"],
            )  # fmt: skip
    return {}, ["task: nothing is known of the outputs; without one they are shown as numbers"]


def _levels(heads: Heads) -> list[Any]:
    """One head for each size of map."""
    return list({info.shape[1:3]: info for info in heads.fused}.values())


def _has_channels(heads: Heads, count: int) -> bool:
    return any(info.shape[3] == count for info in heads.fused)


def _kernels(heads: Heads, task: Mapping[str, Any], last_ops: Mapping[str, str]) -> list[Postamble]:
    """The kernels to try, in order."""
    tried = list(postambles_of(heads.export))
    classes = len(task.get("labels", ()))
    if task.get("kind") == "classification" and set(last_ops.values()) == {"Softmax"}:
        tried.append(Postamble(fused_kernel="ClassificationPostamble", num_classes=classes))
    if task.get("decode") == "yolo":
        tried += [Postamble(fused_kernel=YOLO, num_classes=classes, dfl_bins=bins) for bins in BINS]
    return [one for one in tried if one.kernel_name != "ClassificationPostamble" or "Softmax" in last_ops.values()]


def _numbered(count: int) -> list[str]:
    return [str(index) for index in range(count)]
