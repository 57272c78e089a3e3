"""What the exporter wrote about a model: `metadata_props` of Ultralytics, and of whoever writes the same keys.

The values are Python literals in text (`names`: "{0: 'person', 1: 'bicycle'}"), as
`ultralytics.engine.exporter.Exporter.metadata` writes them. They are read as literals and never run; what does not read
is left out, since a model compiles without them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import onnx
from pydantic import ValidationError

from axtool.artefact.manifest import EXPORT_TASKS, ExportEntry

MAX_TEXT = 1 << 20  # characters of one value; ImageNet's 1000 names are 30,000
LITERALS = ("names", "stride", "imgsz", "kpt_shape")


def export_of(proto: onnx.ModelProto) -> tuple[dict[str, Any], str]:
    """(the fields of ExportEntry that are there, a note of what did not read); empty where no known task is named."""
    texts = {entry.key: entry.value for entry in proto.metadata_props if isinstance(entry.key, str)}
    if texts.get("task") not in EXPORT_TASKS:
        return {}, ""
    made: dict[str, Any] = {key: texts[key] for key in ("task", "license", "description") if key in texts}
    unread = []
    for key in LITERALS:
        if key in texts:
            try:
                made[key] = _shaped(key, _literal(texts[key]))
                ExportEntry.model_validate(made)
            except (ValueError, ValidationError):
                made.pop(key, None)
                unread.append(key)
    try:
        ExportEntry.model_validate(made)
    except ValidationError:
        return {}, "the exporter's metadata does not read and is left out"
    note = f"of the exporter's metadata {', '.join(unread)} does not read and is left out" if unread else ""
    return made, note


def _literal(text: Any) -> Any:
    """The value of a Python literal. Raises ValueError."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise ValueError("too long, or no text")
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _shaped(key: str, value: Any) -> Any:
    """`names` as a list by class number; sizes as (height, width)."""
    if key == "names":
        if isinstance(value, Mapping):
            if sorted(value, key=repr) != sorted(range(len(value)), key=repr):
                raise ValueError("class numbers with gaps")
            return [value[index] for index in range(len(value))]
        return list(value) if isinstance(value, (list, tuple)) else value
    if key == "imgsz" and isinstance(value, int):
        return [value, value]
    return list(value) if isinstance(value, tuple) else value
