"""`run`: compiled model, sources and options  ->  `StreamRun`: what was found, and how fast everything was.

Boards, scheduler, profiler and sources live as long as the run. Whatever fails leaves no file behind, but where a live
source breaks off; Ctrl-C ends the run. What was recorded until then is kept as a whole file: a camera has no other end.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from axtool.errors import AxError, EnvironmentFault, UsageError
from axtool.runtime import cv, scheduler
from axtool.runtime.devices import machine
from axtool.runtime.devices.seam import DeviceInfo
from axtool.runtime.op.combinators import Seq
from axtool.runtime.op.operator import Operator
from axtool.runtime.profiler import OperatorProfiler
from axtool.runtime.resources import ResourceMonitor
from axtool.runtime.scheduler.stream import in_flight
from axtool.runtime.streams.counts import Pace, SourceRun
from axtool.runtime.streams.interrupts import Interrupts
from axtool.runtime.streams.outputs import ResultLines
from axtool.runtime.streams.sources import Watched

log = logging.getLogger("axtool")

TRACE_EVENTS = 1_000_000  # spans of a trace: some 200 MB of JSON, more than a viewer likes
LOOK_S = 0.1  # how often the progress is told
Order = Literal["as_available", "round_robin"]
Results = Generator[tuple[int, Any, Any], None, None]  # (source, frame, result)
Told = Callable[[int, int | None, float], object]  # frames so far, of how many (None: nobody knows), frames a second


def untold(done: int, total: int | None, per_s: float) -> None:
    """Nobody is told how far a run is."""


@dataclass(frozen=True)
class StreamOptions:
    """`boards` as AXTOOL_BOARDS, None for those that it names; `devices` selects some of them. `replay` gives the
    outputs of the first frames again, or those of a file, instead of computing. None of a number is the scheduler's
    own choice. `warmup` frames, all the first of the first source, which is no live one, go before what is measured.
    """

    boards: str | None = None
    devices: str | None = None
    realtime: bool = False
    replay: bool | Path = False
    workers: int | None = None
    max_in_flight: int | None = None
    order: Order = "as_available"
    trace: bool = False
    warmup: int = 0

    @property
    def wants_boards(self) -> bool:
        """Whether the boards are others than those of the process."""
        return bool(self.boards or self.realtime or self.replay)


@dataclass(frozen=True)
class StreamRun:
    """All of a run. `pipelines` are those of the sources, copies of one; `seconds` is the time from the first pull to
    the last result, and `pace` that of the results of all sources; measured.
    `stopped_by` is the number of the signal that ended the run before its sources did.
    """

    sources: Sequence[SourceRun]
    pipelines: Sequence[Seq]
    options: StreamOptions
    boards: Sequence[DeviceInfo]
    cores: Sequence[scheduler.CoreStats]
    workers: int
    in_flight: int
    profiler: OperatorProfiler
    resources: ResourceMonitor
    begun_s: float
    seconds: float
    pace: Pace
    stopped_by: int | None = None

    @property
    def frames(self) -> int:
        """Of all sources."""
        return sum(one.frames for one in self.sources)

    @property
    def profiled_frames(self) -> int:
        """The frames that the profiler's rows speak of: those behind the first full window of their source, or all."""
        skipped = 0 if self.options.warmup else self.in_flight
        return sum(max(one.frames - skipped, 0) for one in self.sources) or self.frames

    @property
    def fps(self) -> float | None:
        """Results a second, of all sources: see `Pace`."""
        return self.pace.fps


def run(
    pipeline: Seq,
    sources: Sequence[Watched],
    outputs: Sequence[Any],
    options: StreamOptions,
    *,
    lines: ResultLines | None = None,
    told: Told = untold,
) -> StreamRun:
    """Every source through the pipeline, which gives a Seen. `outputs` are those of the sources, None for none.

    Closes the sources. Raises what the sources raise, UsageError and DevicesInUse for boards and devices that cannot
    be had, and for a frame that fails the error of its operator, with the number of the frame.
    """
    runs = [SourceRun(source, output and output.path) for source, output in zip(sources, outputs, strict=True)]
    pipelines = [pipeline, *[pipeline.copy() for _ in sources[1:]]]
    with ExitStack() as stack:
        for source in sources:
            stack.callback(source.close)
        if options.wants_boards:
            replay = options.replay or None
            stack.enter_context(machine.simulated(options.boards, realtime=options.realtime, replay=replay))
        owner = stack.enter_context(scheduler.create(options.devices, options.workers))
        boards_used = owner.devices()
        if options.warmup:
            _warm(owner, pipelines[0], sources[0], options)
        warmed = owner.stats().cores
        window = in_flight(owner, options.max_in_flight)
        events, skipped = (TRACE_EVENTS if options.trace else 0), (0 if options.warmup else window)
        profiler = stack.enter_context(OperatorProfiler(keep_events=events, skip_frames=skipped))
        resources = stack.enter_context(ResourceMonitor())
        begun = time.perf_counter()
        pace = Pace(None if any(source.paced for source in sources) else window * len(runs), begun)
        for one in runs:
            one.pace = Pace(None if one.source.paced else window, begun)
        progress = _Progress(told, [source.total for source in sources], begun)
        results = _results(owner, pipelines, runs, options)
        stopped_by = _record(results, runs, outputs, lines, pace, progress)
        seconds = time.perf_counter() - begun
        cores = _since(warmed, owner.stats().cores)
        workers = owner.workers.limit
    _finish(_all_of(outputs, lines))
    return StreamRun(
        runs, pipelines, options, boards_used, cores, workers, window, profiler, resources, begun,
        seconds, pace, stopped_by,
    )  # fmt: skip


