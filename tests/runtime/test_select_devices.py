"""Selectors of devices: indices, names, lists, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from axtool.errors import UsageError
from axtool.runtime.devices import machine
from axtool.runtime.devices.context import Context


@pytest.fixture
def context() -> Iterator[Context]:
    with machine.simulated("metis-pcie*3"), Context() as made:
        yield made


def names(context: Context, selector: Any) -> list[str]:
    return [info.name for info in context.select(selector)]


@pytest.mark.parametrize("selector", [None, "", "  ", []])
def test_nothing_selects_all(context: Context, selector: Any) -> None:
    assert names(context, selector) == ["metis-0:1:0", "metis-0:2:0", "metis-0:3:0"]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("0", [1]), ("2,0", [3, 1]), ("metis-0:2:0", [2]), (" 1 , metis-0:1:0 ", [2, 1]), (1, [2]), ([0, "2"], [1, 3]),
        (["metis-0:1:0", "metis-0:3:0"], [1, 3]),
    ],
)  # fmt: skip
def test_indices_and_names_select_in_their_order(context: Context, selector: Any, chosen: list[int]) -> None:
    assert names(context, selector) == [f"metis-0:{bus}:0" for bus in chosen]


@pytest.mark.parametrize(
    "selector",
    ["3", "-1", "metis-0:9:0", "metis", "0,,1", "0,", ",", "0;1", "١", "99999999999999", -1, [""], ["0", ""]],
)  # fmt: skip
def test_what_is_not_there_is_refused_with_what_is(context: Context, selector: Any) -> None:
    with pytest.raises(ValueError, match=r"device|selector") as caught:
        context.select(selector)
    assert isinstance(caught.value, UsageError)
    assert caught.value.hint


def test_an_unknown_device_is_answered_with_the_list(context: Context) -> None:
    with pytest.raises(UsageError, match="no device 'metis-0:9:0'") as caught:
        context.select("metis-0:9:0")
    assert caught.value.hint == "there are: 0 metis-0:1:0, 1 metis-0:2:0, 2 metis-0:3:0"


@pytest.mark.parametrize("selector", ["0,0", "0,metis-0:1:0", [1, "metis-0:2:0"]])
def test_a_device_that_is_named_twice_is_refused(context: Context, selector: Any) -> None:
    with pytest.raises(ValueError, match="twice"):
        context.select(selector)


@pytest.mark.parametrize("selector", [True, 1.5, b"0", {"0": 1}, [True], [None], object()])
def test_other_types_are_refused(context: Context, selector: Any) -> None:
    with pytest.raises(ValueError, match="selector is a text"):
        context.select(selector)
