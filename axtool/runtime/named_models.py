"""The name of a model  ->  its compiled file, by whoever offers models in this environment.

Who does registers a function from a name to a path, or to None for a name that it does not know, as an entry point of
the group `axtool.models`; the zoo is one. It may say which it knows, by a method `names`. So the runtime loads by name
without knowing a compiler or a zoo.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from axtool.errors import UsageError, nearest

GROUP = "axtool.models"


def named_model(name: str) -> Path:
    """The file of a name. Raises UsageError where nobody knows it, and what the one who builds it raises."""
    offers, known = metadata.entry_points(group=GROUP), list[str]()
    for offer in offers:
        function = offer.load()
        found: Path | None = function(name)
        if found is not None:
            return found
        known += function.names() if hasattr(function, "names") else ()
    asked = ", ".join(sorted(offer.name for offer in offers)) or "nobody offers models by name here"
    raise UsageError(
        f"no such file, and no model of this name (asked: {asked})",
        where=name,
        hint=f"check the path; {nearest(name, known) or '`axzoo list` shows the names of the zoo'}",
        code="file-not-found",
    )
