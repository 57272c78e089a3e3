"""`batch`: results in the order of the inputs, whoever is done first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from axtool.runtime import op
from axtool.runtime.profiler import OperatorProfiler
from axtool.runtime.scheduler.batch import batch
from tests.runtime.stream_case import PoolOwner

WAIT_S = 10.0


class Overlapping(op.Operator):
    """Waits until as many frames are inside as the pool has threads."""

    stateful: ClassVar[bool] = False

    def __init__(self, parties: int) -> None:
        self._together = threading.Barrier(parties)
        super().__init__()

    def __call__(self, x: int) -> int:
        self._together.wait(WAIT_S)
        time.sleep(0.002 * (x % 3 == 0))
        return 10 * x


@pytest.fixture
def owner() -> Iterator[PoolOwner]:
    made = PoolOwner(workers=4, cores=2)
    yield made
    made.close()


def test_a_batch_runs_in_parallel_and_gives_the_results_in_the_order_of_the_inputs(owner: PoolOwner) -> None:
    assert batch(owner, op.seq(Overlapping(4)), (list(range(12)),)) == [10 * x for x in range(12)]


def test_each_input_is_one_argument_of_the_pipeline_as_a_list_or_an_array(owner: PoolOwner) -> None:
    add = op.seq(lambda a, b: a + b)
    assert batch(owner, add, ([1, 2], np.array([10, 20]))) == [11, 22]
    pictures = [np.full((4, 4, 3), value, np.uint8) for value in range(3)]
    for given in ((pictures,), (np.stack(pictures),), tuple(pictures)):
        assert batch(owner, op.seq(lambda picture: int(picture[0, 0, 0])), given) == [0, 1, 2]


def test_no_inputs_have_no_results(owner: PoolOwner) -> None:
    assert batch(owner, op.seq(op.identity()), ()) == batch(owner, op.seq(op.identity()), ([],)) == []


def test_as_many_values_of_each_argument_are_wanted(owner: PoolOwner) -> None:
    with pytest.raises(ValueError, match="the arguments have 2, 3 frames; want as many of each"):
        batch(owner, op.seq(lambda a, b: a + b), ([1, 2], [1, 2, 3]))


@pytest.mark.parametrize("given", [(3,), (np.zeros((4, 4, 3), np.uint8), [1]), (np.float32(1),), 3, "ab"])
def test_what_is_no_list_of_frames_is_refused(owner: PoolOwner, given: Any) -> None:
    with pytest.raises(TypeError, match="batch wants"):
        batch(owner, op.seq(op.identity()), given)


def test_the_frame_that_failed_is_named(owner: PoolOwner) -> None:
    with pytest.raises(RuntimeError, match=r"^frame 3: <lambda>: ZeroDivisionError"):
        batch(owner, op.seq(lambda x: 1 / x), ([3, 2, 1, 0, 5],))


def test_a_stateful_operator_sees_the_frames_of_a_batch_in_order(owner: PoolOwner) -> None:
    seen: list[int] = []
    batch(owner, op.seq(Overlapping(4), op.observer(seen.append)), (list(range(12)),))
    assert seen == [10 * x for x in range(12)]


def test_batches_of_one_pipeline_from_several_threads_have_the_right_results(owner: PoolOwner) -> None:
    pipeline = op.seq(lambda x: 2 * x, op.identity())
    made: dict[int, list[int]] = {}

    def work(number: int) -> None:
        made[number] = batch(owner, pipeline, (list(range(number, number + 30)),))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert made == {number: [2 * x for x in range(number, number + 30)] for number in range(6)}


def test_an_operator_may_run_a_batch_itself_in_a_pool_of_one() -> None:
    owner = PoolOwner(workers=1, cores=1)
    inner = op.seq(lambda x: x + 1)
    outer = op.seq(lambda x: sum(batch(owner, inner, (list(range(x)),))))
    assert batch(owner, outer, ([1, 2, 3],)) == [1, 3, 6]
    owner.close()


def test_a_profiler_of_the_calling_thread_records_the_operators_of_a_batch(owner: PoolOwner) -> None:
    with OperatorProfiler() as profiler:
        batch(owner, op.seq(op.identity()), ([1, 2, 3],))
    assert [row.durations.count for row in profiler.rows("operator")] == [3]
    assert profiler.rows("stage") == ()  # nothing is pulled from a source


def test_a_closed_scheduler_takes_no_batch(owner: PoolOwner) -> None:
    owner.close()
    with pytest.raises(RuntimeError, match="closed"):
        batch(owner, op.seq(op.identity()), ([1],))
