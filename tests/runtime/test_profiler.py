"""`OperatorProfiler`: leaves alone, from every thread that works for who looks, and free when nobody does."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import Any

import numpy as np
import pytest

from axtool.runtime import OperatorProfiler, op, profiler
from axtool.runtime.profiler import Kind
from tests.conftest import Tiny


def names(found: OperatorProfiler, kind: Kind = "operator") -> list[str]:
    return [row.name for row in found.rows(kind)]


def double(x: int) -> int:
    return 2 * x


def test_each_leaf_operator_is_counted_and_timed() -> None:
    def slow(x: int) -> int:
        time.sleep(0.01)
        return x

    pipeline = op.seq(double, slow)
    with OperatorProfiler() as found:
        assert [pipeline(x) for x in range(3)] == [0, 2, 4]
    fast, waits = found.rows()
    assert (fast.name, waits.name, fast.durations.count, waits.durations.count) == ("double", "slow", 3, 3)
    assert waits.durations.min_s >= 0.01
    assert fast.durations.max_s < 0.01
    assert waits.effective_fps == pytest.approx(1 / waits.durations.mean_s)


def test_what_holds_operators_is_not_counted_beside_them() -> None:
    pipeline = op.seq(op.par(double, op.seq(double, name="inner")), op.pack(), op.for_each(double))
    with OperatorProfiler() as found:
        pipeline(1)
    assert names(found) == ["double", "double", "Pack", "double"]
    assert [row.durations.count for row in found.rows()] == [1, 1, 1, 2]


def test_an_operator_of_the_user_that_calls_others_is_not_counted_beside_them() -> None:
    class CallsAnotherPipeline(op.Operator):
        def __call__(self, value: Any) -> Any:
            return op.seq(double)(value)

    with OperatorProfiler() as found:
        assert op.seq(CallsAnotherPipeline())(4) == 8
    assert names(found) == ["double"]


def test_a_loaded_model_is_shown_by_its_operators(tiny_models: Tiny) -> None:
    pipeline = op.seq(op.letterbox(16, 16), op.to_tensor(), op.load(tiny_models / "cls.axm"))
    with OperatorProfiler() as found:
        pipeline(np.zeros((20, 30, 3), np.uint8))
    assert "LoadedSeq" not in names(found)
    assert names(found)[:2] == ["Letterbox", "ToTensor"]
    assert "AxRuntimeModel" in names(found)


def test_a_name_that_the_user_gave_is_the_one_shown() -> None:
    with OperatorProfiler() as found:
        op.seq(op.identity(name="look here"))(1)
    assert names(found) == ["look here"]


def test_outside_the_block_nothing_is_recorded() -> None:
    with OperatorProfiler() as found:
        pass
    op.seq(double)(1)
    assert found.rows() == ()
    assert profiler.active() is None


def test_an_operator_that_fails_is_not_counted() -> None:
    def breaks(_: int) -> int:
        raise ValueError("no")

    with OperatorProfiler() as found, pytest.raises(ValueError, match="no"):
        op.seq(double, breaks)(1)
    assert names(found) == ["double"]


def test_the_innermost_profiler_is_the_one_that_records() -> None:
    with OperatorProfiler() as outer:
        op.seq(double)(1)
        with OperatorProfiler() as inner:
            op.seq(double)(1)
        op.seq(double)(1)
    assert sum(row.durations.count for row in outer.rows()) == 2
    assert sum(row.durations.count for row in inner.rows()) == 1


def test_a_profiler_may_be_entered_again_and_goes_on() -> None:
    pipeline, found = op.seq(double), OperatorProfiler()
    for _ in range(2):
        with found:
            pipeline(1)
    assert [row.durations.count for row in found.rows()] == [2]


def test_threads_that_run_in_a_copy_of_the_context_record_every_call() -> None:
    pipeline = op.seq(double)
    with OperatorProfiler(keep_events=10_000) as found:
        contexts = [contextvars.copy_context() for _ in range(8)]
        threads = [
            threading.Thread(target=context.run, args=(lambda: [pipeline(x) for x in range(500)],), name=f"worker {n}")
            for n, context in enumerate(contexts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [row.durations.count for row in found.rows()] == [4000]
    assert {event.lane for event in found.events} == {f"worker {n}" for n in range(8)}


def test_a_thread_with_a_context_of_its_own_is_not_watched() -> None:
    with OperatorProfiler() as found:
        thread = threading.Thread(target=contextvars.Context().run, args=(op.seq(double), 1))
        thread.start()
        thread.join()
    assert found.rows() == ()


def test_a_stage_is_what_was_recorded_under_its_name() -> None:
    with OperatorProfiler(keep_events=5) as found:
        profiler.active().record_stage("source_pull", 0.25)  # type: ignore[union-attr]
        found.record_stage("source_pull", 0.75)
    assert found.rows() == ()
    (row,) = found.rows("stage")
    assert (row.name, row.durations.count, row.durations.total_s) == ("source_pull", 2, 1.0)
    assert found.events[0].end_s - found.events[0].start_s == pytest.approx(0.25)


def test_cores_have_rows_by_model_with_what_the_chip_would_take() -> None:
    found = OperatorProfiler(keep_events=10)
    found.record_core("metis-0:1:0/0", "a.axm", 1.0, 0.5, 0.002)
    found.record_core("metis-0:1:0/0", "b.axm", 2.0, 0.5, None)
    found.record_core("metis-0:1:0/0", "b.axm", 1.5, 0.25, 0.1, switch=True)
    rows = found.rows("core")
    assert [(row.core, row.name) for row in rows] == [("metis-0:1:0/0", "a.axm"), ("metis-0:1:0/0", "b.axm")]
    assert rows[0].modelled is not None
    assert rows[0].modelled.total_s == 0.002
    assert rows[1].modelled is None
    assert [row.durations.total_s for row in found.rows("switch")] == [0.25]
    assert {event.lane for event in found.events} == {"metis-0:1:0/0"}


def test_events_say_their_frame_where_the_stream_numbers_them() -> None:
    def one(index: int) -> None:
        profiler.number_frame(index)
        op.seq(double)(index)

    with OperatorProfiler(keep_events=10) as found:
        op.seq(double)(0)
        for index in range(2):
            contextvars.copy_context().run(one, index)
    assert [event.frame for event in found.events] == [None, 0, 1]


def test_no_more_events_are_kept_than_asked_for_and_the_others_counted() -> None:
    pipeline = op.seq(double)
    with OperatorProfiler(keep_events=3) as found:
        for x in range(10):
            pipeline(x)
    assert (len(found.events), found.dropped_events, found.rows()[0].durations.count) == (3, 7, 10)


@pytest.mark.parametrize("option", ["keep_events", "skip_frames"])
def test_the_number_of_events_and_of_frames_must_not_be_negative(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is -1"):
        OperatorProfiler(**{option: -1})


@pytest.mark.parametrize(("frames", "counted"), [(5, 3), (2, 2)])
def test_the_first_frames_of_a_stream_are_left_out_unless_there_are_no_others(frames: int, counted: int) -> None:
    def cold(x: int) -> int:
        time.sleep(0.02 if x < 2 else 0)
        return x

    with OperatorProfiler(keep_events=100, skip_frames=2) as found:
        assert [made for _, made in op.seq(cold).stream(range(frames), max_in_flight=1)] == list(range(frames))
    (row,) = found.rows()
    assert row.durations.count == counted
    assert (row.durations.max_s < 0.02) is (frames > 2)
    assert [row.durations.count for row in found.rows("stage")] == [frames]
    assert len(found.events) == 2 * frames


def test_a_call_that_is_of_no_stream_is_not_left_out() -> None:
    with OperatorProfiler(skip_frames=4) as found:
        op.seq(double)(1)
    assert [row.durations.count for row in found.rows()] == [1]


def test_rows_that_were_read_do_not_change() -> None:
    pipeline = op.seq(double)
    with OperatorProfiler() as found:
        pipeline(1)
        before = found.rows()
        pipeline(1)
    assert [row.durations.count for row in before] == [1]


def test_the_text_has_element_time_and_effective_rate() -> None:
    with OperatorProfiler() as found:
        found.record_stage("source_pull", 0.002)
        op.seq(double)(1)
    lines = str(found).splitlines()
    assert lines[0].split() == ["Element", "Time", "(µs)", "Effective", "FPS", "Calls"]
    assert lines[1].split() == ["source_pull", "2,000.0", "500.0", "1"]
    assert lines[2].startswith("double")


def test_the_profilers_cost_is_small_when_nobody_looks() -> None:
    pipeline, steps = op.seq(*[double] * 10), [double] * 10

    def best(work: Any) -> float:
        seconds = []
        for _ in range(30):
            start = time.perf_counter()
            for _ in range(200):
                work()
            seconds.append((time.perf_counter() - start) / 200)
        return min(seconds)

    def plain() -> None:
        value: Any = 1
        for step in steps:
            value = step(value)

    off = best(lambda: pipeline(1)) - best(plain)
    assert off < 50e-6  # 10 operators of Python, unwatched: about 4 µs


def test_the_copies_of_a_pipeline_are_printed_as_one_and_their_rows_stand_apart() -> None:
    class Adds(op.Operator):
        seen: int = 0

        def __call__(self, value: int) -> int:
            self.seen += value
            return self.seen

    first = op.seq(double, Adds(), double)
    second = first.copy()
    third = second.copy()
    with OperatorProfiler() as found:
        assert [pipeline(1) for pipeline in (first, second, third)] == [4, 4, 4]
    table = [line.split()[::3] for line in str(found).splitlines()[1:]]
    assert table == [["double", "3"], ["Adds", "3"], ["double", "3"]]
    assert len(found.rows()) == 9
    assert str(found) == str(found)  # to print adds nothing to it


def test_operators_of_one_kind_that_are_no_copies_are_printed_apart() -> None:
    with OperatorProfiler() as found:
        op.seq(double, double)(1)
        op.seq(double)(1)
    assert len(str(found).splitlines()) == 4
