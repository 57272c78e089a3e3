"""The accuracy of a model of the zoo, three times  ->  a JSON document and text beside what its config expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from axtool.errors import plural
from axtool.report.tables import table
from axtool.report.units import header
from axtool.zoo.catalogue import Entry


@dataclass(frozen=True)
class Evaluated:
    """One way to run the model: in `float` or `int8`; the outputs made by `onnxruntime`, or by a `kernel` of a name.

    `figures` are by metric, over so many pictures; `expected` those of them that the config asks for, with whether each
    is met.
    """

    numbers: str
    tail: str
    pictures: int
    figures: Mapping[str, float]
    expected: Sequence[Mapping[str, Any]]


def eval_document(
    entry: Entry, axm: Path, rows: Sequence[Evaluated], *, labelled: bool, limit: int | None
) -> dict[str, Any]:
    """A figure that the config expects and that is missed makes the status failed. `labelled` says what the figures are
    against. A figure that is not of these pictures is missed too: nothing says that it is reached.
    """
    listed: list[dict[str, Any]] = [
        {
            "numbers": row.numbers,
            "tail": row.tail,
            "pictures": row.pictures,
            "figures": {name: _finite(value) for name, value in row.figures.items()},
            "expected": [{**item, "measured": _finite(item["measured"])} for item in row.expected],
        }
        for row in rows
    ]
    missed = any(not item["met"] for row in listed for item in row["expected"])
    return {
        **header("axzoo eval", "failed" if missed else "ok"),
        "name": entry.config.name,
        "licence": entry.config.licence,
        "axm": str(axm),
        "against": "labels" if labelled else "float",
        "limit": limit,
        "rows": listed,
    }


def eval_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    rows = document["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["figures"]))
    against = "against their labels" if document["against"] == "labels" else "against the float model in onnxruntime"
    head = f"{document['name']}: {plural(rows[0]['pictures'], 'picture')} {against}, measured"
    cells = []
    for row in rows:
        figures = row["figures"]
        cells.append((f"{row['numbers']}, {row['tail']}", *(_figure(figures, name) for name in names)))
    lines = [head, "", table(("model, tail", *names), cells, right=tuple(range(1, len(names) + 1))), ""]
    wanted: dict[str, list[str]] = {}
    for row in rows:
        for item in row["expected"]:
            mark = "met" if item["met"] else "MISSED"
            wanted.setdefault(f"{item['metric']} at least {item['minimum']:g}", []).append(f"{mark} by {row['tail']}")
    lines += [f"expected {what}: {', '.join(marks)}" for what, marks in wanted.items()]
    unjudged = "the config expects no figure"
    if document["limit"] is not None:
        unjudged = "not judged: the figures that the config expects are of all pictures; leave out --limit"
    return "\n".join(lines if wanted else [*lines, unjudged])


def _figure(figures: Mapping[str, float | None], name: str) -> str:
    if name not in figures:
        return "-"
    value = figures[name]
    return "exact" if value is None else f"{value:.4g}"


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and isfinite(value) else None
