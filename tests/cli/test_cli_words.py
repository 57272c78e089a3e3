"""The lines that a person reads of an error."""

from __future__ import annotations

import pytest

from axtool.cli.door import words
from axtool.errors import AxError, located, plural


def test_a_detail_that_repeats_itself_is_read_once() -> None:
    error = AxError("three faults", code="bad", details=["a", "b", "a"], hint="mend them")
    assert words(error) == ["error: three faults [bad]", "  - a", "  - b", "hint: mend them"]


@pytest.mark.parametrize(("where", "shown"), [("", "m.onnx: odd"), ("layer 3", "layer 3: odd")])
def test_an_error_without_a_place_gets_that_of_the_block_that_it_leaves(where: str, shown: str) -> None:
    with pytest.raises(AxError) as caught, located("m.onnx"):
        raise AxError("odd", where=where)
    assert (str(caught.value), caught.value.where) == (shown, shown.removesuffix(": odd"))


def test_one_is_not_many() -> None:
    assert [plural(count, "layer") for count in (0, 1, 1000)] == ["0 layers", "1 layer", "1,000 layers"]
    assert [plural(count, "file is", "files are") for count in (1, 2)] == ["1 file is", "2 files are"]
