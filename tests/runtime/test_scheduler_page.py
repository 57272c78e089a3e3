"""Every sentence of the vendor's page on its scheduler has a test here that states it.

`scheduler_page.yaml` has, in the order of the page, the first words of each sentence and the tests that hold it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shared_data import SHARED

HERE = Path(__file__).resolve().parent
PAGE = SHARED / "seeds" / "scheduler.txt"
ENTRIES: list[dict[str, Any]] = yaml.safe_load((HERE / "scheduler_page.yaml").read_text(encoding="utf-8"))
# A sentence begins behind a full stop, a colon and the like, with a capital or a mark of the page.
BETWEEN_SENTENCES = re.compile(r"(?<=[.:?!])\s+(?=[A-Z`*•(])")
WITH_TESTS = [entry for entry in ENTRIES if "tests" in entry]


def sentences() -> list[str]:
    """The sentences and headings of the page, white space made one blank."""
    paragraphs = re.split(r"\n\s*\n", PAGE.read_text(encoding="utf-8"))
    return [s for paragraph in paragraphs for s in BETWEEN_SENTENCES.split(" ".join(paragraph.split())) if s]


@cache
def names_in(file: str) -> frozenset[str]:
    """The functions of a file below tests/."""
    tree = ast.parse((HERE.parent / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not at hand")
def test_every_sentence_of_the_page_is_listed_in_its_order() -> None:
    found = sentences()
    assert len(found) == len(ENTRIES)
    wrong = [(e["says"], s) for e, s in zip(ENTRIES, found, strict=True) if not s.startswith(e["says"])]
    assert wrong == []


def test_every_sentence_has_tests_or_is_a_heading_or_an_example() -> None:
    assert [entry["says"] for entry in ENTRIES if not entry.get("tests") and "is" not in entry] == []


@pytest.mark.parametrize("entry", WITH_TESTS, ids=[entry["says"] for entry in WITH_TESTS])
def test_the_tests_of_a_sentence_are_there(entry: dict[str, Any]) -> None:
    missing = [name for name in entry["tests"] if name.split("::")[1] not in names_in(name.split("::")[0])]
    assert missing == []
