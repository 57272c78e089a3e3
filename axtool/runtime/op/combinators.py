"""Operators that hold operators: one after another, side by side, once for each element; and what moves values between.

A sequence passes what a step returns to the next one as its only argument. `Unpacked` values become separate
arguments; a plain tuple stays one, until `unpack()`.
"""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from axtool.runtime import geometry, profiler
from axtool.runtime.op.operator import Operator, Unpacked, calls_functions, copied

Step = Operator | Callable[..., Any]
_S = TypeVar("_S", bound="Seq")


class Seq(Operator):
    """Operators one after another. Calling it runs them all and gives what the last one returns.

    A sequence inside a sequence without a name is spread out, so that `operators` lists single steps in order.
    """

    steps: tuple[Operator, ...]
    about: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *operators: Step, name: str = "") -> None:
        self.steps = tuple(_spread(operators))
        super().__init__(name=name)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The steps, in order."""
        return self.steps

    @property
    def _parts(self) -> tuple[Operator, ...]:
        return self.steps

    def __call__(self, *values: Any) -> Any:
        watched = profiler.active()
        with geometry.frame_of(values):
            for operator in self.steps:
                values = arguments(operator(*values) if watched is None else watched.call(operator, values))
        return values[0] if len(values) == 1 else Unpacked(values)

    def batch(self, *inputs: Any) -> list[Any]:
        """The result of every frame, in order, several frames at a time: `Scheduler.batch` of the current scheduler.

        Each input is one argument of the pipeline for all frames: a list of values, or an array of them along its
        first axis; single pictures are the frames themselves. Raises ValueError where their numbers differ, TypeError
        for what is no list of frames, RuntimeError naming the frame that failed.
        """
        from axtool.runtime.scheduler import current  # boards and threads, which a single call does not need

        return current().batch(self, inputs)

    def stream(
        self,
        source: Any,
        *,
        frame_callback: Callable[[Any], object] | None = None,
        split_at: str | None = None,
        max_in_flight: int | None = None,
        queue_depths: list[int] | None = None,
    ) -> Generator[tuple[Any, Any], None, None]:
        """(frame, result) for each frame of a source, in order: `Scheduler.stream` of the current scheduler.

        `source` is a path (a picture, a folder of pictures, a video), a URL, or anything that gives frames one by one.
        At most `max_in_flight` frames, four for each core, are begun and not yet handed out; with 1, all happens in the
        calling thread. Operators up to the one named `split_at` run in the calling thread, and `frame_callback` gets
        what they give. What an operator raises comes as RuntimeError that names the frame, behind the results of the
        frames before it. A stream that is left early waits for what runs, at most 5 s, when it is closed.
        """
        from axtool.runtime.scheduler import current  # boards and threads, which a single call does not need

        return current().stream(
            source, self, frame_callback=frame_callback, split_at=split_at, max_in_flight=max_in_flight,
            queue_depths=queue_depths,
        )  # fmt: skip

    def copy(self: _S) -> _S:
        """A new sequence for another stream: to change one of its steps leaves this one alone, and operators of the
        user's own remember what they see apart from those here. Compiled models are shared, and so are functions.

        Raises TypeError, naming the operator, for one that cannot be copied.
        """
        return copy.deepcopy(self)

    def __deepcopy__(self: _S, memo: dict[int, Any]) -> _S:
        made = memo[id(self)] = copy.copy(self)
        made.steps = tuple(copied(operator, memo) for operator in self.steps)
        return made

    def optimized(self: _S, policy: str = "auto") -> _S:
        """A new sequence that gives the same bits, adjacent operators made one where that is faster.

        'none' is a copy. Sequences and models inside are optimized too; operators with a name stay as they are, and
        those that remember something from frame to frame are the same objects in both. Raises ValueError for another
        policy.
        """
        if policy not in ("auto", "none"):
            raise ValueError(f"optimized: there is no policy '{policy}'; known: auto, none")
        if policy == "none":
            return self.copy()
        made = copy.copy(self)
        made.steps = self._fused([inside_optimized(step) for step in self.steps])
        return made

    def _fused(self, steps: list[Operator]) -> tuple[Operator, ...]:
        # they are about pictures and models, of which this module knows nothing
        from axtool.runtime.op.fused import fused
        from axtool.runtime.op.pixels_to_buffer import joined

        return tuple(joined(fused(steps)))

    def save_axe(
        self, path: str | Path, *, name: str = "", description: str = "", task: str = "detection", force: bool = False
    ) -> None:
        """Write the pipeline with its compiled models; `op.load` builds it again.

        `name`, `description` and `task` are for people: the loaded pipeline has them in `about`. Raises ValueError for
        a file that is not named .axe and for an operator that cannot be saved, UsageError for a file that is there
        already, unless `force`.
        """
        from axtool.runtime.op import axe  # it knows models, of which this module knows nothing

        axe.save(self, path, {"name": name, "description": description, "task": task}, force=force)

    def __repr__(self) -> str:
        return _block(type(self).__name__, self.name, self.operators)


class Par(Operator):
    """Operators side by side, each given the same values.

    The results are a named tuple when every branch has a name, else separate arguments of the next operator.
    """

    branches: tuple[Operator, ...]

    def __init__(self, *branches: Step, name: str = "") -> None:
        self.branches = tuple(as_operator(branch) for branch in branches)
        names = [branch.name for branch in self.branches]
        if len(set(filter(None, names))) < len(list(filter(None, names))):
            raise ValueError(f"par: two branches have the same name: {', '.join(names)}")
        self._made = namedtuple("Par", names) if names and all(names) else None
        super().__init__(name=name)

    def __call__(self, *values: Any) -> Any:
        results, frames = [], []
        for branch in self.branches:
            with geometry.branch() as frame:
                before = None if frame is None else frame.matrix
                results.append(profiler.called(branch, values))
                if frame is not None and frame.matrix is not before:
                    frames.append(frame)
        if frames:  # what follows is about the pixels of the first branch that moved any
            geometry.adopt(frames[0])
        return Unpacked(results) if self._made is None else self._made(*results)

    @property
    def _parts(self) -> tuple[Operator, ...]:
        return self.branches

    def optimized(self, policy: str = "auto") -> Par:
        """The same with what is inside its branches optimized, as `Seq.optimized`."""
        if policy != "auto":
            return self.copy()
        made = copy.copy(self)
        made.branches = tuple(inside_optimized(branch) for branch in self.branches)
        return made

    def copy(self) -> Par:
        """The same with operators of its own, as `Seq.copy`."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Par:
        made = memo[id(self)] = copy.copy(self)
        made.branches = tuple(copied(branch, memo) for branch in self.branches)
        return made

    def __repr__(self) -> str:
        return _block("Par", self.name, self.branches)


