"""Many frames, many streams, many schedulers: all in order, and afterwards the process holds what it held before."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from tests.conftest import Tiny
from tests.runtime.fault_plan import numbered
from tests.runtime.left_behind import nothing_left, resident_bytes
from tests.runtime.watchdog import watchdog

FLAT_BYTES = 8 << 20  # what the allocator may round up over any number of frames


@pytest.fixture(autouse=True)
def _bounded(request: pytest.FixtureRequest) -> Iterator[None]:
    with watchdog(1800.0 if request.node.get_closest_marker("slow") else 120.0):
        yield


def counted(frames: int) -> tuple[int, int]:
    """Stream so many no-op frames. Gives the bytes that memory grew by after the first tenth, and the frames."""
    after_a_tenth, done = 0, 0
    with scheduler.create() as own:
        for given, result in own.stream(iter(range(frames)), op.seq(op.identity())):
            assert given == result == done
            done += 1
            if done == frames // 10:
                after_a_tenth = resident_bytes()
        return resident_bytes() - after_a_tenth, done


@pytest.mark.parametrize("frames", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_memory_stays_flat_over_any_number_of_frames(frames: int) -> None:
    with nothing_left():
        grown, done = counted(frames)
    assert done == frames
    assert grown < FLAT_BYTES


@pytest.mark.parametrize("frames", [20, pytest.param(2_000, marks=pytest.mark.slow)])
def test_64_streams_at_once_are_each_whole_and_in_order(frames: int) -> None:
    came: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ended: dict[int, object] = {}
    with nothing_left(), scheduler.create() as own:
        pipeline = op.seq(op.identity())
        streams = [own.stream(range(number, number + frames), pipeline.copy()) for number in range(64)]
        for number, given, result in own.as_available(streams):
            if given is None:
                ended[number] = result
            else:
                came[number].append((given, result))
    assert ended == dict.fromkeys(range(64))
    assert dict(came) == {n: [(frame, frame) for frame in range(n, n + frames)] for n in range(64)}


@pytest.mark.parametrize("cycles", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_schedulers_that_come_and_go_leave_no_thread_and_no_memory(cycles: int) -> None:
    pipeline = op.seq(op.identity())

    def cycle() -> None:
        with scheduler.create(num_workers=2) as own:
            assert [result for _, result in own.stream(range(6), pipeline)] == list(range(6))
            assert own.batch(pipeline, ([0, 1, 2],)) == [0, 1, 2]

    with nothing_left():
        for _ in range(cycles // 10):
            cycle()
        before, threads = resident_bytes(), threading.active_count()
        for _ in range(cycles - cycles // 10):
            cycle()
            assert threading.active_count() <= threads
    assert resident_bytes() - before < FLAT_BYTES


@pytest.mark.parametrize("boards", ["metis-pcie", "metis-process"])
def test_a_closed_scheduler_that_somebody_still_holds_has_nothing(boards: str, tiny_models: Tiny) -> None:
    pipeline = op.seq(op.letterbox(8, 8), op.to_tensor(), op.load(tiny_models / "two.axm"))
    with machine.simulated(boards), nothing_left():
        with scheduler.create() as own:
            assert len(list(own.stream([numbered(0)] * 9, pipeline))) == 9
        assert not own.is_connected
