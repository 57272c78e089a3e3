"""`OperatorProfiler`: how long each operator of the pipelines that run inside its block takes, in whichever thread.

The profiler in scope travels in a context variable: whoever runs frames in threads of its own runs them in copies of
the caller's context. Only leaves are timed, so that no second counts twice: an operator that calls others is the sum of
them. Everything recorded is measured on this machine; what a board models comes with `record_core`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from axtool.runtime.durations import Durations

if TYPE_CHECKING:
    from axtool.runtime.op.operator import Operator

Kind = Literal["operator", "stage", "core", "switch"]


@dataclass(frozen=True)
class Event:
    """One span, for a trace. Times are those of time.perf_counter(), in seconds.

    `lane` is the thread that ran an operator or a stage, or the core that ran a frame or changed its model. `operator`
    is the object that was called; `frame` its number in its stream, where the stream says it.
    """

    kind: Kind
    name: str
    lane: str
    start_s: float
    end_s: float
    frame: int | None = None
    operator: Operator | None = None
    modelled_s: float | None = None


@dataclass(frozen=True)
class Row:
    """All calls of one operator, all records of one stage, or all frames (model switches) of one model on one core.

    `name` is that of the operator, the stage or the model. `modelled` holds the seconds that the chip would have taken,
    where a board models them.
    """

    kind: Kind
    name: str
    durations: Durations
    operator: Operator | None = None
    modelled: Durations | None = None
    core: str = ""

    @property
    def effective_fps(self) -> float:
        """Calls a second, if nothing else had to be done: 1 / mean. 0 where a call takes no measurable time."""
        return 1 / self.durations.mean_s if self.durations.mean_s > 0 else 0.0


class OperatorProfiler:
    """Times every leaf operator that is called inside the block, by this thread and by those that work for it.

        with OperatorProfiler() as profiler:
            for frame, result in pipeline.stream(source):
                ...
        print(profiler)

    It may be entered again, and from several threads. `keep_events` is how many single spans it keeps for a trace, the
    first ones; the others are counted in `dropped_events`. Without events its memory does not grow with the frames.
    The first frames of a stream pay for what is loaded late, in each thread: the rows leave out the first `skip_frames`
    of every stream, unless there are no others.
    """

    def __init__(self, *, keep_events: int = 0, skip_frames: int = 0) -> None:
        for name, value in (("keep_events", keep_events), ("skip_frames", skip_frames)):
            if value < 0:
                raise ValueError(f"{name} is {value}, want 0 or more")
        self._room, self._skip = keep_events, skip_frames
        self._lock = threading.Lock()
        self._rows: dict[tuple[Kind, object], Row] = {}
        self._first: dict[tuple[Kind, object], Row] = {}  # of the frames to leave out
        self._events: list[Event] = []
        self._inside = _Inside()
        self.dropped_events = 0

    def __enter__(self) -> OperatorProfiler:
        _SCOPE.set(_Scope(self, _SCOPE.get()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope = _SCOPE.get()
        _SCOPE.set(None if scope is None else scope.before)

    def call(self, operator: Operator, values: Sequence[Any]) -> Any:
        """What the operator makes of the values; its time is recorded if it is a leaf. What fails is not recorded."""
        if operator._parts:
            return operator(*values)
        before = self._inside.recorded
        start = time.perf_counter()
        made = operator(*values)
        end = time.perf_counter()
        if self._inside.recorded == before:  # else it has called operators, as one of the user's may
            self.record(operator, start, end)
        return made

    def record(self, operator: Operator, start_s: float, end_s: float) -> None:
        """One call of an operator in this thread, between two times of time.perf_counter()."""
        self._inside.recorded += 1
        self._add("operator", operator, label(operator), start_s, end_s, operator=operator)

    def record_stage(self, name: str, seconds: float) -> None:
        """Something that is no operator, such as the pull of a frame from its source, has just taken so many seconds
        of this thread.
        """
        end = time.perf_counter()
        self._add("stage", name, name, end - seconds, end)

    def record_core(
        self, core: str, model: str, start_s: float, busy_s: float, modelled_s: float | None, *, switch: bool = False
    ) -> None:
        """A core, named as `metis-0:1:0/2`, was taken `busy_s` from `start_s` (time.perf_counter()) on: it ran a device
        stage of the model, or with `switch` took it up. `modelled_s` is what the chip takes.
        """
        kind: Kind = "switch" if switch else "core"
        self._add(kind, (core, model), model, start_s, start_s + busy_s, modelled_s=modelled_s, core=core)

    def rows(self, kind: Kind = "operator") -> tuple[Row, ...]:
        """What was recorded so far, each in the order of its first record. The rows do not change any more."""
        with self._lock:
            skips = any(row.kind == "operator" for row in self._rows.values())
            made = (
                {}
                if skips and kind in ("operator", "core")
                else {key: _frozen(row) for key, row in self._first.items()}
            )
            for key, row in self._rows.items():
                made[key] = _together(made[key], row) if key in made else _frozen(row)
        return tuple(row for row in made.values() if row.kind == kind)

    @property
    def events(self) -> tuple[Event, ...]:
        """The spans that were kept, in the order in which they ended."""
        with self._lock:
            return tuple(self._events)

    def __str__(self) -> str:
        """Element, mean time and effective rate of each stage and operator, as a table. Measured. An operator and its
        copies in the pipelines of other streams are one.
        """
        rows = [*self.rows("stage"), *_merged(self.rows("operator"))]
        width = max((len(row.name) for row in rows), default=0)
        head = f"{'Element':{max(width, 7)}}  {'Time (µs)':>12}  {'Effective FPS':>14}  {'Calls':>9}"
        lines = [
            f"{row.name:{max(width, 7)}}  {1e6 * row.durations.mean_s:12,.1f}  {row.effective_fps:14,.1f}"
            f"  {row.durations.count:9,}"
            for row in rows
        ]
        return "\n".join([head, *lines])

    def _add(
        self,
        kind: Kind,
        key: object,
        name: str,
        start_s: float,
        end_s: float,
        *,
        operator: Operator | None = None,
        modelled_s: float | None = None,
        core: str = "",
    ) -> None:
        frame = _FRAME.get()
        with self._lock:
            rows = self._first if frame is not None and frame < self._skip else self._rows
            row = rows.get((kind, key))
            if row is None:
                modelled = None if modelled_s is None else Durations()
                row = rows[kind, key] = Row(kind, name, Durations(), operator, modelled, core)
            row.durations.add(end_s - start_s)
            if row.modelled is not None and modelled_s is not None:
                row.modelled.add(modelled_s)
            if len(self._events) < self._room:
                lane = core or threading.current_thread().name
                self._events.append(Event(kind, name, lane, start_s, end_s, frame, operator, modelled_s))
            elif self._room:
                self.dropped_events += 1


class _Inside(threading.local):
    """How many operators this thread has recorded: it tells whether one that is called calls others."""

    recorded: int = 0


@dataclass(frozen=True)
class _Scope:
    """A profiler in scope, and the scope around it."""

    profiler: OperatorProfiler
    before: _Scope | None


_SCOPE: ContextVar[_Scope | None] = ContextVar("profiler", default=None)
_FRAME: ContextVar[int | None] = ContextVar("profiled frame", default=None)


def active() -> OperatorProfiler | None:
    """The profiler in scope, the innermost one; None where nobody looks."""
    scope = _SCOPE.get()
    return None if scope is None else scope.profiler


def called(operator: Operator, values: Sequence[Any]) -> Any:
    """What an operator makes of the values, recorded where a profiler is in scope."""
    scope = _SCOPE.get()
    return operator(*values) if scope is None else scope.profiler.call(operator, values)


def number_frame(index: int) -> None:
    """From here on, in this context, events are of this frame of a stream."""
    _FRAME.set(index)


def label(operator: Operator) -> str:
    """The name that the user gave an operator, else that of its class; of a function, its own."""
    function = getattr(operator, "function", None)
    own = getattr(function, "__name__", "")
    return operator.name or own or type(operator).__name__.removeprefix("_")


def _frozen(row: Row) -> Row:
    durations, modelled = Durations(), None if row.modelled is None else Durations()
    durations.update(row.durations)
    if modelled is not None and row.modelled is not None:
        modelled.update(row.modelled)
    return replace(row, durations=durations, modelled=modelled)


def _merged(rows: Sequence[Row]) -> list[Row]:
    """Frozen rows of operators that are copies of one another as one, where the first of them stands."""
    from axtool.runtime.op.operator import origin  # operators call this module

    made: dict[object, Row] = {}
    for row in rows:
        number = None if row.operator is None else origin(row.operator)
        key = ("alone", id(row.operator)) if number is None else number
        made[key] = _together(made[key], row) if key in made else row
    return list(made.values())


def _together(row: Row, other: Row) -> Row:
    """A frozen row, and what another of the same operator has."""
    row.durations.update(other.durations)
    if row.modelled is not None and other.modelled is not None:
        row.modelled.update(other.modelled)
    return row
