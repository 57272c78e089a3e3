"""`stream`, sentence by sentence: order, window, threads, prefix and callback, and what is recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from axtool.runtime import geometry, op
from axtool.runtime.cv import create_source
from axtool.runtime.profiler import OperatorProfiler
from axtool.runtime.scheduler.stream import stream
from tests.runtime.stream_case import CURRENT, WAIT_S, Anyhow, PoolOwner


@pytest.fixture
def owner() -> Iterator[PoolOwner]:
    made = PoolOwner(workers=4, cores=2)
    yield made
    made.close()


def test_every_frame_comes_with_its_result_in_the_order_of_the_source_whichever_is_done_first(owner: PoolOwner) -> None:
    first_may_end = threading.Event()

    def work(x: int) -> int:
        if x == 0:
            assert first_may_end.wait(WAIT_S)
        if x == 3:
            first_may_end.set()
        return 10 * x

    assert list(stream(owner, range(8), op.seq(Anyhow(work)))) == [(x, 10 * x) for x in range(8)]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_no_more_than_max_in_flight_frames_are_submitted_and_not_yet_yielded(owner: PoolOwner, window: int) -> None:
    pulled = 0

    def source() -> Iterator[int]:
        nonlocal pulled
        for x in range(30):
            pulled += 1
            yield x

    for handed, _ in enumerate(stream(owner, source(), op.seq(op.identity()), max_in_flight=window)):
        assert pulled - handed <= window


def test_the_default_window_is_four_frames_per_core_deeper_than_the_cores_and_the_pool() -> None:
    pulled = [0]
    owner = PoolOwner(workers=4, cores=2)
    stop = threading.Event()

    def source() -> Iterator[int]:
        for x in range(100):
            pulled[0] += 1
            if pulled[0] == 8:
                threading.Timer(0.05, stop.set).start()
            yield x

    frames = stream(owner, source(), op.seq(Anyhow(lambda x: stop.wait(WAIT_S))))
    next(frames)
    assert pulled[0] == 8
    frames.close()
    owner.close()


def test_with_a_window_of_one_operators_are_called_in_the_current_thread(owner: PoolOwner) -> None:
    threads = {made for _, made in stream(owner, range(4), op.seq(lambda _: threading.get_ident()), max_in_flight=1)}
    assert threads == {threading.get_ident()}


def test_with_a_larger_window_operators_are_called_in_the_pool_several_at_a_time(owner: PoolOwner) -> None:
    together = threading.Barrier(4)

    def work(_: int) -> int:
        together.wait(WAIT_S)
        return threading.get_ident()

    threads = {made for _, made in stream(owner, range(8), op.seq(Anyhow(work)))}
    assert threads == {thread.ident for thread in owner.workers.threads}


def test_a_worker_resolves_the_current_scheduler_to_its_owner_and_so_does_the_thread_that_runs_a_window_of_one(
    owner: PoolOwner,
) -> None:
    for window in (1, 4):
        assert {made for _, made in stream(owner, range(6), op.seq(lambda _: CURRENT.get()), max_in_flight=window)} == {
            owner
        }
    assert CURRENT.get() is None


def test_a_stateful_operator_sees_the_frames_one_at_a_time_in_order_and_others_overlap(owner: PoolOwner) -> None:
    inside, most, seen = 0, 0, []

    def slow_for_even_frames(x: int) -> int:
        time.sleep(0.002 * (x % 2 == 0))
        return x

    def tracker(x: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        seen.append(x)
        time.sleep(0.001)
        inside -= 1
        return x

    results = list(stream(owner, range(40), op.seq(Anyhow(slow_for_even_frames), tracker, op.identity())))
    assert seen == list(range(40)) == [result for _, result in results]
    assert most == 1


def test_an_operator_that_is_used_twice_finishes_with_a_frame_before_it_sees_the_next(owner: PoolOwner) -> None:
    seen: list[tuple[str, int]] = []
    tracker = op.observer(lambda x: seen.append((threading.current_thread().name, x)))
    list(stream(owner, range(20), op.seq(tracker, Anyhow(lambda x: x), tracker)))
    assert [x for _, x in seen] == [x for x in range(20) for _ in range(2)]


def test_frames_that_wait_for_their_turn_take_no_worker_from_other_streams() -> None:
    owner = PoolOwner(workers=2, cores=2)
    go = threading.Event()
    stuck = stream(owner, range(8), op.seq(lambda x: go.wait(WAIT_S)))
    reader = threading.Thread(target=lambda: list(stuck))
    reader.start()
    time.sleep(0.05)
    assert [result for _, result in stream(owner, range(50), op.seq(Anyhow(lambda x: x)))] == list(range(50))
    go.set()
    reader.join(WAIT_S)
    owner.close()


def test_the_prefix_runs_once_per_frame_in_the_driving_thread_and_the_rest_in_the_pool(owner: PoolOwner) -> None:
    before: list[int] = []
    behind: list[int] = []

    def prepare(x: int) -> int:
        before.append(threading.get_ident())
        return x + 100

    def rest(x: int) -> int:
        behind.append(threading.get_ident())
        return 2 * x

    pipeline = op.seq(Anyhow(prepare), Anyhow(lambda x: x + 1, name="undistort"), Anyhow(rest))
    streamed = list(stream(owner, range(9), pipeline, split_at="undistort"))
    assert streamed == [(x, 2 * (x + 101)) for x in range(9)]
    assert before == [threading.get_ident()] * 9
    assert len(behind) == 9
    assert threading.get_ident() not in behind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("undistrot", r"no operator named 'undistrot'; did you mean undistort\?"),
        ("", "no operator named ''; known: undistort, twice, part"),
        ("twice", "2 operators are named 'twice'"),
        ("inner", "'inner' is inside of Seq 'part'"),
    ],
)
def test_a_split_at_no_operator_of_the_pipeline_is_a_value_error_with_the_names_there_are(
    owner: PoolOwner, name: str, words: str
) -> None:
    pipeline = op.seq(
        op.identity(name="undistort"), op.identity(name="twice"), op.identity(name="twice"),
        op.seq(op.identity(name="inner"), name="part"),
    )  # fmt: skip
    with pytest.raises(ValueError, match=words):
        stream(owner, [1], pipeline, split_at=name)


def test_a_pipeline_without_names_cannot_be_split(owner: PoolOwner) -> None:
    with pytest.raises(ValueError, match="none of its operators has a name"):
        stream(owner, [1], op.seq(op.identity()), split_at="undistort")


@pytest.mark.parametrize("window", [None, 1])
def test_the_callback_gets_the_preprocessed_frame_in_the_driving_thread_before_inference(
    owner: PoolOwner, window: int | None
) -> None:
    log: list[tuple[str, Any, int]] = []

    def infer(x: Any) -> Any:
        log.append(("infer", x, threading.get_ident()))
        return x

    pipeline = op.seq(op.identity(name="start"), lambda x: [x], op.identity(name="ready"), infer)

    def shown(frame: Any) -> None:
        assert not any(kind == "infer" and value is frame for kind, value, _ in log)
        log.append(("show", frame, threading.get_ident()))

    list(stream(owner, range(5), pipeline, split_at="ready", frame_callback=shown, max_in_flight=window))
    shows = [(value, thread) for kind, value, thread in log if kind == "show"]
    assert shows == [([x], threading.get_ident()) for x in range(5)]
    inferred = [value for kind, value, _ in log if kind == "infer"]
    assert all(left is right for left, (right, _) in zip(inferred, shows, strict=True))  # the same object, no copy


def test_without_a_split_the_callback_gets_the_raw_frame_that_inference_gets(owner: PoolOwner) -> None:
    shown: list[Any] = []
    frames = [np.zeros((4, 4, 3), np.uint8) for _ in range(3)]
    results = [result for _, result in stream(owner, frames, op.seq(op.identity()), frame_callback=shown.append)]
    assert [id(frame) for frame in frames] == [id(frame) for frame in shown] == [id(result) for result in results]


def test_the_next_frame_is_not_pulled_before_the_callback_returns(owner: PoolOwner) -> None:
    log: list[str] = []

    def source() -> Iterator[int]:
        for x in range(4):
            log.append("pull")
            yield x

    def shown(_: int) -> None:
        log.append("enter")
        time.sleep(0.002)
        log.append("leave")

    list(stream(owner, source(), op.seq(op.identity()), frame_callback=shown))
    assert log == ["pull", "enter", "leave"] * 4


@pytest.mark.parametrize("window", [None, 1])
def test_a_profiler_of_the_calling_thread_records_operators_of_the_pool_and_every_pull(
    owner: PoolOwner, window: int | None
) -> None:
    with OperatorProfiler(keep_events=100) as profiler:
        list(stream(owner, iter(range(7)), op.seq(op.identity(), Anyhow(lambda x: x)), max_in_flight=window))
    assert {row.name: row.durations.count for row in profiler.rows("stage")} == {"source_pull": 7}
    assert [row.durations.count for row in profiler.rows("operator")] == [7, 7]
    assert {event.frame for event in profiler.events if event.kind == "operator"} == set(range(7))


class Decoder:
    """A source that says how many frames it holds."""

    def __init__(self, frames: list[int]) -> None:
        self.frames, self.closed = frames, False

    def queue_depth(self) -> int:
        return len(self.frames)

    def close(self) -> None:
        self.closed = True

    def __iter__(self) -> Iterator[int]:
        while self.frames:
            yield self.frames.pop(0)


def test_the_depth_of_the_source_is_appended_after_each_pull(owner: PoolOwner) -> None:
    depths: list[int] = []
    list(stream(owner, Decoder([5, 6, 7, 8]), op.seq(op.identity()), queue_depths=depths))
    assert depths == [3, 2, 1, 0]


def test_no_depth_is_appended_for_a_source_that_has_none(owner: PoolOwner) -> None:
    depths: list[int] = []
    assert len(list(stream(owner, [1, 2], op.seq(op.identity()), queue_depths=depths))) == 2
    assert depths == []


def test_a_source_of_the_caller_is_left_open(owner: PoolOwner) -> None:
    source = Decoder([1, 2])
    list(stream(owner, source, op.seq(op.identity())))
    assert not source.closed


def test_a_source_that_says_that_it_has_nothing_yet_does_not_hold_back_a_result(owner: PoolOwner) -> None:
    asked = threading.Event()

    class Camera:
        """One frame at once, the next when the first result was seen."""

        depth = 1

        def listen(self, callback: object) -> None:
            """As sources that say when a pull would wait."""

        def queue_depth(self) -> int:
            return 1 if asked.is_set() else self.depth

        def __iter__(self) -> Iterator[int]:
            self.depth = 0
            yield 1
            assert asked.wait(WAIT_S)
            yield 2

    frames = stream(owner, Camera(), op.seq(Anyhow(lambda x: time.sleep(0.02))))
    assert next(frames)[0] == 1
    asked.set()
    assert next(frames)[0] == 2


@pytest.mark.parametrize("live", [True, False])
def test_a_source_that_reads_ahead_does_not_hold_back_a_result_either(owner: PoolOwner, live: bool) -> None:
    asked = threading.Event()

    def camera() -> Iterator[np.ndarray]:
        yield np.zeros((4, 4, 3), np.uint8)
        assert asked.wait(WAIT_S)
        yield np.ones((4, 4, 3), np.uint8)

    with create_source(camera(), live_source=live) as source:
        frames = stream(owner, source, op.seq(Anyhow(lambda x: time.sleep(0.02))))
        next(frames)
        asked.set()
        assert len(list(frames)) == 1


def test_a_finished_frame_goes_out_before_a_pull_that_may_block(owner: PoolOwner) -> None:
    done, seen = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield 1
        assert done.wait(WAIT_S)
        time.sleep(0.02)  # until the pool has let go of it
        yield 2
        assert seen.wait(WAIT_S), "a third pull came before the first result went out"
        yield 3

    frames = stream(owner, source(), op.seq(Anyhow(lambda x: done.set())))
    assert next(frames)[0] == 1
    seen.set()
    assert [x for x, _ in frames] == [2, 3]


def test_each_frame_has_its_own_geometry_and_one_that_is_open_outside_stays(owner: PoolOwner) -> None:
    pipeline = op.seq(op.resize(8, 8), Anyhow(lambda x: geometry.current()))
    frames = [np.zeros((height, 30, 3), np.uint8) for height in range(10, 40)]
    with op.frame_context(np.zeros((5, 5, 3), np.uint8)) as outside:
        for frame, made in stream(owner, frames, pipeline):
            assert made.image_size == (30, frame.shape[0])
            assert made.model_size == (8, 8)
        assert outside.model_size == (5, 5)


def test_a_named_sequence_opens_the_geometry_of_the_picture_that_it_is_given(owner: PoolOwner) -> None:
    inner = op.seq(op.resize(8, 8), Anyhow(lambda _: geometry.current()), name="inner")
    pipeline = op.seq(
        Anyhow(lambda size: np.zeros((size, 30, 3), np.uint8)), inner, Anyhow(lambda f: (f, geometry.current()))
    )
    for size, (inside, behind) in stream(owner, range(10, 20), pipeline):
        assert inside.image_size == (30, size)
        assert behind is None


def test_a_single_operator_and_a_function_are_pipelines_too(owner: PoolOwner) -> None:
    assert list(stream(owner, [1], op.identity())) == [(1, 1)]
    assert list(stream(owner, [1], lambda x: x + 1)) == [(1, 2)]  # type: ignore[arg-type]
