"""Pictures through an entry of the zoo  ->  a JSON document and text, a picture in the words of `axtool run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from axtool.report.results import run_document, run_text
from axtool.report.units import header
from axtool.zoo.loaded import LoadedEntry, Seen

KEPT = ("outputs", "result", "time")  # of the document of `axtool run`


def ran_document(
    loaded: LoadedEntry, axm: Path, engine: str, rows: Sequence[tuple[Path, Seen, Path | None]], modelled_ms: float
) -> dict[str, Any]:
    """`rows` are pictures, what was seen, and the file with what was found drawn on, where one was written."""
    name, postamble = loaded.entry.config.name, loaded.model.postamble
    pictures = []
    for path, seen, drawn in rows:
        times = {"prepare": seen.prepare_s, "frame": seen.frame_s}
        one = run_document(name, engine, seen.outputs, times, modelled_ms, seen.result)
        pictures.append({"picture": str(path), "drawn": drawn and str(drawn), **{key: one[key] for key in KEPT}})
    return {
        **header("axzoo run"),
        "name": name,
        "licence": loaded.entry.config.licence,
        "axm": str(axm),
        "engine": engine,
        "postamble": None if postamble is None or postamble.is_empty else postamble.to_dict(),
        "pictures": pictures,
    }


def ran_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    parts = []
    for row in document["pictures"]:
        head = [row["picture"]] if len(document["pictures"]) > 1 else []
        parts.append("\n".join([*head, run_text({**row, "engine": document["engine"], "tail": None})]))
    return "\n\n".join(parts)
