"""What is known of a model's heads and outputs  ->  the task and the Postamble that it may be for, and why.

What an exporter wrote goes first; else shapes speak, by one rule for each family of models. A guess is said to be one:
shapes alone prove nothing, and `axzoo eval` holds a kernel against onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axtool.errors import UsageError, plural
from axtool.runtime.export import postambles_of, task_of
from axtool.runtime.postamble import Postamble
from axtool.zoo.heads import Heads, fault_of

YOLO, PACKED = "UltralyticsYoloPostamble", "AnchoredYoloPostamble"
BINS = (16, 17, 1)  # `reg_max` of split heads: YOLOv8 to YOLO12, YOLOv6, and heads that regress distances
BOX = 4  # values of a box


@dataclass(frozen=True)
class Guess:
    """`task` is empty and `postamble` without a kernel where nothing is known. `notes` say what it is from."""

    task: Mapping[str, Any]
    postamble: Postamble
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Family:
    """What a rule finds: the task, the kernels to try in order, and by what it knows the family."""

    task: dict[str, Any]
    kernels: Sequence[Postamble]
    note: str


def guess(heads: Heads, labels: Sequence[str]) -> Guess:
    """`labels` are the user's names of the classes. Raises UsageError for another number of them than of classes."""
    known = task_of(heads.export, heads.outputs)
    family = next((found for rule in RULES if (found := rule(heads)) is not None), None)
    task = dict(known or (family.task if family else {}))
    if known:
        notes = ["task: as the exporter says"]
    else:
        unknown = "nothing is known of the outputs; they are shown as numbers"
        notes = [f"task: {family.note if family else unknown}"]
    tried = [*postambles_of(heads.export), *(family.kernels if family else ())]
    proper = [one for one in tried if one.kernel_name != "ClassificationPostamble" or _ends_in_softmax(heads)]
    postamble = next((one for one in proper if not fault_of(one, heads)), Postamble())
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


def _classifier(heads: Heads) -> _Family | None:
    """One list of values."""
    shapes = _shapes(heads)
    if len(shapes) != 1 or len(shapes[0]) != 2 or shapes[0][0] != 1 or shapes[0][1] < 2:
        return None
    count, softmax = shapes[0][1], _ends_in_softmax(heads)
    task = {"kind": "classification", "labels": _numbered(count), **({} if softmax else {"softmax": True})}
    note = f"one output of {count} values is taken for classes, {'chances' if softmax else 'no chances yet'}"
    return _Family(task, [Postamble(fused_kernel="ClassificationPostamble", num_classes=count)], note)


