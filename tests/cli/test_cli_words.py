"""The lines that a person reads of an error."""

from __future__ import annotations

from axtool.cli.door import words
from axtool.errors import AxError


def test_a_detail_that_repeats_itself_is_read_once() -> None:
    error = AxError("three faults", code="bad", details=["a", "b", "a"], hint="mend them")
    assert words(error) == ["error: three faults [bad]", "  - a", "  - b", "hint: mend them"]
