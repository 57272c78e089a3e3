"""What describes chips and boards alike: a file of configs/ or of the user's, constants with their sources as text."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from axtool.config import package_dir
from axtool.errors import plural
from axtool.report.tables import folded, table

SHORT = 1  # names that are shown in the table; longer lists stand below it


def path_or_name(name: str, known: Sequence[str]) -> str:
    """A file of any ending is a path, unless one of the known has its name."""
    return os.path.join(".", name) if name not in known and Path(name).is_file() else name


def file_text(folder: str, name: str, known: Sequence[str]) -> str:
    """The file as it is, comments too: one of `configs/<folder>` where the name is known, else that of the user."""
    path = package_dir("configs") / folder / f"{name}.yaml" if name in known else Path(path_or_name(name, known))
    return path.read_text(encoding="utf-8")


def with_constants(text: str, document: Mapping[str, Any]) -> str:
    """The text, and behind it every constant where one file is shown, or that it has no fault where it is checked."""
    counts = ", ".join(f"{count} {origin}" for origin, count in document["origins"].items())
    total = f"{plural(len(document['constants']), 'constant')}: {counts}"
    if document["action"] == "check":
        return f"{text}\n\nno fault; {total}"
    return f"{text}\n\n{_constants(document['constants'])}\n\n{total}"


def _constants(found: Sequence[Mapping[str, Any]]) -> str:
    """Every constant with its value, unit and source; long lists stand below the table."""
    lists = [constant for constant in found if isinstance(constant["value"], list) and len(constant["value"]) > SHORT]
    lines = [
        (
            constant["path"], _count(constant["value"]) if constant in lists else plain(constant["value"]),
            constant["unit"], ": ".join(filter(None, (constant["origin"], constant["source"]))),
        )
        for constant in found
    ]  # fmt: skip
    said = [folded(f"{constant['path']}: {', '.join(map(str, constant['value']))}") for constant in lists]
    shown = table(("constant", "value", "unit", "provenance"), lines, right=(1,), prose=(3,))
    return "\n".join([shown, *(["", *said] if said else [])])


def _count(values: Sequence[object]) -> str:
    return f"{len(values)} {'names' if isinstance(values[0], str) else 'values'}"


def plain(value: object) -> str:
    """A number with its thousands apart; yes and no as a file writes them; a name, or several."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,.12g}" if isinstance(value, (int, float)) else str(value)
