"""The parameters of kernels, checked before anything is computed: each refusal names the parameter and what it wants.

They come from files and command lines, so any plain value may stand where a number is wanted: text, None, a list of
lists, a number that is none, one so large that what follows would not end.
"""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import Repr
from typing import Any, TypeVar

from axtool.errors import nearest

MOST_COUNT = 1 << 24  # classes, bins, factors: far above any model, far below what does not fit memory
MOST_ITEMS = 1024  # of a list
LEAST_NUMBER, MOST_NUMBER = 1e-6, 1e6
_T = TypeVar("_T", bound=str)

_short = Repr()
_short.maxlevel, _short.maxlist, _short.maxdict, _short.maxstring, _short.maxlong, _short.maxother = 3, 6, 6, 60, 40, 60


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    return _short.repr(value)


def check_count(what: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """A whole number from `least` to `most`, or ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value:
        raise ValueError(f"{what} is {shown(value)}, want a whole number of at least {least}")
    if value > most:
        raise ValueError(f"{what} is {shown(value)}, want at most {most:,}")
    return value


def check_flag(what: str, value: Any) -> bool:
    """True or False, or ValueError: a text such as 'false' would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {shown(value)}, want True or False")
    return value


def check_choice(what: str, value: Any, known: Sequence[_T]) -> _T:
    """One of the known words, or ValueError with the nearest."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, want one of {', '.join(known)}")
    for word in known:
        if word == value:
            return word
    raise ValueError(f"there is no {what} {shown(value)}; {nearest(value[:60], known)}")


def check_number(what: str, value: Any) -> float:
    """A number from 1e-6 to 1e6, or ValueError: scales, ratios and pixels, whose products stay finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not LEAST_NUMBER <= value <= MOST_NUMBER:
        raise ValueError(f"{what} is {shown(value)}, want a number from {LEAST_NUMBER:g} to {MOST_NUMBER:g}")
    return float(value)


def check_numbers(what: str, values: Any, *, count: int | None = None) -> tuple[float, ...]:
    """A list of numbers as `check_number` takes them, `count` of them where that is said, or ValueError."""
    if (
        not isinstance(values, (list, tuple))
        or not 0 < len(values) <= MOST_ITEMS
        or (count or len(values)) != len(values)
    ):
        wanted = f"{count} numbers" if count else f"1 to {MOST_ITEMS} numbers"
        raise ValueError(f"{what} is {shown(values)}, want a list of {wanted} above 0")
    return tuple(check_number(f"{what}[{index}]", value) for index, value in enumerate(values))


def check_list(what: str, values: Any) -> Sequence[Any]:
    """A list of at most `MOST_ITEMS`, or ValueError."""
    if not isinstance(values, (list, tuple)) or len(values) > MOST_ITEMS:
        raise ValueError(f"{what} is {shown(values)}, want a list of at most {MOST_ITEMS}")
    return values


def check_roles(roles: Any) -> tuple[str, ...] | None:
    """A list of words, or None; ValueError for anything else."""
    if roles is None:
        return None
    if not isinstance(roles, (list, tuple)) or not all(isinstance(role, str) for role in roles):
        raise ValueError(f"tensor_roles is {shown(roles)}, want a list with the role of each output, in output order")
    return tuple(roles)


def check_size(width: Any, height: Any) -> None:
    """Raise ValueError for an input that has no pixels."""
    for what, value in (("model_width", width), ("model_height", height)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_COUNT:
            raise ValueError(f"{what} is {shown(value)}, want the pixels of the model's input, at least 1")
