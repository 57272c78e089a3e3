"""Several streams at once: in turn, as they arrive, with a callback; what ends one of them, and how all are left."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, ClassVar

import pytest

from axtool.runtime import op
from axtool.runtime.scheduler import multi
from axtool.runtime.scheduler.stream import stream
from tests.runtime.stream_case import CURRENT, PoolOwner

WAIT_S = 10.0
Frames = Generator[tuple[Any, Any], None, None]


class Fails(Exception):
    """What a stream of these tests fails with."""


@pytest.fixture
def owner() -> Iterator[PoolOwner]:
    made = PoolOwner(workers=4, cores=2)
    yield made
    made.close()


def numbers(count: int, error: Exception | None = None) -> Frames:
    """(x, -x) of 0 to count - 1, then an error if there is one."""
    for x in range(count):
        yield x, -x
    if error is not None:
        raise error


def doubled(owner: PoolOwner, source: Iterable[int]) -> Frames:
    return stream(owner, source, op.seq(lambda x: 2 * x))


def run(owner: PoolOwner, streams: Iterable[Iterable[Any]], order: str, calls: list[Any] | None = None) -> list[Any]:
    """What comes out in either mode, up to an error."""
    if calls is not None:
        assert multi.multistream(owner, streams, order=order, on_frame=lambda *call: calls.append(call)) is None
        return calls
    triples = multi.multistream(owner, streams, order=order)
    assert triples is not None
    return list(triples)


# ---- round_robin


def test_round_robin_takes_one_frame_of_each_stream_in_turn_and_says_when_one_is_exhausted(owner: PoolOwner) -> None:
    assert list(multi.round_robin(owner, [numbers(1), numbers(3), numbers(2)])) == [
        (0, 0, 0), (1, 0, 0), (2, 0, 0),
        (0, None, None), (1, 1, -1), (2, 1, -1),
        (1, 2, -2), (2, None, None),
        (1, None, None),
    ]  # fmt: skip


def test_round_robin_pulls_in_the_calling_thread_and_streams_never_overlap(owner: PoolOwner) -> None:
    inside, threads = 0, set()

    def watched() -> Frames:
        nonlocal inside
        for x in range(5):
            inside += 1
            assert inside == 1
            threads.add(threading.get_ident())
            time.sleep(0.001)
            inside -= 1
            yield x, x

    list(multi.round_robin(owner, [watched(), watched()]))
    assert threads == {threading.get_ident()}


def test_round_robin_takes_the_sum_of_every_streams_cost(owner: PoolOwner) -> None:
    def slow() -> Frames:
        for x in range(4):
            time.sleep(0.01)
            yield x, x

    start = time.monotonic()
    list(multi.round_robin(owner, [slow(), slow(), slow()]))
    assert time.monotonic() - start >= 0.12


def test_a_failing_stream_of_round_robin_is_dropped_and_raised_when_all_others_have_drained(owner: PoolOwner) -> None:
    error, seen = Fails("one"), []
    with pytest.raises(Fails) as caught:
        seen += multi.round_robin(owner, [numbers(1, error), numbers(4)])
    assert caught.value is error
    assert seen == [
        (0, 0, 0), (1, 0, 0), (0, None, error), (1, 1, -1), (1, 2, -2), (1, 3, -3), (1, None, None),
    ]  # fmt: skip


def test_of_several_that_fail_round_robin_raises_the_first(owner: PoolOwner) -> None:
    with pytest.raises(Fails, match=r"^first$"):
        list(multi.round_robin(owner, [numbers(3, Fails("second")), numbers(1, Fails("first"))]))


def test_what_ends_a_program_is_not_put_off_by_round_robin(owner: PoolOwner) -> None:
    def quits() -> Frames:
        raise SystemExit(3)
        yield

    other = numbers(10)
    with pytest.raises(SystemExit):
        list(multi.round_robin(owner, [quits(), other]))
    assert list(other) == []  # closed


def test_round_robin_that_is_left_closes_its_streams(owner: PoolOwner) -> None:
    streams = [numbers(10), numbers(10)]
    turns = multi.round_robin(owner, streams)
    next(turns)
    next(turns)
    turns.close()
    assert [list(one) for one in streams] == [[], []]


# ---- as_available


def test_as_available_gives_every_frame_of_every_stream_in_its_order_and_says_when_it_is_finished(
    owner: PoolOwner,
) -> None:
    seen = list(multi.as_available(owner, [doubled(owner, range(count)) for count in (5, 0, 9)]))
    for index, count in enumerate((5, 0, 9)):
        mine = [(given, result) for number, given, result in seen if number == index]
        assert mine == [*((x, 2 * x) for x in range(count)), (None, None)]


def test_as_available_iterates_each_stream_in_a_thread_of_its_own(owner: PoolOwner) -> None:
    def threads() -> Frames:
        together.wait(WAIT_S)
        yield 0, threading.get_ident()

    together = threading.Barrier(3)
    seen = {result for _, _, result in multi.as_available(owner, [threads() for _ in range(3)]) if result}
    assert len(seen) == 3
    assert threading.get_ident() not in seen


def test_a_slow_stream_does_not_hold_back_the_frames_of_others(owner: PoolOwner) -> None:
    go = threading.Event()

    def stalled() -> Frames:
        assert go.wait(WAIT_S)
        yield 0, "late"

    seen = []
    for triple in multi.as_available(owner, [stalled(), numbers(6)]):
        seen.append(triple)
        if triple == (1, None, None):
            go.set()
    assert seen[-2:] == [(0, 0, "late"), (0, None, None)]


def test_a_stream_runs_only_a_handful_of_frames_ahead_of_the_consumer(owner: PoolOwner) -> None:
    pulled = 0

    def counted() -> Frames:
        nonlocal pulled
        while True:
            pulled += 1
            yield pulled, pulled

    triples = multi.as_available(owner, [counted()])
    for handed in range(1, 50):
        next(triples)
        assert pulled <= handed + multi.HELD + 1
    time.sleep(0.02)
    assert pulled <= 49 + multi.HELD + 1
    triples.close()


def test_as_available_raises_as_soon_as_the_failing_stream_surfaces(owner: PoolOwner) -> None:
    error = Fails("cable")
    left = threading.Event()

    def endless() -> Frames:
        try:
            while True:
                yield 0, 0
        finally:
            left.set()

    seen = []
    with pytest.raises(Fails) as caught:
        seen += multi.as_available(owner, [endless(), numbers(2, error)])
    assert caught.value is error
    assert left.wait(WAIT_S)
    assert not [triple for triple in seen if triple[1] is None]


def test_frames_of_a_failing_stream_come_before_its_error(owner: PoolOwner) -> None:
    triples = multi.as_available(owner, [numbers(9, Fails())])
    seen = [next(triples) for _ in range(9)]
    with pytest.raises(Fails):
        next(triples)
    assert seen == [(0, x, -x) for x in range(9)]


def test_what_ends_a_program_in_a_stream_ends_as_available(owner: PoolOwner) -> None:
    def quits() -> Frames:
        raise SystemExit(3)
        yield

    with pytest.raises(SystemExit):
        list(multi.as_available(owner, [quits()]))


def test_as_available_that_is_left_leaves_no_thread(owner: PoolOwner) -> None:
    before = set(threading.enumerate())
    streams = [doubled(owner, iter(int, 1)) for _ in range(8)]
    triples = multi.as_available(owner, streams)
    for _ in range(20):
        next(triples)
    triples.close()
    assert set(threading.enumerate()) <= before
    assert [list(one) for one in streams] == [[]] * 8


def test_as_available_that_is_never_begun_starts_no_thread(owner: PoolOwner) -> None:
    before = set(threading.enumerate())
    multi.as_available(owner, [numbers(3)]).close()
    multi.as_available(owner, [numbers(3)])
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("how", ["left", "error"])
def test_cleaning_up_waits_a_bounded_time_for_a_source_that_hangs_in_a_daemon_thread(
    owner: PoolOwner, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert multi.PATIENCE_S == 5.0
    monkeypatch.setattr(multi, "PATIENCE_S", 0.1)
    go, hung = threading.Event(), []

    def wedged() -> Frames:
        hung.append(threading.current_thread())
        assert go.wait(WAIT_S)
        yield 0, 0

    triples = multi.as_available(owner, [wedged(), numbers(1, Fails() if how == "error" else None)])
    assert next(triples) == (1, 0, 0)
    start = time.monotonic()
    if how == "left":
        triples.close()
    else:
        with pytest.raises(Fails):
            next(triples)
    assert time.monotonic() - start < 2
    assert hung[0].daemon
    go.set()
    hung[0].join(WAIT_S)


def test_threads_of_streams_have_the_scheduler_as_the_current_one(owner: PoolOwner) -> None:
    def current() -> Frames:
        yield 0, CURRENT.get()

    assert {result for _, given, result in multi.as_available(owner, [current()]) if given is not None} == {owner}


# ---- with_callback


def test_with_callback_calls_for_each_frame_and_once_more_when_a_stream_finishes_and_blocks_until_then(
    owner: PoolOwner,
) -> None:
    calls: list[Any] = []
    assert multi.with_callback(owner, [numbers(3), numbers(0)], lambda *call: calls.append(call)) is None
    assert [call for call in calls if call[0] == 0] == [(0, 0, 0), (0, 1, -1), (0, 2, -2), (0, None, None)]
    assert [call for call in calls if call[0] == 1] == [(1, None, None)]


def test_the_callback_is_entered_concurrently_on_each_streams_own_thread(owner: PoolOwner) -> None:
    together = threading.Barrier(3)
    threads: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}

    def callback(index: int, given: Any, _: Any) -> None:
        threads[index].add(threading.get_ident())
        if given is not None:
            together.wait(WAIT_S)  # passes only when the three are inside at once

    multi.with_callback(owner, [doubled(owner, range(4)) for _ in range(3)], callback)
    assert [len(mine) for mine in threads.values()] == [1, 1, 1]
    assert len(set.union(*threads.values())) == 3


def test_an_error_of_a_stream_stops_the_others_and_is_raised_when_all_have_finished(owner: PoolOwner) -> None:
    error, calls = Fails("cable"), []

    def endless() -> Frames:
        while True:
            time.sleep(0.001)
            yield 0, 0

    with pytest.raises(Fails) as caught:
        multi.with_callback(owner, [endless(), numbers(2, error)], lambda *call: calls.append(call))
    assert caught.value is error
    assert (1, None, error) in calls
    assert (0, None, None) in calls  # stopped, not failed


@pytest.mark.parametrize("at", ["frame", "end"])
def test_an_error_of_the_callback_stops_the_others_and_is_raised(owner: PoolOwner, at: str) -> None:
    def callback(index: int, given: Any, _: Any) -> None:
        if index == 1 and (given is None) == (at == "end"):
            raise Fails(at)

    with pytest.raises(Fails, match=at):
        multi.with_callback(owner, [doubled(owner, iter(int, 1)), numbers(1)], callback)


def test_the_first_error_that_is_recorded_is_the_one_that_is_raised(owner: PoolOwner) -> None:
    first_failed = threading.Event()

    def second() -> Frames:
        assert first_failed.wait(WAIT_S)
        raise Fails("second")
        yield

    def callback(index: int, _: Any, result: Any) -> None:
        if isinstance(result, Fails) and index == 0:
            first_failed.set()

    with pytest.raises(Fails, match=r"^first$"):
        multi.with_callback(owner, [numbers(0, Fails("first")), second()], callback)


def test_ctrl_c_in_the_caller_stops_the_streams(owner: PoolOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        multi.with_callback(owner, [doubled(owner, iter(int, 1)) for _ in range(3)], lambda *_: None)
    assert set(threading.enumerate()) <= before


# ---- multistream


@pytest.mark.parametrize("order", ["as_available", "round_robin"])
@pytest.mark.parametrize("callback", [False, True])
def test_the_four_combinations_give_the_same_frames(owner: PoolOwner, order: str, callback: bool) -> None:
    calls = run(owner, [doubled(owner, range(4)), doubled(owner, range(2))], order, [] if callback else None)
    assert [call for call in calls if call[0] == 0] == [*((0, x, 2 * x) for x in range(4)), (0, None, None)]
    assert [call for call in calls if call[0] == 1] == [*((1, x, 2 * x) for x in range(2)), (1, None, None)]


def test_the_order_is_as_available_if_none_is_given(owner: PoolOwner) -> None:
    go = threading.Event()

    def stalled() -> Frames:
        assert go.wait(WAIT_S)
        yield 0, 0

    triples = multi.multistream(owner, [stalled(), numbers(2)])
    assert triples is not None
    assert [next(triples), next(triples)] == [(1, 0, 0), (1, 1, -1)]  # round_robin would wait for the first stream
    go.set()
    triples.close()


@pytest.mark.parametrize("order", ["as_available", "round_robin"])
def test_on_frame_is_called_in_the_calling_thread_for_round_robin_and_in_others_for_as_available(
    owner: PoolOwner, order: str
) -> None:
    threads: set[int] = set()
    multi.multistream(
        owner, [numbers(2), numbers(2)], order=order, on_frame=lambda *_: threads.add(threading.get_ident())
    )
    assert (threads == {threading.get_ident()}) == (order == "round_robin")


def test_a_callback_in_turn_gets_the_error_and_the_call_raises_it_when_the_others_have_drained(
    owner: PoolOwner,
) -> None:
    error, calls = Fails(), []
    with pytest.raises(Fails):
        run(owner, [numbers(1, error), numbers(3)], "round_robin", calls)
    assert calls[2] == (0, None, error)
    assert calls[-1] == (1, None, None)


def test_a_callback_in_turn_that_raises_closes_the_streams(owner: PoolOwner) -> None:
    streams = [numbers(9), numbers(9)]

    def callback(*_: Any) -> None:
        raise Fails("callback")

    with pytest.raises(Fails, match="callback"):
        multi.multistream(owner, streams, order="round_robin", on_frame=callback)
    assert list(streams[0]) == []


# ---- what is refused


def test_an_unknown_order_is_refused_with_those_there_are(owner: PoolOwner) -> None:
    with pytest.raises(ValueError, match="no order 'round-robin'; did you mean round_robin"):
        multi.multistream(owner, [], order="round-robin")


def test_what_cannot_be_called_is_refused(owner: PoolOwner) -> None:
    with pytest.raises(TypeError, match="callback is a int, want a function"):
        multi.with_callback(owner, [], 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_frame is a str"):
        multi.multistream(owner, [], on_frame="show")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [multi.round_robin, multi.as_available])
def test_what_are_no_streams_is_refused_at_once(owner: PoolOwner, method: Any) -> None:
    for streams, words in ((3, "streams is a int"), ("ab", "streams is a str"), ([numbers(1), 3], "stream 1 is a int")):
        with pytest.raises(TypeError, match=words):
            method(owner, streams)
    same = numbers(3)
    with pytest.raises(ValueError, match="streams 0 and 2 are the same one"):
        method(owner, [same, numbers(1), same])


def test_no_streams_are_finished_at_once(owner: PoolOwner) -> None:
    assert list(multi.round_robin(owner, [])) == list(multi.as_available(owner, [])) == []
    multi.with_callback(owner, [], lambda *_: None)


@pytest.mark.parametrize("order", ["as_available", "round_robin"])
def test_what_gives_no_pairs_is_said_with_the_number_of_its_stream(owner: PoolOwner, order: str) -> None:
    with pytest.raises(TypeError, match="stream 1 gave a int, want pairs of a frame and its result"):
        run(owner, [numbers(1), [1, 2]], order)


def test_a_closed_scheduler_takes_no_streams(owner: PoolOwner) -> None:
    owner.close()
    for method in (multi.round_robin, multi.as_available):
        with pytest.raises(RuntimeError, match="closed"):
            method(owner, [])
    with pytest.raises(RuntimeError, match="closed"):
        multi.with_callback(owner, [], lambda *_: None)


def test_streams_may_be_run_together_inside_an_operator_in_a_pool_of_one() -> None:
    owner = PoolOwner(workers=1, cores=1)

    class Together(op.Operator):
        """Two streams at once for each frame."""

        stateful: ClassVar[bool] = False

        def __call__(self, count: int) -> int:
            return len(list(multi.as_available(owner, [doubled(owner, range(count)), doubled(owner, range(count))])))

    done: list[Any] = []
    thread = threading.Thread(
        target=lambda: done.extend(result for _, result in stream(owner, range(4), op.seq(Together()))), daemon=True
    )
    thread.start()
    thread.join(WAIT_S)
    assert done == [2 * count + 2 for count in range(4)]
    owner.close()


def test_sixty_four_streams_through_as_available_lose_no_frame(owner: PoolOwner) -> None:
    streams = [stream(owner, range(50), op.seq(op.identity())) for _ in range(64)]
    counts = [0] * 64
    for index, given, result in multi.as_available(owner, streams):
        assert given is None or given == result == counts[index]
        counts[index] += given is not None
    assert counts == [50] * 64
