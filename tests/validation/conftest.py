"""Each chip's figures are worked out once for all tests that look at them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from benchmarks.validation.chip import Section, run_chip
from benchmarks.validation.rows import Row


@pytest.fixture(scope="session")
def section() -> Callable[[str], Section]:
    """The part of the page that a chip fills, by the name of its module."""
    return cache(run_chip)


@pytest.fixture(scope="session")
def misses() -> Callable[[list[Row]], str]:
    """What does not hold, the published value beside ours: nothing where all is well."""
    return lambda rows: "; ".join(
        f"{row.set}: {row.name} is {row.published:g} {row.unit}, ours {row.ours:g}"
        for row in rows
        if row.holds is False
    )