class Unpack(Operator):
    """A tuple or list as separate arguments of the next operator; anything else, and several arguments, as they are."""

    def __call__(self, *values: Any) -> Any:
        if len(values) == 1:
            return Unpacked(values[0]) if isinstance(values[0], (tuple, list)) else values[0]
        return Unpacked(values)


class Pack(Operator):
    """Separate arguments as one tuple."""

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        return tuple(values)


class Itemgetter(Operator):
    """The element of an index, or the elements of a slice. Separate arguments count as one tuple."""

    index: int | slice | str

    def __call__(self, *values: Any) -> Any:
        whole: Any = values[0] if len(values) == 1 else values
        return whole[self.index]


class Identity(Operator):
    """What it is given."""

    def __call__(self, *values: Any) -> Any:
        return values[0] if len(values) == 1 else Unpacked(values)


class Constant(Operator):
    """Always the same value, whatever it is given."""

    value: Any

    def __call__(self, *values: Any) -> Any:
        return self.value


class Function(Operator):
    """A plain function as a step; one that says `function.stateful = False` may be called from several threads at once.

    A copy calls the same function.
    """

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        calls_functions(self, self.function)

    def __call__(self, *values: Any) -> Any:
        return self.function(*values)


def arguments(result: Any) -> tuple[Any, ...]:
    """What the next operator of a sequence is called with."""
    return tuple(result) if isinstance(result, Unpacked) else (result,)


def inside_optimized(step: Operator) -> Operator:
    """A step that holds operators with those optimized; one that remembers something as it is, else one like it."""
    own = getattr(step, "optimized", None)
    return own() if callable(own) else step if step.stateful else copy.copy(step)


def as_operator(step: Step) -> Operator:
    """An operator as it is; a function as a step. Raises TypeError for what cannot be called."""
    if isinstance(step, Operator):
        return step
    if callable(step) and not isinstance(step, type):
        return Function(step)
    what = f"the class {step.__name__}; make one: {step.__name__}()" if isinstance(step, type) else repr(step)
    raise TypeError(f"a pipeline is made of operators and functions, got {what}")


def _spread(steps: Iterable[Step]) -> Iterable[Operator]:
    for step in steps:
        operator = as_operator(step)
        if type(operator) is Seq and not operator.name:
            yield from operator.operators
        else:
            yield operator


def _block(kind: str, name: str, inside: Sequence[Operator]) -> str:
    lines = "".join(f"\n{line}" for operator in inside for line in f"{operator!r},".splitlines())
    head = f"{name!r}: {kind}" if name else kind
    return f"{head}({lines.replace(chr(10), chr(10) + '  ')}\n)" if inside else f"{head}()"
