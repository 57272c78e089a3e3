"""`--task detection:yolo --labels names.txt`  ->  the task that a compiled file keeps, as a zoo config names it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from axtool.config import refuse_special
from axtool.errors import UsageError

HINT = "for example --task classification, detection:yolo, pose:yolo:17 or semantic"


def task_of(task: str | None, labels: str | None) -> dict[str, Any]:
    """The task in plain values; empty without one. Raises UsageError for an unknown kind or decoder."""
    if task is None:
        if labels is not None:
            raise UsageError("--labels wants --task", hint=HINT, code="bad-option")
        return {}
    from axtool.runtime.detect import DECODERS
    from axtool.runtime.task import OBJECTS, WITH_MORE, check_task

    kind, _, rest = task.partition(":")
    decode, _, keypoints = rest.partition(":")
    made: dict[str, Any] = {"kind": kind}
    if decode or kind in OBJECTS:
        made["decode"] = decode
    if decode and kind not in OBJECTS:
        raise UsageError(f"--task {task}: a {kind} has no decoder", hint=HINT, code="bad-task")
    if kind in OBJECTS and not decode:
        hint = ", ".join(f"{kind}:{name}" for name in WITH_MORE.get(kind, DECODERS))
        raise UsageError(f"--task {kind}: want the decoder of the outputs", hint=hint, code="bad-task")
    if kind == "pose" or keypoints:
        if kind != "pose" or not keypoints.isdecimal() or len(keypoints) > 4 or int(keypoints) < 1:
            what = f"--task {task}: " + ("want how many keypoints" if kind == "pose" else f"a {kind} has no keypoints")
            raise UsageError(what, hint=HINT, code="bad-task")
        made["keypoints"] = int(keypoints)
    if labels is not None:
        made["labels"] = labels_of(labels)
    check_task(made)
    return made


def labels_of(text: str) -> list[str]:
    """The lines of a file, or comma-separated names."""
    path = Path(text)
    found = os.path.isfile(text)  # False, too, for a list that is longer than any name of a file
    if path.suffix and "," not in text and not found:
        raise UsageError("no such file of labels", where=text, hint="one label a line, or A,B,C", code="file-not-found")
    if found:
        refuse_special(path)
    else:
        return [name.strip() for name in text.split(",")]
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"not a text file of labels: {error}", where=text, code="file-not-found") from error