def _split_head(heads: Heads) -> _Family | None:
    """YOLOv8 and its kin: (1, 4 + classes + more, cells) of separate heads for boxes, classes and more."""
    shapes, counts, cells = _shapes(heads), _channels(heads), _cells(heads)
    if not shapes or len(shapes[0]) != 3 or shapes[0][0] != 1 or shapes[0][2] != cells:
        return None
    beyond = shapes[0][1] - BOX
    yolo: dict[str, Any] = {"decode": "yolo"}
    if len(shapes) == 2 and len(shapes[1]) == 4 and beyond - shapes[1][1] in counts:
        classes, masks = beyond - shapes[1][1], shapes[1][1]
        task = {"kind": "segmentation", **yolo, "classes": classes, "coefficients": masks}
        more = f"{masks} values for masks"
    elif len(shapes) > 1:
        return None
    elif beyond in counts:
        classes, task, more = beyond, {"kind": "detection", **yolo}, "nothing more"
    elif "Cos" in heads.tail_ops and beyond - 1 in counts:
        classes, task, more = beyond - 1, {}, "an angle; no task shows turned boxes, op.decode_obb does"
    else:
        points = max((n for n in counts if n % 3 == 0 and beyond - n in counts), default=0)
        if not points:
            return None
        classes = beyond - points
        task = {"kind": "pose", **yolo, "classes": classes, "keypoints": points // 3}
        more = f"{points // 3} keypoints"
    labels = {"labels": _numbered(classes)} if task else {}
    note = f"{cells} cells with a box, {plural(classes, 'class', 'classes')} and {more}: YOLOv8's way"
    tried = [Postamble(fused_kernel=YOLO, num_classes=classes, dfl_bins=bins) for bins in BINS]
    return _Family({**task, **labels}, tried, note)


def _yolox(heads: Heads) -> _Family | None:
    """(1, cells, 5 + classes) of heads for boxes, objectness and classes."""
    shapes, cells = _shapes(heads), _cells(heads)
    if len(shapes) != 1 or len(shapes[0]) != 3 or shapes[0][:2] != (1, cells):
        return None
    classes = shapes[0][2] - BOX - 1
    if _channels(heads) != {BOX, 1, classes}:
        return None
    raw = "Exp" not in heads.tail_ops
    if raw:
        width, height = heads.size
        strides = sorted(height // info.shape[1] for info in _levels(heads))
        task = {"kind": "detection", "decode": "yolox", "size": [height, width], "strides": strides}
    else:
        task = {"kind": "detection", "decode": "yolo-anchored"}
    form = {"form": "yolox-raw"} if raw else {}
    kernel = Postamble(fused_kernel=YOLO, num_classes=classes, has_objectness=True, **form)
    kinds = plural(classes, "class", "classes")
    note = f"{cells} cells with {'a raw' if raw else 'a'} box, objectness and {kinds}: YOLOX's way"
    return _Family({**task, "labels": _numbered(classes)}, [kernel], note)


def _packed_head(heads: Heads) -> _Family | None:
    """YOLOv5 and YOLOv7: (1, anchors, 5 + classes) of one head a level. The anchors are in no shape."""
    shapes, cells, counts = _shapes(heads), _cells(heads), _channels(heads)
    if len(shapes) != 1 or len(shapes[0]) != 3 or not cells or len(counts) != 1:
        return None
    _, rows, values = shapes[0]
    classes = values - BOX - 1
    if classes < 1 or counts != {values * (rows // cells)}:
        return None
    note = f"{rows // cells} anchors a cell with {values} values each: YOLOv5's way; {PACKED} wants its anchors"
    return _Family({"kind": "detection", "decode": "yolo-anchored", "labels": _numbered(classes)}, [], note)


def _retina_face(heads: Heads) -> _Family | None:
    """Boxes, chances and five landmarks of the same priors."""
    if sorted(shape[2] for shape in _shapes(heads) if len(shape) == 3) != [2, 4, 10] or len(heads.outputs) != 3:
        return None
    task = {"kind": "pose", "decode": "retinaface", "keypoints": 5, "size": list(heads.size[::-1]), "labels": ["face"]}
    kernel = Postamble(fused_kernel="RetinaFacePostamble")
    return _Family(task, [kernel], "boxes, chances and five landmarks: RetinaFace's way")


def _label_map(heads: Heads) -> _Family | None:
    """The class of every pixel, as whole numbers."""
    if len(heads.outputs) != 1 or "int" not in heads.outputs[0].dtype or len(heads.fused) != 1:
        return None
    kernel = Postamble(fused_kernel="SegFormerPostamble", num_classes=heads.fused[0].shape[3])
    return _Family({}, [kernel], "an output of whole numbers is taken for the class of each pixel, which no task shows")


RULES: tuple[Callable[[Heads], _Family | None], ...] = (
    _classifier, _split_head, _yolox, _packed_head, _retina_face, _label_map,
)  # fmt: skip


def _shapes(heads: Heads) -> list[tuple[int, ...]]:
    return [tuple(spec.shape) for spec in heads.outputs]


def _channels(heads: Heads) -> set[int]:
    return {info.shape[3] for info in heads.fused}


def _levels(heads: Heads) -> list[Any]:
    """One head for each size of map; those that have masks' prototypes or classes alone are of a size of their own."""
    return list({info.shape[1:3]: info for info in heads.fused}.values())


def _cells(heads: Heads) -> int:
    """Places of all maps that more than one head, or every head, is of."""
    sizes = [info.shape[1:3] for info in heads.fused]
    shared = {size for size in sizes if sizes.count(size) > 1} or set(sizes)
    return sum(height * width for height, width in shared)


def _ends_in_softmax(heads: Heads) -> bool:
    return "Softmax" in heads.last_ops.values()


def _numbered(count: int) -> list[str]:
    return [str(index) for index in range(count)]
