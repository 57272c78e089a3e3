"""What `axzoo build` made  ->  a JSON document and text: the compile summary, and the expected figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from axtool.artefact.axm import Artefact
from axtool.report.compiled import compiled_document, compiled_text
from axtool.report.units import header


def built_document(
    name: str,
    artefact: Artefact,
    path: Path,
    recipe: Path,
    rows: Sequence[Mapping[str, Any]] | None,
    *,
    elapsed_s: float = 0.0,
) -> dict[str, Any]:
    """`recipe` is the file that runs the model. `expected` is None when nothing was verified.

    One figure that is not met makes the status failed.
    """
    missed = [row for row in rows or () if not row["met"]]
    return {
        **compiled_document(artefact, path, elapsed_s=elapsed_s),
        **header("axzoo build", "failed" if missed else "ok"),
        "name": name,
        "recipe": str(recipe),
        "expected": None if rows is None else [dict(row) for row in rows],
    }


def built_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    lines = [compiled_text(dict(document)), f"  recipe      python {document['recipe']} --run PICTURE"]
    for row in document["expected"] or ():
        figure = "not measured" if row["measured"] is None else f"{row['measured']:.4g}"
        mark = "met" if row["met"] else "MISSED"
        lines.append(f"  {row['metric']:<12} {figure}, want at least {row['minimum']:g}: {mark}")
    return "\n".join(lines)
