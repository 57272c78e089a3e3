"""What a scheduler and its streams are given that is none: refused at once, with what there is instead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from axtool.errors import UsageError
from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from tests.runtime.left_behind import nothing_left


class Remembers(op.Operator):
    """Counts the frames that it saw."""

    stateful: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._seen = 0

    def __call__(self, frame: Any) -> Any:
        self._seen += 1
        return self._seen


@pytest.fixture(autouse=True)
def _clean() -> Any:
    with nothing_left():
        yield


@pytest.mark.parametrize("selector", ["2", "metis-0:9:0", "0,metis-0:7:0", "-1", "nonsense"])
def test_a_selector_that_names_no_board_is_refused_with_those_that_exist(selector: str) -> None:
    with machine.simulated("metis-pcie*2"), pytest.raises(UsageError) as caught:
        scheduler.Scheduler(devices=selector)
    assert selector.rpartition(",")[2] in str(caught.value)
    said = f"{caught.value} {caught.value.hint} {' '.join(caught.value.details)}"
    assert "metis-0:1:0" in said
    assert "metis-0:2:0" in said


@pytest.mark.parametrize("selector", ["0,0", "metis-0:1:0,0", "1,metis-0:2:0"])
def test_a_selector_that_names_a_board_twice_is_refused(selector: str) -> None:
    with machine.simulated("metis-pcie*2"), pytest.raises(UsageError, match="twice"):
        scheduler.Scheduler(devices=selector)


@pytest.mark.parametrize("workers", [0, -3])
def test_workers_are_at_least_one(workers: int) -> None:
    with scheduler.create(num_workers=workers) as own:
        assert [result for _, result in own.stream(range(9), op.seq(op.identity()))] == list(range(9))


def test_an_unknown_split_is_refused_with_the_names_there_are() -> None:
    pipeline = op.seq(op.identity(name="first"), op.identity(name="second"))
    with scheduler.create() as own, pytest.raises(ValueError, match="thrid") as caught:
        own.stream(range(3), pipeline, split_at="thrid")
    assert "first" in str(caught.value)
    assert "second" in str(caught.value)


@pytest.mark.parametrize("callback", [3, "display", [print]])
def test_a_callback_that_cannot_be_called_is_refused_at_once(callback: Any) -> None:
    pipeline = op.seq(op.identity())
    with scheduler.create() as own:
        with pytest.raises(TypeError, match="call"):
            own.stream(range(3), pipeline, frame_callback=callback)
        with pytest.raises(TypeError, match="call"):
            own.with_callback([pipeline.stream(range(3))], callback)
        with pytest.raises(TypeError, match="call"):
            own.multistream([pipeline.stream(range(3))], on_frame=callback)


def test_a_missing_file_is_refused_at_once_and_an_exhausted_source_is_an_empty_stream(tmp_path: Path) -> None:
    pipeline = op.seq(op.identity())
    spent = iter([1])
    next(spent)
    with scheduler.create() as own:
        with pytest.raises(UsageError, match="nowhere"):
            own.stream(str(tmp_path / "nowhere.mp4"), pipeline)
        assert list(own.stream(spent, pipeline)) == []


def test_two_streams_that_share_a_pipeline_with_a_memory_are_told_to_copy_it() -> None:
    pipeline = op.seq(op.identity(), Remembers())
    with scheduler.create() as own:
        first = own.stream(range(5), pipeline)
        next(first)
        with pytest.raises(UsageError, match="Remembers") as caught:
            list(own.stream(range(5), pipeline))
        assert "pipeline.copy()" in caught.value.hint
        assert len(list(first)) == 4
        assert len(list(own.stream(range(5), pipeline))) == 5  # one after another is what a copy is not needed for


def test_streams_of_copies_have_a_memory_each() -> None:
    pipeline = op.seq(Remembers())
    with scheduler.create() as own:
        streams = [own.stream(range(20), pipeline.copy()) for _ in range(3)]
        seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for number, frame, result in own.as_available(streams):
            if frame is not None:
                seen[number].append(result)
    assert seen == {key: list(range(1, 21)) for key in range(3)}


USES: dict[str, Callable[[scheduler.Scheduler, op.Seq], Any]] = {
    "stream": lambda own, pipeline: list(own.stream(range(2), pipeline)),
    "batch": lambda own, pipeline: own.batch(pipeline, (range(2),)),
    "exec_model": lambda own, _: own.exec_model("any.axm", [np.zeros(1)], [np.zeros(1)]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_scheduler_says_so(use: Callable[[scheduler.Scheduler, op.Seq], Any]) -> None:
    own = scheduler.Scheduler()
    own.close()
    own.close()
    with pytest.raises(RuntimeError, match="closed"):
        use(own, op.seq(op.identity()))


def test_a_stream_that_outlives_its_scheduler_ends_with_an_error_that_says_so() -> None:
    own = scheduler.Scheduler()
    stream = own.stream(iter(int, 1), op.seq(op.identity()))
    next(stream)
    closer = threading.Thread(target=own.close)
    closer.start()
    closer.join()
    with pytest.raises(RuntimeError, match="closed"):
        list(stream)
