"""`stream`, sentence by sentence: order, window, threads, prefix and callback, what is recorded, faults, leaving."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from axtool.errors import AxError, Exit, FitError
from axtool.runtime import geometry, op
from axtool.runtime.cv import create_source
from axtool.runtime.profiler import OperatorProfiler
from axtool.runtime.scheduler import flow
from axtool.runtime.scheduler.stream import stream
from tests.runtime.stream_case import CURRENT, PoolOwner

WAIT_S = 10.0  # far above what anything here takes; a test that waits so long has failed


class Anyhow(op.Operator):
    """A function that several threads may call at once, in any order."""

    stateful: ClassVar[bool] = False
    fn: Callable[..., Any]

    def __call__(self, *values: Any) -> Any:
        return self.fn(*values)


class Counting(op.Operator):
    """An operator with a memory: how many it has seen."""

    seen: int = 0

    def __call__(self, value: Any) -> tuple[Any, int]:
        self.seen += 1
        return value, self.seen


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


@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("split_at", [None, "divide"])
def test_an_error_of_an_operator_names_its_frame_behind_the_results_before_it(
    owner: PoolOwner, window: int | None, split_at: str | None
) -> None:
    pipeline = op.seq(Anyhow(lambda x: 1 / x, name="divide"), op.identity())
    frames = stream(owner, iter([4, 2, 0, 1]), pipeline, max_in_flight=window, split_at=split_at)
    seen: list[float] = []
    with pytest.raises(RuntimeError, match=r"^frame 2: Anyhow: ZeroDivisionError: ") as caught:
        seen += (result for _, result in frames)
    assert seen == [0.25, 0.5]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert list(frames) == []


@pytest.mark.parametrize("window", [None, 1])
def test_an_error_that_the_user_can_mend_keeps_its_code_hint_and_exit(owner: PoolOwner, window: int | None) -> None:
    def work(_: int) -> None:
        raise FitError("the board has no room", hint="a smaller model", code="board-full")

    with pytest.raises(RuntimeError, match="frame 0: Function: FitError: the board has no room") as caught:
        list(stream(owner, range(3), op.seq(work), max_in_flight=window))
    error = caught.value
    assert isinstance(error, AxError)
    assert (error.hint, error.code, error.exit) == ("a smaller model", "board-full", Exit.DOES_NOT_FIT)
    assert isinstance(error.__cause__, FitError)


def test_behind_a_frame_that_failed_a_stateful_operator_sees_no_more_frames(owner: PoolOwner) -> None:
    seen: list[int] = []
    pipeline = op.seq(Anyhow(lambda x: 1 // (x - 5)), op.observer(seen.append))
    with pytest.raises(RuntimeError, match="frame 5"):
        list(stream(owner, range(100), pipeline))
    time.sleep(0.01)
    assert len(seen) == 5


@pytest.mark.parametrize("window", [None, 1])
def test_an_error_of_the_source_comes_unchanged_behind_its_frames(owner: PoolOwner, window: int | None) -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise OSError("the cable is out")

    frames = stream(owner, source(), op.seq(Anyhow(lambda x: time.sleep(0.005))), max_in_flight=window)
    seen: list[int] = []
    with pytest.raises(OSError, match="the cable is out"):
        seen += (x for x, _ in frames)
    assert seen == list(range(5))


@pytest.mark.parametrize("window", [None, 1])
def test_a_frame_that_cannot_be_looked_at_is_an_error_of_the_source(owner: PoolOwner, window: int | None) -> None:
    class Closed:
        """A picture whose file is closed."""

        @property
        def width(self) -> int:
            raise OSError("closed file")

    seen: list[Any] = []
    with pytest.raises(OSError, match="closed file"):
        seen += (x for x, _ in stream(owner, [1, 2, Closed()], op.seq(op.identity()), max_in_flight=window))
    assert seen == [1, 2]


@pytest.mark.parametrize("window", [None, 1])
def test_an_error_of_the_callback_comes_unchanged_behind_the_frames_before(
    owner: PoolOwner, window: int | None
) -> None:
    def shown(x: int) -> None:
        if x == 3:
            raise LookupError("no window")

    frames = stream(owner, range(9), op.seq(op.identity()), frame_callback=shown, max_in_flight=window)
    seen: list[int] = []
    with pytest.raises(LookupError, match="no window"):
        seen += (x for x, _ in frames)
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("window", [1, 4])
def test_what_ends_a_program_ends_the_stream(owner: PoolOwner, window: int) -> None:
    with pytest.raises(SystemExit):
        list(stream(owner, range(3), op.seq(sys.exit), max_in_flight=window))


def test_a_stream_that_is_left_drops_what_waits_and_waits_for_what_runs(owner: PoolOwner) -> None:
    begun: list[int] = []
    ended: list[int] = []

    def work(x: int) -> int:
        begun.append(x)
        time.sleep(0.02 if x else 0)
        ended.append(x)
        return x

    frames = stream(owner, iter(int, 1), op.seq(Anyhow(lambda _: work(len(begun)))), max_in_flight=50)
    next(frames)
    frames.close()
    assert sorted(begun) == sorted(ended)
    assert len(begun) < 50
    assert len(ended) == len(begun)


def test_leaving_waits_a_bounded_time_for_an_operator_that_hangs(
    owner: PoolOwner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flow, "PATIENCE_S", 0.1)
    go = threading.Event()
    frames = stream(owner, iter(int, 1), op.seq(Anyhow(lambda _: go.wait(WAIT_S) if begun.is_set() else begun.set())))
    begun = threading.Event()
    next(frames)
    start = time.monotonic()
    frames.close()
    assert time.monotonic() - start < 2
    assert "still runs" in caplog.text
    go.set()


def test_five_seconds_is_the_bound() -> None:
    assert flow.PATIENCE_S == 5.0


def test_a_closed_scheduler_lets_go_of_a_stream_that_waits(owner: PoolOwner) -> None:
    go = threading.Event()
    frames = stream(owner, range(9), op.seq(Anyhow(lambda _: go.wait(WAIT_S))))
    threading.Timer(0.05, owner.close).start()
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="closed"):
        next(frames)
    assert time.monotonic() - start < 5
    go.set()
    with pytest.raises(RuntimeError, match="closed"):
        stream(owner, range(3), op.seq(op.identity()))


def test_an_operator_may_stream_itself_in_a_pool_of_one() -> None:
    owner = PoolOwner(workers=1, cores=1)
    inner = op.seq(Anyhow(lambda x: x + 1))

    def nested(x: int) -> list[int]:
        return [result for _, result in stream(owner, range(x), inner)]

    outer = stream(owner, range(5), op.seq(Anyhow(nested)))
    assert [result for _, result in outer] == [list(range(1, x + 1)) for x in range(5)]
    owner.close()


def test_two_schedulers_whose_operators_stream_on_each_other_do_not_wait_for_ever() -> None:
    one, two = PoolOwner(workers=1, cores=1), PoolOwner(workers=1, cores=1)

    def back(x: int) -> list[int]:
        return [result for _, result in stream(one, range(x), op.seq(Anyhow(lambda y: y)))]

    def over(x: int) -> list[list[int]]:
        return [result for _, result in stream(two, range(x), op.seq(Anyhow(back)))]

    done: list[Any] = []
    thread = threading.Thread(
        target=lambda: done.extend(result for _, result in stream(one, range(4), op.seq(Anyhow(over)))), daemon=True
    )
    thread.start()
    thread.join(WAIT_S)
    assert len(done) == 4
    one.close()
    two.close()


def test_a_stateful_pipeline_in_two_live_streams_is_refused_by_the_name_of_its_operator(owner: PoolOwner) -> None:
    pipeline = op.seq(Counting(name="counter"))
    first = stream(owner, range(5), pipeline)
    second = stream(owner, range(5), pipeline)
    next(first)
    with pytest.raises(ValueError, match=r"Counting 'counter' keeps a memory .* another stream is using it"):
        next(second)
    with pytest.raises(ValueError, match="Counting 'counter'"):
        stream(owner, range(5), pipeline)
    copied = list(stream(owner, range(5), pipeline.copy()))
    first.close()
    assert len(list(stream(owner, range(5), pipeline))) == len(copied) == 5


def test_plain_functions_and_stateless_operators_may_be_in_two_live_streams(owner: PoolOwner) -> None:
    pipeline = op.seq(Anyhow(lambda x: x), lambda x: x + 1)
    one, two = stream(owner, range(5), pipeline), stream(owner, range(5), pipeline)
    assert [next(one), next(two), next(one)] == [(0, 1), (0, 1), (1, 2)]


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


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"max_in_flight": 0}, ValueError, "max_in_flight is 0, want at least 1"),
        ({"max_in_flight": 2.0}, TypeError, "max_in_flight is a float"),
        ({"max_in_flight": True}, TypeError, "max_in_flight is a bool"),
        ({"frame_callback": 3}, TypeError, "frame_callback is a int, want a function"),
        ({"queue_depths": 3}, TypeError, "queue_depths is a int, want a list"),
        ({"source": 3}, TypeError, "a stream reads a path, a URL or what gives frames one by one, got int"),
        ({"pipeline": 3}, TypeError, "a pipeline is made of operators and functions, got 3"),
    ],
)
def test_what_is_wrong_is_said_at_once(owner: PoolOwner, given: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        stream(owner, **{"source": [1], "pipeline": op.seq(op.identity()), **given})


def test_an_exhausted_source_gives_no_frames(owner: PoolOwner) -> None:
    source = iter([1, 2])
    assert len(list(stream(owner, source, op.seq(op.identity())))) == 2
    assert list(stream(owner, source, op.seq(op.identity()))) == []


def test_a_single_operator_and_a_function_are_pipelines_too(owner: PoolOwner) -> None:
    assert list(stream(owner, [1], op.identity())) == [(1, 1)]
    assert list(stream(owner, [1], lambda x: x + 1)) == [(1, 2)]  # type: ignore[arg-type]


def test_an_operator_with_a_memory_on_both_sides_of_a_split_is_refused(owner: PoolOwner) -> None:
    counter = Counting(name="counter")
    pipeline = op.seq(counter, op.identity(name="here"), counter)
    with pytest.raises(ValueError, match="Counting 'counter' remembers what it sees and is used before"):
        stream(owner, [1], pipeline, split_at="here")
    assert [result for _, result in stream(owner, [1], pipeline)] == [((1, 1), 2)]


def test_a_stream_that_is_forgotten_is_left(owner: PoolOwner) -> None:
    pipeline = op.seq(Counting())
    frames = stream(owner, iter(int, 1), pipeline)
    next(frames)
    del frames
    assert not owner.closers
    next(stream(owner, range(3), pipeline))


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("fault", ["operator", "source", "callback", "none"])
def test_frames_results_and_errors_are_let_go_without_the_garbage_collector(
    owner: PoolOwner, window: int | None, fault: str
) -> None:
    class Picture:
        """Something that says when it is let go."""

        def __init__(self) -> None:
            weakref.finalize(self, gone.append, 1)

    gone: list[int] = []

    def raises(kind: str) -> None:
        if kind == fault:
            raise LookupError(kind)

    def source() -> Iterator[Picture]:
        for _ in range(5):
            yield Picture()
        raises("source")

    def work(picture: Picture) -> Picture:
        if len(gone) >= 3:
            raises("operator")
        return picture

    def run() -> None:
        shown = (lambda _: raises("callback")) if fault == "callback" else None
        with contextlib.suppress(LookupError, RuntimeError):
            for _ in stream(owner, source(), op.seq(work), max_in_flight=window, frame_callback=shown):
                pass

    gc.disable()
    try:
        run()
        until = time.monotonic() + WAIT_S
        while fault == "none" and len(gone) < 5 and time.monotonic() < until:
            time.sleep(0.001)  # a thread of the pool lets its last one go when it turns to the next task
        assert len(gone) >= (5 if fault in ("none", "source") else 1)
    finally:
        gc.enable()
