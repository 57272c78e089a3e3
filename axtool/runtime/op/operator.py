"""`Operator`: a step of a pipeline, its fields, and the registry of every kind of step by its snake_case name."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
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

    Several frames of a stream are in one pipeline at once. An operator of the user's own may remember something from
    frame to frame, so a stream calls it for one frame at a time, in their order, as a plain loop does. A class that
    remembers nothing says `stateful = False`: then it is called from several threads at once.
    """

    name: str = field(default="", kw_only=True)
    postamble_slot: ClassVar[str | None] = None
    portable: ClassVar[bool] = True  # whether an .axe file may hold it
    stateful: ClassVar[bool] = False  # of itself; what it calls says so for itself
    _built_in: ClassVar[bool] = True
    _writes_init: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)
        cls._built_in = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
        if "stateful" not in cls.__dict__:
            cls.stateful = _is_stateful(cls)
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

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        """An operator that remembers what it sees apart from this one. What is built in has nothing to remember: a
        compiled model, its sessions and its buffers are shared. Raises TypeError for what cannot be copied.
        """
        made = memo[id(self)] = copy.copy(self)
        if self.stateful and not self._built_in:
            try:
                vars(made).update({key: copy.deepcopy(value, memo) for key, value in vars(self).items()})
            except Exception as error:
                raise TypeError(
                    f"{type(self).__name__} cannot be copied: {type(error).__name__}: {error}; give the class a copy() "
                    "method, or say `stateful = False` in it where it remembers nothing from frame to frame"
                ) from error
        return made

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={getattr(self, key)!r}" for key in field_names(type(self)) if hasattr(self, key))
        return f"{type(self).__name__}({shown})"


class Unpacked(tuple[Any, ...]):
    """Several values that the next operator of a sequence gets as separate arguments; a plain tuple stays one."""

    __slots__ = ()


def walk(operator: Operator) -> Iterator[Operator]:
    """An operator and every one inside it."""
    yield operator
    for inner in operator._parts:
        yield from walk(inner)


_ORIGINS = count()


def copied(step: Operator, memo: dict[int, Any]) -> Operator:
    """A step that can be changed, and remembers what it sees, apart from the one that it was made from.

    `memo` has what was copied already, by id, so that a step that occurs twice does so in the copy. A class of the
    user's own may say in a copy() method how it is copied. Raises TypeError for one that cannot be.
    """
    own = getattr(type(step), "copy", None)
    if id(step) not in memo and callable(own) and not str(getattr(own, "__module__", "")).startswith("axtool."):
        memo[id(step)] = own(step)
    made: Operator = copy.deepcopy(step, memo)
    vars(made)["_origin"] = vars(step).setdefault("_origin", next(_ORIGINS))
    return made


def origin(operator: Operator) -> int | None:
    """The same number of an operator and of the copies of it; None where it has none."""
    number = vars(operator).get("_origin")
    return number if isinstance(number, int) else None


def calls_functions(operator: Operator, *functions: object) -> None:
    """Note that an operator calls functions of the user's, which may remember something: it is stateful then.

    A function says `function.stateful = False` where it remembers nothing. Types and None do not.
    """
    if any(f is not None and not isinstance(f, type) and getattr(f, "stateful", True) for f in functions):
        vars(operator)["stateful"] = True  # this operator alone, before what its class says


def _is_stateful(cls: type[Operator]) -> bool:
    """What a class is that does not say it: as the nearest class above that is of the user's; built-in ones are not."""
    above = next((base for base in cls.__mro__[1:] if issubclass(base, Operator) and not base._built_in), None)
    return not cls._built_in if above is None else above.stateful


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
