"""`Operator`: a step of a pipeline, its fields, and the registry of every kind of step by its snake_case name."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeVar, dataclass_transform

from axtool.errors import nearest

_REGISTRY: dict[str, type[Operator]] = {}
_E = TypeVar("_E", bound=StrEnum)


@dataclass_transform(field_specifiers=(field,))
@dataclass(eq=False, repr=False)
class Operator:
    """A step: called with what the step before gave, returns what the next one gets.

    The class-level annotations of a subclass are its fields, which the printed pipeline shows. A subclass that writes
    no `__init__` gets one from them, as a dataclass does, and may check its values in `__post_init__`; one that does
    calls `super().__init__(name=name)`. Every subclass is registered under its snake_case name when it is defined.
    """

    name: str = field(default="", kw_only=True)
    postamble_slot: ClassVar[str | None] = None
    portable: ClassVar[bool] = True  # whether an .axe file may hold it
    _writes_init: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)
        cls._writes_init = cls._writes_init or "__init__" in cls.__dict__
        if not cls._writes_init:
            dataclass(eq=False, repr=False)(cls)

    def __call__(self, *values: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what it does: define __call__")

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The steps inside this one; a single step is its own."""
        return (self,)

    @property
    def _parts(self) -> tuple[Operator, ...]:
        """The operators that this one calls."""
        return ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={getattr(self, key)!r}" for key in field_names(type(self)) if hasattr(self, key))
        return f"{type(self).__name__}({shown})"


class Unpacked(tuple[Any, ...]):
    """Several values that the next operator of a sequence gets as separate arguments; a plain tuple stays one."""

    __slots__ = ()


def field_names(cls: type[Operator]) -> tuple[str, ...]:
    """The fields of an operator class, those of its bases first; `name` and what starts with `_` are not shown."""
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for key, kind in inspect.get_annotations(base).items():
            if key != "name" and not key.startswith("_") and "ClassVar" not in str(kind):
                found[key] = None
    return tuple(found)


def snake_case(name: str) -> str:
    """`DecodeDetections` -> `decode_detections`, `AxOBB` -> `ax_obb`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def register(cls: type[Operator]) -> None:
    """Enter a class under its snake_case name. Raises TypeError where another class has it already."""
    key, known = snake_case(cls.__name__), _REGISTRY.get(snake_case(cls.__name__))
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"operator '{key}' exists already: {known.__module__}.{known.__qualname__}; "
            f"give {cls.__module__}.{cls.__qualname__} another name"
        )
    _REGISTRY[key] = cls


def choice(kind: type[_E], value: object, what: str) -> _E:
    """A member of an enumeration by its value, in any case. Raises ValueError with the nearest ones."""
    known = {str(member.value).lower(): member for member in kind}
    found = known.get(str(value).lower())
    if found is None:
        raise ValueError(f"there is no {what} '{value}'; {nearest(str(value), [str(m.value) for m in kind])}")
    return found


def registered(name: str) -> type[Operator] | None:
    """The operator class of a snake_case name."""
    return _REGISTRY.get(name)


def registered_names() -> tuple[str, ...]:
    """Every name of the registry, sorted."""
    return tuple(sorted(_REGISTRY))