def _record(
    results: Results,
    runs: Sequence[SourceRun],
    outputs: Sequence[Any],
    lines: ResultLines | None,
    pace: Pace,
    progress: _Progress,
) -> int | None:
    """Write and count all results. The number of the signal that ended them, None where they came to their end.

    What fails leaves nothing behind; but a camera that falls silent after hours does not take them with it.
    """
    try:
        with Interrupts() as interrupts, closing(results):
            for at, frame, seen in results:
                now = time.perf_counter()
                with interrupts.held():
                    if outputs[at] is not None:
                        outputs[at].write(frame, seen)
                    if lines is not None:
                        lines.write(at, runs[at].source.reader.name, runs[at].frames, seen)
                    runs[at].add(seen, now)
                    pace.add(now)
                progress.look(pace.count)
    except KeyboardInterrupt as stop:
        return int(stop.args[0] if stop.args else signal.SIGINT)
    except BaseException as error:
        kept = _all_of(outputs, lines)
        if isinstance(error, EnvironmentFault) and any(one.frames and one.source.reader.live for one in runs):
            _finish(kept)
            for path in (output.path for output in kept if output.path.exists()):
                log.warning("%s is kept, with what came before the failure", path)
        else:
            _discard(kept)
        raise
    return None


def _all_of(outputs: Sequence[Any], lines: ResultLines | None) -> list[Any]:
    return [output for output in (*outputs, lines) if output is not None]


def _finish(outputs: Sequence[Any]) -> None:
    """All whole, or none there."""
    try:
        for output in outputs:
            output.finish()
    except BaseException:
        _discard(outputs)
        raise


def _discard(outputs: Sequence[Any]) -> None:
    for output in outputs:
        output.discard()


def _warm(owner: scheduler.Scheduler, pipeline: Seq, source: Watched, options: StreamOptions) -> None:
    """Frames of which nothing is kept: the first ones pay for what is loaded late, on the host and on the cores."""
    if source.reader.live:
        raise UsageError("a live source cannot be warmed up with", where=source.reader.name, code="bad-option")
    with cv.create_source(source.place) as reader:
        frame = next(iter(reader))
    for _ in owner.stream([frame] * options.warmup, pipeline, max_in_flight=options.max_in_flight):
        pass


def _since(before: Sequence[scheduler.CoreStats], now: Sequence[scheduler.CoreStats]) -> list[scheduler.CoreStats]:
    """What the cores did after `before`; the switches are all."""
    old = {core.name: core for core in before}
    counted = ("frames", "busy_s", "modelled_s")
    return [
        replace(core, **{key: getattr(core, key) - getattr(old[core.name], key) for key in counted})
        if core.name in old
        else core
        for core in now
    ]


class _Progress:
    """Tells how far a run is, now and then."""

    def __init__(self, told: Told, totals: Sequence[int | None], begun_s: float) -> None:
        self._told, self._begun_s, self._looked_s = told, begun_s, begun_s
        known = [total for total in totals if total is not None]
        self._total = sum(known) if len(known) == len(totals) else None

    def look(self, done: int) -> None:
        """So many frames are done."""
        now = time.perf_counter()
        if now - self._looked_s > LOOK_S or done == self._total:
            self._told(done, self._total, done / (now - self._begun_s))
            self._looked_s = now


def _results(
    owner: scheduler.Scheduler, pipelines: Sequence[Operator], runs: Sequence[SourceRun], options: StreamOptions
) -> Results:
    """(source, frame, what is in it), as they come."""
    streams = [
        owner.stream(
            run.source, pipeline, max_in_flight=options.max_in_flight, queue_depths=cast("list[int]", run.depths)
        )
        for run, pipeline in zip(runs, pipelines, strict=True)
    ]
    merged = _numbered(streams[0]) if len(streams) == 1 else _several(owner, streams, options.order)
    try:
        with closing(merged):
            for at, frame, seen in merged:
                if frame is not None or seen is not None:  # else this stream is at its end
                    yield at, frame, seen
    except RuntimeError as error:
        raise _plain(error) from error


def _numbered(stream: Any) -> Results:
    """One stream as several are given."""
    with closing(stream):
        for frame, seen in stream:
            yield 0, frame, seen


def _several(owner: scheduler.Scheduler, streams: Sequence[Any], order: Order) -> Results:
    made = owner.multistream(streams, order=order)
    assert made is not None  # there is no callback
    return made


def _plain(error: RuntimeError) -> BaseException:
    """What a user can mend, with the number of the frame, where that is the cause of a frame's failure."""
    cause = error.__cause__
    if isinstance(error, AxError) or not isinstance(cause, AxError):
        return error
    frame = str(error).partition(":")[0]
    return type(cause)(
        f"{frame}: {cause}", hint=cause.hint, code=cause.code, details=cause.details
    )  # fmt: skip
