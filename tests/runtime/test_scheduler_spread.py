"""On how many cores a batch runs: as many as are worth their switches, those of other models too."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

import numpy as np
import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.devices.seam import DeviceLost
from axtool.runtime.scheduler import Scheduler
from axtool.runtime.scheduler.cores import CoreView
from axtool.runtime.scheduler.default import close_default
from axtool.runtime.scheduler.spread import last_end, models_of, spread, worthwhile
from tests.conftest import Tiny
from tests.runtime.scheduler_boards import FakeBoard, FakeInstance, at_once, boards, model

FRAME_S = 1e-3


def views(*cores: tuple[str | None, float, float], busy: tuple[int, ...] = ()) -> list[CoreView]:
    """Cores by what they hold, seconds to load 'mine', seconds to put back what they hold."""
    return [
        CoreView(index, holds, index not in busy, switch_s, back_s, FRAME_S)
        for index, (holds, switch_s, back_s) in enumerate(cores)
    ]


MINE = ("mine", 0.0, 0.0)
EMPTY = (None, 5e-3, 0.0)
OTHER = ("other", 5e-3, 4e-3)


def slowly(frames: int, frame_s: float, ready: list[float]) -> float:
    """`last_end`, one frame after another."""
    ends = list(ready)
    heapify(ends)
    last = 0.0
    for _ in range(frames):
        last = max(last, ends[0] + frame_s)
        heapreplace(ends, ends[0] + frame_s)
    return last


def test_the_last_end_is_that_of_giving_each_frame_to_the_core_that_is_soonest_done() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        frames, count = int(rng.integers(1, 200)), int(rng.integers(1, 17))
        ready = [float(value) for value in rng.choice([0.0, 0.5, 3.0, 40.0], count) * rng.random(count)]
        assert last_end(frames, 0.1, ready) == pytest.approx(slowly(frames, 0.1, ready))


def test_a_small_batch_stays_on_the_cores_that_hold_its_model() -> None:
    assert worthwhile(1, "mine", views(MINE, EMPTY, OTHER)) == ()
    assert worthwhile(4, "mine", views(MINE, EMPTY, OTHER)) == ()


def test_an_empty_core_is_worth_it_when_the_batch_ends_sooner() -> None:
    assert worthwhile(7, "mine", views(MINE, EMPTY)) == (1,)  # 7 ms on one, 6 on two


def test_another_models_core_is_taken_only_when_what_is_saved_pays_for_the_way_there_and_back() -> None:
    assert worthwhile(12, "mine", views(MINE, OTHER)) == ()  # 12 ms on one, 9 on two: 3 saved, 4 to put it back
    assert worthwhile(16, "mine", views(MINE, OTHER)) == (1,)  # 16 on one, 11 on two


def test_a_core_that_alone_saves_nothing_is_taken_where_several_together_do() -> None:
    cores = [("mine", 0.0, 0.0)] + [(None, 1e-6, 0.0)] * 5
    assert (
        len(worthwhile(5, "mine", views(*cores))) == 4
    )  # 5 frames end after 2 on three or four cores, after 1 on five


def test_many_cores_and_frames_are_weighed_quickly() -> None:
    cores = views(MINE, *[EMPTY] * 511, *[OTHER] * 512)
    start = time.process_time()
    assert len(worthwhile(10**6, "mine", cores)) == 1023
    assert time.process_time() - start < 1


def test_empty_cores_come_before_those_of_others_and_cores_at_work_are_left() -> None:
    cores = (MINE, OTHER, EMPTY, OTHER, EMPTY)
    assert worthwhile(20, "mine", views(*cores)) == (2, 4)
    assert worthwhile(1000, "mine", views(*cores)) == (2, 4, 1, 3)
    assert worthwhile(1000, "mine", views(*cores, busy=(1,))) == (2, 4, 3)


def test_nothing_is_taken_where_nothing_says_what_a_frame_takes() -> None:
    unknown = [CoreView(index, "mine" if index == 0 else None, True, 0.0, 0.0, None) for index in range(3)]
    assert worthwhile(1000, "mine", unknown) == ()
    assert worthwhile(1000, "mine", views(EMPTY, EMPTY)) == ()


class OnCore:
    """The device part of a model that hands back what it is given, in 2 ms."""

    def __init__(self, name: str, allocation: int | str | None = None) -> None:
        self.model = replace(model(name, allocation), plans=(None,))  # one stage, which the board says takes 2 ms

    def run(self, buffers: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return scheduler.current().run_stage(self.model, 0, buffers)


def pipeline(*parts: OnCore) -> op.Seq:
    steps = [(op.AxRuntimeModel(part, model=part.model.name), op.itemgetter(0)) for part in parts]  # type: ignore[arg-type]
    return op.seq(*[step for pair in steps for step in pair])


@pytest.fixture
def fake() -> FakeBoard:
    """A board of four cores: a frame takes 2 ms, a switch of models 1 ms."""
    made = FakeBoard()
    made.work = lambda _: time.sleep(0.002)
    return made


@pytest.fixture
def board(fake: FakeBoard) -> Iterator[Scheduler]:
    """A scheduler on that board."""
    close_default()
    with boards(fake), scheduler.create() as owner:
        yield owner


def on_cores(owner: Scheduler, part: OnCore) -> int:
    """How many cores hold a model."""
    return sum(view.holds == part.model.key for view in owner.connected().view(part.model))


def frames(count: int) -> list[np.ndarray]:
    return [np.full((1, 2, 2, 4), index, np.int8) for index in range(count)]


def test_a_large_batch_takes_the_cores_of_a_model_that_rests_and_a_small_one_does_not(board: Scheduler) -> None:
    other, mine = OnCore("other"), OnCore("mine")
    pipeline(other).batch(frames(40))
    assert on_cores(board, other) == 4
    pipeline(mine).batch(frames(2))
    assert (on_cores(board, mine), on_cores(board, other)) in ((1, 3), (2, 2))
    results = pipeline(mine).batch(frames(120))
    assert [int(result[0, 0, 0, 0]) for result in results] == list(range(120))
    assert on_cores(board, mine) > 2  # its equal share is two


def test_a_stream_keeps_to_its_share(board: Scheduler) -> None:
    other, mine = OnCore("other"), OnCore("mine")
    pipeline(other).batch(frames(40))
    list(pipeline(mine).stream(frames(40)))
    assert (on_cores(board, mine), on_cores(board, other)) == (2, 2)


def test_batches_of_one_model_at_the_same_time_have_the_right_results(board: Scheduler) -> None:
    other, mine = OnCore("other"), OnCore("mine")
    pipeline(other).batch(frames(40))
    made = at_once(*[lambda: current_batch(board, mine) for _ in range(3)])
    assert made == [list(range(60))] * 3


def current_batch(owner: Scheduler, part: OnCore) -> list[int]:
    return [int(result[0, 0, 0, 0]) for result in owner.batch(pipeline(part), (frames(60),))]


def test_while_a_batch_has_a_loan_for_its_model_another_gets_none(board: Scheduler) -> None:
    mine = OnCore("mine")
    pipeline(mine).batch(frames(2))
    with board.connected().lent(mine.model, (2, 3)) as first, spread(board, pipeline(mine), 1000):
        assert first
        with board.connected().lent(mine.model, (1,)) as second:
            assert not second
    with board.connected().lent(mine.model, (1,)) as again:
        assert again


def test_a_model_with_an_allocation_keeps_to_it(board: Scheduler) -> None:
    mine = OnCore("mine", 1)
    pipeline(mine).batch(frames(60))
    assert on_cores(board, mine) == 1


def test_of_two_models_in_a_pipeline_neither_takes_the_cores_of_the_other(board: Scheduler) -> None:
    one, two = OnCore("one"), OnCore("two")
    results = pipeline(one, two).batch(frames(60))
    assert [int(result[0, 0, 0, 0]) for result in results] == list(range(60))
    assert (on_cores(board, one), on_cores(board, two)) == (2, 2)
    assert board.stats().switches <= 8


def test_a_batch_goes_on_when_cores_that_it_took_die(board: Scheduler, fake: FakeBoard) -> None:
    other, mine = OnCore("other"), OnCore("mine")
    pipeline(other).batch(frames(40))
    ran = 0

    def work(instance: FakeInstance) -> None:
        nonlocal ran
        ran += 1
        time.sleep(0.002)
        if ran > 30 and instance.core in (1, 2, 3):
            raise DeviceLost(f"core {instance.core}")

    fake.work = work
    results = pipeline(mine).batch(frames(120))
    assert [int(result[0, 0, 0, 0]) for result in results] == list(range(120))
    assert [core.alive for core in board.stats().cores] == [True, False, False, False]
    with board.connected().lent(mine.model, ()) as free:
        assert free  # the loan of the batch has ended


def test_a_batch_that_fails_gives_its_cores_back(board: Scheduler) -> None:
    mine = OnCore("mine")
    with pytest.raises(RuntimeError, match="frame 50"):
        op.seq(pipeline(mine), lambda frame: 1 // (50 - int(frame[0, 0, 0, 0]))).batch(frames(100))
    with board.connected().lent(mine.model, (1,)) as free:
        assert free


def test_a_pipeline_without_a_model_connects_nothing(board: Scheduler) -> None:
    assert op.seq(lambda x: x + 1).batch([1, 2, 3]) == [2, 3, 4]
    assert not board.is_connected


def test_the_models_of_a_pipeline_are_found_wherever_they_are(tiny_models: Tiny) -> None:
    loaded = op.load(tiny_models / "two.axm")
    inside = op.seq(op.par(op.for_each(loaded), op.identity()), loaded.copy())
    assert [found.name for found in models_of(inside)] == [loaded.device.part.model.name]
