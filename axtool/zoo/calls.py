"""Steps of a pipeline as plain data: calls of operators  ->  the text of a recipe, and the operators themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axtool.errors import nearest


@dataclass(frozen=True)
class Word:
    """A name that a recipe gives a value, and `Call.built` is given one for."""

    name: str

    def __repr__(self) -> str:
        return self.name


class Call:
    """`op.NAME(...)` with plain values, words, or calls as arguments. Its repr is the text of the call."""

    def __init__(self, name: str, *args: Any, **keywords: Any) -> None:
        self.name, self.args, self.keywords = name, args, keywords

    def __repr__(self) -> str:
        given = [repr(value) for value in self.args]
        given += [f"{key}={value!r}" for key, value in self.keywords.items()]
        return f"op.{self.name}({', '.join(given)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def built(self, words: Mapping[str, Any]) -> Any:
        """What the call makes, with a value for each word. Raises ValueError for an operator that there is none of,
        and what the operator raises for its arguments.
        """
        from axtool.runtime import op

        if self.name.startswith("_") or self.name not in op.__all__:
            raise ValueError(f"there is no operator op.{self.name}; {nearest(self.name, op.__all__)}")
        args = [_value(value, words) for value in self.args]
        return getattr(op, self.name)(*args, **{key: _value(value, words) for key, value in self.keywords.items()})


def _value(value: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(value, Call):
        return value.built(words)
    return words[value.name] if isinstance(value, Word) else value


def listing(calls: Sequence[Call], indent: str = "    ") -> str:
    """The calls, one a line."""
    return "\n".join(f"{indent}{call!r}," for call in calls)
