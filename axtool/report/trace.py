"""Timings of a compiled model  ->  a trace in Chrome's event format, which Perfetto and chrome://tracing open.

One process is the chip, one thread of it an engine. Every span is a complete event (`ph` X) with `ts` and `dur` in
microseconds; names of the process and its threads are metadata events (`ph` M). The format counts in nanoseconds, and
a cycle may be shorter: the exact cycles are in `args`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from math import nextafter, ulp
from typing import Any

from axtool.report.profile import Profiled
from axtool.timing.ledger import LayerTime

# From outside to inside; a lane that is not here comes behind.
LANES = ("control", "dma read", "dma write", "near read", "port", "array", "mac", "vector")
PROCESS = 1


def trace_json(model: str, profiled: Profiled) -> bytes:
    """The whole file, one event a line. Stages follow each other: the host's time between them is not in it."""
    events = trace_events(model, profiled)
    about = {"model": model, "target": profiled.target.name, "clock_hz": profiled.target.clock_hz, "modelled": True}
    lines = ",\n".join(json.dumps(event, sort_keys=True, allow_nan=False) for event in events)
    head = json.dumps(about, sort_keys=True)
    return f'{{"displayTimeUnit": "ns", "otherData": {head}, "traceEvents": [\n{lines}\n]}}\n'.encode()


def trace_events(model: str, profiled: Profiled) -> list[dict[str, Any]]:
    """Metadata, then the spans by begin. Inside a lane no span begins before the one in front has ended."""
    clock_hz = profiled.target.clock_hz
    used = {event.lane for timing in profiled.timings for event in timing.events}
    lanes = [lane for lane in LANES if lane in used] + sorted(used - set(LANES))
    threads = {lane: number for number, lane in enumerate(lanes, 1)}
    begins = [0, *accumulate(timing.total for timing in profiled.timings)]
    spans = [
        (begin + event.start, begin + event.end, threads[event.lane], event, timing.layers[event.layer])
        for begin, timing in zip(begins, profiled.timings, strict=False)
        for event in timing.events
    ]
    spans.sort(key=lambda span: span[:3])
    return [
        *_metadata(f"{model} on {profiled.target.name}, modelled", lanes),
        *(
            {
                "ph": "X", "pid": PROCESS, "tid": thread, "name": layer.name, "cat": event.category,
                **_times(start, end, clock_hz), "args": _args(start, end, event.category, layer),
            }
            for start, end, thread, event, layer in spans
        ),
    ]  # fmt: skip


def _metadata(process: str, lanes: Sequence[str]) -> list[dict[str, Any]]:
    def named(kind: str, thread: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "pid": PROCESS, "tid": thread, "ts": 0, "name": kind, "args": args}

    made = [named("process_name", 0, name=process)]
    for thread, lane in enumerate(lanes, 1):
        made += [named("thread_name", thread, name=lane), named("thread_sort_index", thread, sort_index=thread)]
    return made


def _args(start: int, end: int, category: str, layer: LayerTime) -> dict[str, Any]:
    return {
        "cycles": end - start, "start_cycle": start, "category": category, "layer": layer.name, "index": layer.index,
        "op": layer.op, "origin": ", ".join(layer.origin), "bound": layer.bound,
    }  # fmt: skip


def _times(start: int, end: int, clock_hz: float) -> dict[str, float]:
    """`ts` and `dur`, both ends on whole nanoseconds: rounding both the same way keeps what touches apart.

    A reader truncates `ts * 1000`, and adds in floats: `ts` is never below its nanosecond, `ts + dur` never above the
    end.
    """
    begin_ns, end_ns = (round(cycle / clock_hz * 1e9) for cycle in (start, end))
    begin, last = _microseconds(begin_ns), _microseconds(end_ns)
    length = (end_ns - begin_ns) / 1e3
    while length > 0 and begin + length > last:
        length = max(length - ulp(last), 0.0)
    return {"ts": begin, "dur": length}


def _microseconds(nanoseconds: int) -> float:
    value = nanoseconds / 1e3
    return value if int(value * 1e3) >= nanoseconds else nextafter(value, float("inf"))
