"""The trace of a profile: what the format asks for, what the timing says, and how it is written."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axtool.report.profile import Profiled, Request, profile
from axtool.report.trace import _times, trace_events, trace_json
from tests.conftest import Tiny
from tests.tiny import axtool


@pytest.fixture(scope="module")
def profiled(tiny_models: Tiny) -> Profiled:
    return profile(Request(tiny_models / "cls.axm"))


def spans(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X"]


def test_every_event_is_a_span_or_metadata_with_numbers_for_times(profiled: Profiled) -> None:
    events = json.loads(trace_json("m", profiled))["traceEvents"]
    assert spans(events)
    for event in events:
        assert event["ph"] in ("X", "M")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], (int, float))
        if event["ph"] == "X":
            assert event["dur"] >= 0


def test_every_lane_has_a_name_and_is_an_engine(profiled: Profiled) -> None:
    events = trace_events("m", profiled)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in spans(events)} == set(names)
    assert set(names.values()) == {event.lane for timing in profiled.timings for event in timing.events}
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == [
        f"m on {profiled.target.name}, modelled"
    ]


def test_spans_are_sorted_and_none_overlaps_another_of_its_lane(profiled: Profiled) -> None:
    found = spans(trace_events("m", profiled))
    assert [span["ts"] for span in found] == sorted(span["ts"] for span in found)
    for lane in {span["tid"] for span in found}:
        for one, next_one in pairwise([span for span in found if span["tid"] == lane]):
            assert one["ts"] + one["dur"] <= next_one["ts"]


def test_a_span_has_the_cycles_of_its_event(profiled: Profiled) -> None:
    found = sorted((s["args"]["start_cycle"], s["args"]["cycles"]) for s in spans(trace_events("m", profiled)))
    (timing,) = profiled.timings
    assert found == sorted((event.start, event.end - event.start) for event in timing.events)
    last = max(event.end for event in timing.events)
    assert max(span["ts"] + span["dur"] for span in spans(trace_events("m", profiled))) == pytest.approx(
        last / timing.clock_hz * 1e6, abs=1e-3
    )


def test_the_second_stage_begins_where_the_first_ends(profiled: Profiled) -> None:
    twice = Profiled(profiled.target, profiled.stages * 2)
    (timing,) = profiled.timings
    starts = [span["args"]["start_cycle"] for span in spans(trace_events("m", twice))]
    assert min(start for start in starts if start >= timing.total) == timing.total + min(starts)


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 10**9), st.floats(1e6, 1e11))
def test_spans_that_touch_in_cycles_do_not_overlap_in_floats_or_in_nanoseconds(
    start: int, first: int, second: int, clock_hz: float
) -> None:
    one, two = _times(start, start + first, clock_hz), _times(start + first, start + first + second, clock_hz)
    assert one["ts"] + one["dur"] <= two["ts"]
    assert int(one["ts"] * 1e3) + int(one["dur"] * 1e3) <= int(two["ts"] * 1e3)
    assert one["dur"] == pytest.approx(first / clock_hz * 1e6, abs=2e-3, rel=1e-9)


def test_a_span_of_a_very_slow_chip_is_found_at_once() -> None:
    assert _times(10**18, 10**18 + 3, 1.0) == {"ts": 1e24, "dur": 0.0}


def test_a_trace_is_the_same_bytes_each_time(profiled: Profiled) -> None:
    assert trace_json("m", profiled) == trace_json("m", profiled)


def test_a_trace_replaces_a_file_only_with_force(tiny_models: Tiny, work: Path) -> None:
    words = ("profile", tiny_models / "cls.axm", "--trace", "out.json")
    assert axtool(*words).code == 0
    assert json.loads(Path("out.json").read_text())["otherData"]["modelled"] is True
    ran = axtool(*words, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "output-exists")
    assert axtool(*words, "--force").code == 0
    assert [path.name for path in work.iterdir()] == ["out.json"]


def test_a_trace_and_rows_of_one_name_are_refused(tiny_models: Tiny, work: Path) -> None:
    ran = axtool("profile", tiny_models / "cls.axm", "--trace", "out", "--csv", "out", "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "bad-option")
    assert list(work.iterdir()) == []
