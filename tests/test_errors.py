"""What a program shows of an error that a user can mend."""

from __future__ import annotations

import traceback

from axtool.errors import FitError, UsageError


def shown(error: BaseException) -> list[str]:
    """The end of its traceback."""
    return "".join(traceback.format_exception_only(error)).splitlines()


def test_a_traceback_shows_every_problem_and_the_hint_below_the_message() -> None:
    error = UsageError("two faults", where="my.yaml", hint="see targets.md", details=("a: missing", "b: unknown"))
    assert str(error) == "my.yaml: two faults"
    assert shown(error)[1:] == ["a: missing", "b: unknown", "hint: see targets.md"]


def test_a_hint_that_is_given_later_takes_the_place_of_the_first() -> None:
    error = FitError("too large", hint="a larger chip")
    error.advise("8 MiB more")
    assert (error.hint, shown(error)[1:]) == ("8 MiB more", ["hint: 8 MiB more"])


def test_an_error_without_a_hint_is_one_line() -> None:
    assert len(shown(UsageError("no"))) == 1
