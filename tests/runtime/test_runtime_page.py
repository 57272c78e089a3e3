"""The examples of docs/runtime.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "runtime.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("source", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(source: str) -> None:
    exec(compile(source, str(PAGE), "exec"), {"__name__": __name__})
