"""`ForEach`: a pipeline on every element of a list, each with its own view of the picture."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

from axtool.runtime import geometry
from axtool.runtime.op.combinators import Seq, Step
from axtool.runtime.op.observe import dump
from axtool.runtime.op.operator import Operator


class ForEach(Operator):
    """Run operators on every element of a list: a named tuple of the list, and of what became of each element.

    The fields are `input`, or the name that `iter` gives, and `output`, or `name`, which may also be a string in front
    of the operators. `crop_roi` inside is about its own element only. `save` is a folder to which each result is
    written as `dumper` does, as CALL-ELEMENT, counted from 0; a copy goes on with the numbers of its original.
    """

    body: Seq
    iter: str
    save: str | Path | None

    def __init__(
        self, *operators: Step | str, iter: str = "input", name: str = "", save: str | Path | None = None
    ) -> None:
        """Raises ValueError for two names of the output, or one that a named tuple cannot have."""
        steps = list(operators)
        if steps and isinstance(steps[0], str):
            if name:
                raise ValueError(f"for_each: the output is named twice, '{steps[0]}' and '{name}'")
            name = str(steps.pop(0))
        self.body = Seq(*[step for step in steps if not isinstance(step, str)])
        if any(isinstance(step, str) for step in steps):
            raise TypeError("for_each takes one string, the name of the output, in front of its operators")
        self.iter, self.save = iter, save
        try:
            self._made = _result_type(iter, name or "output")
        except ValueError as error:
            raise ValueError(f"for_each(iter={iter!r}, name={name!r}): {error}") from None
        self._calls = count()
        if save is not None:
            vars(self)["stateful"] = True  # the numbers of its files are in the order of the frames
        super().__init__(name=name)

    def __call__(self, values: Iterable[Any]) -> Any:
        if not isinstance(values, Iterable):
            raise TypeError(f"for_each wants a list, got {type(values).__name__}")
        call = next(self._calls)
        items, made = list(values), []
        for index, item in enumerate(items):
            with geometry.branch():
                try:
                    made.append(self.body(item))
                except Exception as error:
                    error.add_note(f"for_each: element {index} of {len(items)}")
                    raise
            if self.save is not None:
                dump(Path(self.save), f"{call:06d}-{index:03d}", made[-1])
        return self._made(items, made)

    @property
    def _parts(self) -> tuple[Operator, ...]:
        return (self.body,)

    def optimized(self, policy: str = "auto") -> ForEach:
        """The same with its operators optimized, as `Seq.optimized`."""
        made = copy.copy(self)
        made.body = self.body.optimized(policy)
        return made

    def copy(self) -> ForEach:
        """The same with operators of its own, as `Seq.copy`."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> ForEach:
        made = memo[id(self)] = copy.copy(self)
        made.body = copy.deepcopy(self.body, memo)
        return made


def _result_type(*fields: str) -> Callable[..., Any]:
    """A named tuple with these fields. Raises ValueError for names that it cannot have."""
    return namedtuple("Each", fields)
