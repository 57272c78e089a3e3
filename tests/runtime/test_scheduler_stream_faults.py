"""What goes wrong in a `stream`: faults of operators, sources and callbacks, leaving, sharing, closing, refusals."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from axtool.errors import AxError, Exit, FitError
from axtool.runtime import op
from axtool.runtime.scheduler import flow
from axtool.runtime.scheduler.stream import stream
from tests.runtime.stream_case import WAIT_S, Anyhow, Counting, PoolOwner


@pytest.fixture
def owner() -> Iterator[PoolOwner]:
    made = PoolOwner(workers=4, cores=2)
    yield made
    made.close()


@pytest.mark.parametrize("window", [None, 1, 2])
@pytest.mark.parametrize("split_at", [None, "divide"])
def test_an_error_of_an_operator_names_its_frame_behind_the_results_before_it(
    owner: PoolOwner, window: int | None, split_at: str | None
) -> None:
    pipeline = op.seq(Anyhow(lambda x: 1 / x, name="divide"), op.identity())
    frames = stream(owner, iter([4, 2, 0, 1]), pipeline, max_in_flight=window, split_at=split_at)
    seen: list[float] = []
    with pytest.raises(RuntimeError, match=r"^frame 2: divide: ZeroDivisionError: ") as caught:
        seen += (result for _, result in frames)
    assert seen == [0.25, 0.5]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert list(frames) == []


@pytest.mark.parametrize("window", [None, 1])
def test_an_error_that_the_user_can_mend_keeps_its_code_hint_and_exit(owner: PoolOwner, window: int | None) -> None:
    def work(_: int) -> None:
        raise FitError("the board has no room", hint="a smaller model", code="board-full")

    with pytest.raises(RuntimeError, match="frame 0: work: FitError: the board has no room") as caught:
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
