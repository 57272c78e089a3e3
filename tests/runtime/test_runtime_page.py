"""The examples of the pages on pipelines run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = [
    (page, source)
    for page in ("runtime.md", "sources.md", "postambles.md", "scheduler.md")
    for source in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize(("page", "source"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_pages_runs(page: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    exec(compile(source, page, "exec"), {"__name__": __name__})
