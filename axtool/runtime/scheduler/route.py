"""A pipeline  ->  its steps in a row, and the spans of them that one frame at a time may be in.

An operator with a memory, a tracker for example, must see the frames of a stream in order and one at a time, as in a
plain loop, although several frames are on their way. From the first use of such an operator in a pipeline to its last
is one span; every other step takes frames as they come, from several threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from axtool.errors import UsageError, nearest
from axtool.runtime import geometry
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.for_each import ForEach
from axtool.runtime.op.observe import Dumper
from axtool.runtime.op.operator import Operator, Unpacked, walk

Step = Callable[..., Any]
Span = tuple[int, int]  # the first and the last step that belong together

_OPENED: ContextVar[tuple[bool, ...]] = ContextVar("opened", default=())  # of the sequences around a step
_live: dict[int, Claim] = {}  # which stream is using an operator with a memory of its own, by the operator's id
os.register_at_fork(after_in_child=_live.clear)


@dataclass(frozen=True, eq=False)
class Route:
    """The steps that a frame goes through. At most one frame is inside a span, and frames pass it in order.

    `private` are operators whose memory two streams must not share. What a function of the user's remembers is not
    among it: a copy of the pipeline calls the same function.
    """

    steps: tuple[Step, ...]
    spans: tuple[Span, ...]
    private: tuple[Operator, ...]


def route_of(pipeline: Operator) -> Route:
    """The steps of a pipeline, those of sequences inside it spread out.

    A sequence with a name opens the geometry of a picture that it is given, where no frame is open yet. That stays so.
    """
    steps = tuple(_spread(pipeline))
    memories = [[inner for inner in walk(step) if inner.stateful] for step in _operators(steps)]
    uses: dict[int, list[int]] = {}
    for at, inside in enumerate(memories):
        for operator in inside:
            uses.setdefault(id(operator), []).append(at)
    known = {id(operator): operator for inside in memories for operator in inside}
    private = tuple(one for one in known.values() if not one._built_in or isinstance(one, (Dumper, ForEach)))
    return Route(steps, tuple(_joined((places[0], places[-1]) for places in uses.values())), private)


def split(pipeline: Operator, name: str) -> tuple[Operator, Operator]:
    """What comes up to and with the step of a name, and what comes behind it. Raises ValueError for another name."""
    steps = pipeline.operators if type(pipeline) is Seq else (pipeline,)
    places = [at for at, step in enumerate(steps) if name and step.name == name]
    if len(places) == 1:
        return _split_behind(places[0], steps)
    if places:
        raise ValueError(f"split_at: {len(places)} operators are named '{name}'; give each a name of its own")
    for step in steps:
        if name and any(inner.name == name for inner in walk(step)):
            raise ValueError(
                f"split_at: operator '{name}' is inside of {type(step).__name__} '{step.name}'; a stream is split "
                "between the steps of the pipeline itself"
            )
    names = list(dict.fromkeys(step.name for step in steps if step.name))
    hint = nearest(name, names) if names else "none of its operators has a name; give one with name="
    raise ValueError(f"split_at: the pipeline has no operator named '{name}'; {hint}")


def _split_behind(at: int, steps: Sequence[Operator]) -> tuple[Operator, Operator]:
    """Raises ValueError where an operator with a memory is on both sides: two threads would call it at once."""
    first, rest = Seq(*steps[: at + 1]), Seq(*steps[at + 1 :])
    before = {id(inner) for inner in walk(first) if inner.stateful}
    for inner in walk(rest):
        if id(inner) in before:
            raise ValueError(
                f"split_at: {type(inner).__name__}{_quoted(inner.name)} remembers what it sees and is used before "
                f"and behind '{steps[at].name}'; make two of it, or split elsewhere"
            )
    return first, rest


class Claim:
    """The right of one stream to the operators whose memory it changes; a context manager.

    Raises UsageError, which is a ValueError too, for an operator that another live stream is using.
    """

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = operators

    def check(self) -> None:
        """Raise now what entering would raise."""
        for operator in self._operators:
            if _live.get(id(operator), self) is not self:
                raise SharedMemory(
                    f"{type(operator).__name__}{_quoted(operator.name)} keeps a memory of the frames that it has seen, "
                    "and another stream is using it",
                    hint="give each stream a pipeline of its own: pipeline.copy(); or say in its class that it keeps "
                    "none: stateful = False",
                )

    def __enter__(self) -> None:
        for operator in self._operators:
            _live.setdefault(id(operator), self)
        try:
            self.check()
        except SharedMemory:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for operator in self._operators:
            if _live.get(id(operator)) is self:
                del _live[id(operator)]


class SharedMemory(UsageError, ValueError):
    """Two streams share an operator that has a memory."""

    code = "shared-pipeline"


def _spread(operator: Operator) -> Iterator[Step]:
    if type(operator) is not Seq:
        yield operator
        return
    for step in operator.operators:
        if type(step) is Seq:
            yield _open
            yield from _spread(step)
            yield _close
        else:
            yield step


def _operators(steps: Sequence[Step]) -> Iterator[Operator]:
    nothing = Seq()
    for step in steps:
        yield step if isinstance(step, Operator) else nothing


def _joined(spans: Iterator[Span]) -> Iterator[Span]:
    """Spans in order, those that overlap made one."""
    now: Span | None = None
    for first, last in sorted(spans):
        if now is not None and first <= now[1]:
            now = (now[0], max(now[1], last))
        else:
            if now is not None:
                yield now
            now = (first, last)
    if now is not None:
        yield now


def _quoted(name: str) -> str:
    return f" '{name}'" if name else ""


def _open(*values: Any) -> Unpacked:
    opens = geometry.current() is None and bool(values) and geometry.size_of(values[0]) is not None
    if opens:
        geometry.begin(values[0])
    _OPENED.set((*_OPENED.get(), opens))
    return Unpacked(values)


def _close(*values: Any) -> Unpacked:
    *around, opened = _OPENED.get()
    if opened:
        geometry.begin(None)
    _OPENED.set(tuple(around))
    return Unpacked(values)
