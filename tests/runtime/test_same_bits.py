"""However many threads, cores and schedulers work on them, frames have the bits that they have one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.devices import machine
from tests.conftest import Tiny
from tests.runtime.fault_plan import numbered
from tests.runtime.left_behind import nothing_left
from tests.runtime.watchdog import watchdog

FRAMES = [numbered(number) for number in range(40)]


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    with watchdog(120.0):
        yield


@pytest.fixture(scope="module")
def pipeline(tiny_models: Tiny) -> op.Seq:
    return op.seq(op.letterbox(8, 8), op.to_tensor(), op.load(tiny_models / "two.axm"), op.pack())


@pytest.fixture(scope="module")
def alone(pipeline: op.Seq) -> list[Any]:
    """Each frame by itself, one after another."""
    with scheduler.create(num_workers=1):
        return [pipeline(frame) for frame in FRAMES]


def check(results: list[Any], alone: list[Any]) -> None:
    assert len(results) == len(alone)
    for result, want in zip(results, alone, strict=True):
        for got, wanted in zip(result, want, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_stream_gives_the_bits_of_one_frame_at_a_time(workers: int, pipeline: op.Seq, alone: list[Any]) -> None:
    with nothing_left(), scheduler.create(num_workers=workers) as own:
        check([result for _, result in own.stream(FRAMES, pipeline)], alone)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_batch_gives_the_bits_of_one_frame_at_a_time(workers: int, pipeline: op.Seq, alone: list[Any]) -> None:
    with nothing_left(), scheduler.create(num_workers=workers) as own:
        check(own.batch(pipeline, (FRAMES,)), alone)


def test_streams_of_one_model_side_by_side_give_the_bits_of_one_frame_at_a_time(
    pipeline: op.Seq, alone: list[Any]
) -> None:
    results: list[list[Any]] = [[] for _ in range(6)]
    with nothing_left(), scheduler.create() as own:
        streams = [own.stream(FRAMES, pipeline.copy()) for _ in results]
        for number, frame, result in own.as_available(streams):
            if frame is not None:
                results[number].append(result)
    for one in results:
        check(one, alone)


def test_eight_schedulers_at_once_give_the_bits_of_one_frame_at_a_time(pipeline: op.Seq, alone: list[Any]) -> None:
    def run(number: int) -> list[Any]:
        with scheduler.create(devices=str(number)) as own:
            streamed = [result for _, result in own.stream(FRAMES, pipeline)]
            return [*streamed, *own.batch(pipeline, (FRAMES,)), *(pipeline(frame) for frame in FRAMES)]

    with machine.simulated("metis-pcie*8"), nothing_left(), ThreadPoolExecutor(8) as pool:
        for results in pool.map(run, range(8)):
            check(results, alone * 3)


def test_threads_that_call_one_pipeline_get_the_bits_of_one_frame_at_a_time(pipeline: op.Seq, alone: list[Any]) -> None:
    with nothing_left(), scheduler.create() as own, ThreadPoolExecutor(8) as pool:
        contexts = [own.context() for _ in range(8)]
        for results in pool.map(lambda context: context.run(lambda: [pipeline(frame) for frame in FRAMES]), contexts):
            check(results, alone)
