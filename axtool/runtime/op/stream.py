"""Many frames through one pipeline: each stage of it in a thread of its own, frames and results in order.

A model is a stage, and so is what lies between models. While one frame is on the device, the next is prepared and the
one before decoded; every operator is still called from one thread only and sees the frames in order, so that operators
with a memory, trackers for example, work as in a plain loop.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from contextvars import Context, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from axtool.runtime import geometry
from axtool.runtime.cv import frames_of
from axtool.runtime.op.combinators import Seq, arguments
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.operator import Operator, Unpacked, walk

IN_FLIGHT = 4  # frames of one device core that are begun and not yet handed out
_PATIENCE_S = 5.0  # for a source that does not answer, when a stream is left early

Stage = Sequence[Operator]  # in order
Results = Generator[tuple[tuple[Any, ...], Any], None, None]  # of each frame: what was given, and its result


@dataclass
class _Frame:
    """One frame on its way. `context` holds where its pixels are; each stage runs in it."""

    index: int
    given: tuple[Any, ...]
    context: Context
    values: tuple[Any, ...] = ()
    error: BaseException | None = None


def stream(pipeline: Seq, source: Any, max_in_flight: int | None = None) -> Iterator[tuple[Any, Any]]:
    """(frame, result) for every frame of a source, in order. Raises ValueError, TypeError or UsageError at once for
    a window or a source that is none; later RuntimeError naming the frame, from the error of an operator.
    """
    frames = frames_of(source)
    return _pairs(_results(pipeline, ((frame,) for frame in frames), _window(max_in_flight)))


def _pairs(results: Results) -> Iterator[tuple[Any, Any]]:
    with closing(results):
        for (frame,), result in results:
            yield frame, result


def batch(pipeline: Seq, inputs: Sequence[Any], max_in_flight: int | None = None) -> list[Any]:
    """The result of every frame, in order; `inputs` as `Seq.batch` has them."""
    if not inputs:
        return []
    pictures = all(_is_picture(value) for value in inputs)
    columns = [inputs] if pictures else [_column(value) for value in inputs]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(f"batch: the arguments have {', '.join(map(str, counts))} frames; want as many of each")
    frames = (tuple(column[index] for column in columns) for index in range(counts[0]))
    return [result for _, result in _results(pipeline, frames, _window(max_in_flight))]


def stages_of(pipeline: Seq) -> list[list[Operator]]:
    """The steps of a pipeline, cut around every step that holds a model. Steps that share an operator stay together."""
    stages: list[list[Operator]] = []
    joins = False  # whether the next step belongs to the stage before
    for step in _steps(pipeline):
        alone = any(isinstance(inner, AxRuntimeModel) for inner in walk(step))
        if joins and not alone:
            stages[-1].append(step)
        else:
            stages.append([step])
        joins = not alone
    first = 0
    while first < len(stages):
        again = [later for later in range(first + 1, len(stages)) if _parts(stages[first]) & _parts(stages[later])]
        if again:
            stages[first : again[-1] + 1] = [[step for stage in stages[first : again[-1] + 1] for step in stage]]
        else:
            first += 1
    return stages


def _steps(operator: Operator) -> Iterator[Operator]:
    """The steps of a sequence, those of sequences inside it spread out."""
    if type(operator) is Seq:
        for step in operator.operators:
            yield from _steps(step)
    else:
        yield operator


def _parts(stage: Sequence[Operator]) -> set[int]:
    """What only one thread may use at a time: operators, and the devices behind them."""
    inner = [one for step in stage for one in walk(step)]
    return {id(one.part if isinstance(one, AxRuntimeModel) else one) for one in inner}


def _window(max_in_flight: int | None) -> int:
    if max_in_flight is not None and max_in_flight < 1:
        raise ValueError(f"max_in_flight is {max_in_flight}, want at least 1")
    return IN_FLIGHT if max_in_flight is None else max_in_flight


def _results(pipeline: Seq, frames: Iterable[tuple[Any, ...]], window: int) -> Results:
    here = copy_context()
    stages = stages_of(pipeline)
    begun = (_begun(index, given, here.copy()) for index, given in enumerate(frames))
    done = _in_this_thread(stages, begun) if window == 1 else _in_threads(stages, begun, window)
    with closing(done):  # an error's traceback would keep the threads alive
        for frame in done:
            if frame.error is not None:
                raise frame.error
            yield frame.given, frame.values[0] if len(frame.values) == 1 else Unpacked(frame.values)


def _begun(index: int, given: tuple[Any, ...], context: Context) -> _Frame:
    context.run(geometry.begin, given[0] if given else None)
    return _Frame(index, given, context, given)


def _in_this_thread(stages: Sequence[Stage], begun: Iterable[_Frame]) -> Generator[_Frame, None, None]:
    for frame in begun:
        for stage in stages:
            _advance(stage, frame)
        yield frame


def _in_threads(stages: Sequence[Stage], begun: Iterable[_Frame], window: int) -> Generator[_Frame, None, None]:
    """One thread reads the source, one runs each stage; None in a queue says that no frame follows."""
    room, left = threading.Semaphore(window), threading.Event()
    queues: list[SimpleQueue[_Frame | None]] = [SimpleQueue() for _ in range(len(stages) + 1)]

    def read() -> None:
        index = -1
        try:
            frames = iter(begun)
            while room.acquire() and not left.is_set():
                frame = next(frames, None)
                if frame is None:
                    break
                index = frame.index
                queues[0].put(frame)
        except BaseException as error:  # of the source: it comes out behind the frames before it
            queues[0].put(_Frame(index + 1, (), Context(), error=error))
        queues[0].put(None)

    def work(number: int) -> None:
        while (frame := queues[number].get()) is not None:
            if frame.error is None and not left.is_set():
                _advance(stages[number], frame)
            queues[number + 1].put(frame)
        queues[number + 1].put(None)

    reader = threading.Thread(target=read, name="stream source", daemon=True)
    workers = [
        threading.Thread(target=work, args=(number,), name=f"stream stage {number}", daemon=True)
        for number in range(len(stages))
    ]
    for thread in (reader, *workers):
        thread.start()
    try:
        while (frame := queues[-1].get()) is not None:
            room.release()
            yield frame
    finally:
        left.set()
        room.release()
        queues[0].put(None)  # the reader may be waiting for its source
        for thread in workers:
            thread.join()
        reader.join(_PATIENCE_S)


def _advance(stage: Stage, frame: _Frame) -> None:
    """One stage of one frame; what goes wrong is kept in the frame, with its number."""
    for step in stage:
        if frame.error is not None:
            return
        try:
            frame.values = arguments(frame.context.run(step, *frame.values))
        except Exception as error:
            text = f"frame {frame.index}: {type(step).__name__}: {type(error).__name__}: {error}"
            frame.error = RuntimeError(text)
            frame.error.__cause__ = error
        except BaseException as error:  # SystemExit, for one: it ends the program where the results are read
            frame.error = error


def _column(value: Any) -> Any:
    """The values of one argument for all frames. Raises TypeError for what is no list of them."""
    if _is_picture(value) or not (isinstance(value, (list, tuple)) or getattr(value, "shape", None)):
        raise TypeError(
            "batch wants the values of an argument for all frames, as a list or as one array along its first axis; "
            f"got {'one picture' if _is_picture(value) else type(value).__name__}"
        )
    return value


def _is_picture(value: Any) -> bool:
    return not isinstance(value, (tuple, list)) and geometry.size_of(value) is not None
