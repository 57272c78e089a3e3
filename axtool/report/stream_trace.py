"""A run over streams  ->  a trace in Chrome's event format: a lane for every thread and every core.

One process of the trace is the host, with a lane for each thread that ran operators or pulled frames; one is the
boards, with a lane for each core. Every span is a complete event (`ph` X) with `ts` and `dur` in microseconds since the
run began; what a core's frame takes on the chip is in its `args`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from axtool.runtime.op.operator import walk
from axtool.runtime.profiler import Event
from axtool.runtime.streams.run import StreamRun

HOST, BOARDS = 1, 2  # numbers of the two processes


def stream_trace(model: str, run: StreamRun) -> bytes:
    """The whole file, one event a line."""
    about = {
        "model": model, "measured": True, "dropped_events": run.profiler.dropped_events,
        "sources": [one.source.reader.name for one in run.sources],
    }  # fmt: skip
    lines = ",\n".join(json.dumps(event, sort_keys=True, allow_nan=False) for event in trace_events(run))
    head = json.dumps(about, sort_keys=True)
    return f'{{"displayTimeUnit": "ms", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'.encode()


def trace_events(run: StreamRun) -> list[dict[str, Any]]:
    """Metadata, then the spans by begin."""
    events = sorted(run.profiler.events, key=lambda event: event.start_s)
    threads = _numbered(sorted({event.lane for event in events if not _of_core(event)}, key=_naturally))
    cores = _numbered(sorted((core.name for core in run.cores), key=_naturally))
    copies = run.pipelines if len(run.pipelines) > 1 else ()
    streams = {id(inner): index for index, pipeline in enumerate(copies) for inner in walk(pipeline)}
    return [
        *_metadata(HOST, "host threads, measured", threads),
        *_metadata(BOARDS, "cores, measured", cores),
        *(_span(event, threads, cores, streams, run.begun_s) for event in events),
    ]


def _span(
    event: Event, threads: Mapping[str, int], cores: Mapping[str, int], streams: Mapping[int, int], begun_s: float
) -> dict[str, Any]:
    core = _of_core(event)
    args: dict[str, Any] = {} if event.frame is None else {"frame": event.frame}
    stream = streams.get(id(event.operator))
    args |= {} if stream is None else {"stream": stream}
    args |= {} if event.modelled_s is None else {"modelled_us": 1e6 * event.modelled_s}
    return {
        "ph": "X", "pid": BOARDS if core else HOST, "tid": (cores if core else threads).get(event.lane, 0),
        "name": f"load {event.name}" if event.kind == "switch" else event.name, "cat": event.kind,
        "ts": round(1e6 * (event.start_s - begun_s), 3), "dur": round(1e6 * (event.end_s - event.start_s), 3),
        "args": args,
    }  # fmt: skip


def _of_core(event: Event) -> bool:
    return event.kind in ("core", "switch")


def _numbered(lanes: Iterable[str]) -> dict[str, int]:
    return {lane: number for number, lane in enumerate(lanes, 1)}


def _naturally(name: str) -> list[tuple[int, str]]:
    """Worker 2 before worker 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _metadata(process: int, name: str, lanes: Mapping[str, int]) -> list[dict[str, Any]]:
    def named(kind: str, thread: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "pid": process, "tid": thread, "ts": 0, "name": kind, "args": args}

    made = [named("process_name", 0, name=name)]
    for lane, number in lanes.items():
        made += [named("thread_name", number, name=lane), named("thread_sort_index", number, sort_index=number)]
    return made
