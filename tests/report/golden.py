"""Text that a person approved: `check` compares it with a file beside this one.

    AXTOOL_UPDATE_GOLDEN=1 pytest tests/report

writes the files anew; what changed is then read in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden_text"


def check(name: str, text: str) -> None:
    """The text is that of the file `name`, line by line."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("AXTOOL_UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert (text + "\n").splitlines() == path.read_text(encoding="utf-8").splitlines()
