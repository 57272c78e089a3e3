"""`--task detection:yolo --labels names.txt`  ->  the task that a compiled file keeps, as a zoo config names it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from axtool.config import refuse_special
from axtool.errors import UsageError

HINT = "for example --task classification or --task detection:yolo"


def task_of(task: str | None, labels: str | None) -> dict[str, Any]:
    """The task in plain values; empty without one. Raises UsageError for an unknown kind or decoder."""
    if task is None:
        if labels is not None:
            raise UsageError("--labels wants --task", hint=HINT, code="bad-option")
        return {}
    from axtool.runtime.task import check_task

    kind, _, decode = task.partition(":")
    made: dict[str, Any] = {"kind": kind}
    if decode or kind == "detection":
        made["decode"] = decode
    if kind == "classification" and decode:
        raise UsageError(f"--task {task}: a classification has no decoder", hint=HINT, code="bad-task")
    if kind == "detection" and not decode:
        from axtool.runtime.detect import DECODERS

        hint = "detection:" + ", detection:".join(DECODERS)
        raise UsageError("--task detection: want the decoder of the outputs", hint=hint, code="bad-task")
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
