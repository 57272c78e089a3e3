"""Pipelines with models as streams and batches of the current scheduler: the results are those of a plain loop."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from axtool.runtime import Image, Postamble, op, scheduler
from tests.conftest import Tiny

USER = "tests.runtime.kernels_of_the_user"


def pictures(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [rng.integers(0, 256, (9, 12, 3), np.uint8) for _ in range(count)]


def model(tiny_models: Tiny, **given: Any) -> op.LoadedSeq:
    loaded: op.LoadedSeq = op.load(tiny_models / "two.axm", **given)
    return loaded


@pytest.fixture
def pipeline(tiny_models: Tiny) -> op.Seq:
    return op.seq(op.letterbox(8, 8), op.to_tensor(), model(tiny_models), lambda *outputs: [o.copy() for o in outputs])


@pytest.mark.parametrize("window", [None, 1, 2, 9])
def test_a_stream_gives_each_frame_with_what_the_pipeline_makes_of_it(pipeline: op.Seq, window: int | None) -> None:
    frames = pictures(7)
    streamed = list(pipeline.stream(frames, max_in_flight=window))
    assert [id(frame) for frame, _ in streamed] == [id(frame) for frame in frames]
    for frame, result in streamed:
        for got, wanted in zip(result, pipeline(frame), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_results_that_are_views_of_the_device_stay_as_they_were(tiny_models: Tiny) -> None:
    raw = model(tiny_models, using_postamble=Postamble(fused_kernel=f"{USER}:TwoTails"))
    pipeline = op.seq(op.letterbox(8, 8), op.to_tensor(), *raw.operators)
    frames = pictures(6)
    wanted = [[np.array(o) for o in pipeline(frame)] for frame in frames]
    for got, want in zip(pipeline.batch(*frames), wanted, strict=True):
        for left, right in zip(got, want, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("way", ["left early", "failed", "read to its end"])
def test_a_scheduler_that_is_closed_leaves_no_thread_of_its_streams(way: str) -> None:
    before = set(threading.enumerate())
    with scheduler.create():
        if way == "left early":
            endless = op.seq(op.identity()).stream(iter(int, 1))
            next(endless)
            endless.close()
        elif way == "failed":
            with pytest.raises(RuntimeError, match="frame 0"):
                list(op.seq(lambda x: 1 / x).stream(range(100)))
        else:
            list(op.seq(op.identity()).stream(range(100)))
    assert set(threading.enumerate()) <= before


def test_operators_run_under_the_scheduler_of_the_block_which_a_pipeline_without_a_model_never_connects() -> None:
    with scheduler.create() as made:
        for window in (1, None):
            stream = op.seq(lambda _: scheduler.current()).stream(range(5), max_in_flight=window)
            assert {found for _, found in stream} == {made}
        assert op.seq(lambda _: scheduler.current()).batch([1, 2]) == [made, made]
        assert not made.is_connected


def test_a_stream_of_a_block_that_was_left_says_that_its_scheduler_is_closed() -> None:
    with scheduler.create():
        begun, other = op.seq(op.identity()).stream(range(100)), op.seq(op.identity()).stream(range(5))
        next(begun)
    with pytest.raises(scheduler.SchedulerClosed):
        list(begun)
    with pytest.raises(scheduler.SchedulerClosed):
        next(other)


def test_a_stream_is_refused_at_once_for_a_window_or_source_that_is_none() -> None:
    pipeline = op.seq(op.identity())
    with pytest.raises(ValueError, match="max_in_flight is 0, want at least 1"):
        pipeline.stream([1], max_in_flight=0)
    for source in (3, pictures(1)[0], Image.from_array(pictures(1)[0], "RGB")):
        with pytest.raises(TypeError, match="call the pipeline for a single picture"):
            pipeline.stream(source)


def test_a_batch_takes_frames_as_a_list_an_array_or_one_by_one(pipeline: op.Seq) -> None:
    frames = pictures(3)
    wanted = [pipeline(frame) for frame in frames]
    for given in ((frames,), (np.stack(frames),), tuple(frames)):
        for got, want in zip(pipeline.batch(*given), wanted, strict=True):
            for left, right in zip(got, want, strict=True):
                np.testing.assert_array_equal(left, right)


def test_a_batch_of_a_model_is_one_array_of_tensors(tiny_models: Tiny) -> None:
    loaded = model(tiny_models)
    tensors = np.random.default_rng(0).normal(0, 1, (3, 3, 8, 8)).astype(np.float32)
    results = loaded.batch(tensors)
    for tensor, result in zip(tensors, results, strict=True):
        np.testing.assert_array_equal(result[0], loaded(tensor)[0])
