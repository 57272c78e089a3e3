"""Streams and batches: in order, bounded, each operator in one thread, and faults with the number of their frame."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from axtool.runtime import Image, Postamble, op
from axtool.runtime.op.stream import stages_of
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


def test_a_slow_frame_does_not_let_the_next_one_overtake_it() -> None:
    def work(x: int) -> int:
        time.sleep(0.02 if x == 0 else 0)
        return x

    assert [result for _, result in op.seq(work).stream(range(5))] == [0, 1, 2, 3, 4]


def test_every_operator_is_called_from_one_thread(tiny_models: Tiny) -> None:
    threads: dict[str, set[int]] = {"before": set(), "behind": set()}
    watched = op.seq(
        op.observer(lambda *_: threads["before"].add(threading.get_ident())), op.letterbox(8, 8), op.to_tensor(),
        model(tiny_models), op.observer(lambda *_: threads["behind"].add(threading.get_ident())),
    )  # fmt: skip
    list(watched.stream(pictures(8)))
    assert len(threads["before"]) == len(threads["behind"]) == 1
    assert threads["before"] != threads["behind"]
    assert threading.get_ident() not in threads["before"] | threads["behind"]


def test_a_window_of_one_stays_in_the_calling_thread() -> None:
    threads = {result for _, result in op.seq(lambda _: threading.get_ident()).stream(range(3), max_in_flight=1)}
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("window", [1, 3])
def test_no_more_frames_are_begun_than_the_window_allows(window: int) -> None:
    read = 0

    def source() -> Iterator[int]:
        nonlocal read
        for number in range(30):
            read += 1
            yield number

    for handed, _ in enumerate(op.seq(op.identity()).stream(source(), max_in_flight=window), 1):
        time.sleep(0.001)
        assert read - handed <= window + 1  # and the one that waits for room


def test_an_error_names_its_frame_behind_the_results_before_it() -> None:
    stream = op.seq(lambda x: 1 / x).stream([4, 2, 0, 1])
    seen: list[float] = []
    with pytest.raises(RuntimeError, match=r"^frame 2: Function: ZeroDivisionError: ") as caught:
        seen += (result for _, result in stream)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert list(stream) == []


def test_results_before_an_error_are_handed_out() -> None:
    stream = op.seq(lambda x: 1 / x).stream([4, 2, 0, 1])
    assert [next(stream)[1], next(stream)[1]] == [0.25, 0.5]


@pytest.mark.parametrize("window", [1, 4])
def test_what_ends_a_program_ends_the_stream(window: int) -> None:
    with pytest.raises(SystemExit):
        list(op.seq(sys.exit).stream(range(3), max_in_flight=window))


@pytest.mark.parametrize("window", [1, 4])
def test_an_error_of_the_source_comes_behind_its_frames(window: int) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("the cable is out")

    stream = op.seq(op.identity()).stream(source(), max_in_flight=window)
    assert next(stream) == (1, 1)
    with pytest.raises(OSError, match="the cable is out"):
        next(stream)


def test_a_stream_that_is_left_early_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    endless = op.seq(op.identity()).stream(iter(int, 1))
    next(endless)
    endless.close()
    assert set(threading.enumerate()) <= before


def test_a_stream_that_failed_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError) as caught:
        list(op.seq(lambda x: 1 / x).stream(range(100)))
    assert "frame 0" in str(caught.value)
    assert set(threading.enumerate()) <= before


def test_each_frame_has_its_own_geometry() -> None:
    pipeline = op.seq(op.letterbox(64, 64), op.to_tensor(), lambda _: np.array([[0, 0, 64, 64, 1, 0]]),
                      op.to_image_space(), op.ax_detection(), op.for_each(op.crop_roi("bbox")))  # fmt: skip
    frames = [np.full((height, 30, 3), height, np.uint8) for height in range(10, 40)]
    for frame, each in pipeline.stream(frames):
        np.testing.assert_array_equal(each.output[0], frame)


def test_a_frame_that_is_open_outside_is_not_that_of_the_stream() -> None:
    pipeline = op.seq(op.resize(8, 8), lambda _: np.array([[0, 0, 8, 4, 1, 0]]), op.to_image_space())
    with op.frame_context(np.zeros((5, 5, 3), np.uint8)) as outside:
        list(pipeline.stream(pictures(3)))
        assert outside.model_size == (5, 5)


def test_steps_around_a_model_are_stages_and_named_sequences_are_cut_too(tiny_models: Tiny) -> None:
    inner = op.seq(op.to_tensor(), model(tiny_models), op.pack(), name="inner")
    stages = stages_of(op.seq(op.letterbox(8, 8), inner, op.identity()))
    kinds = [[type(step).__name__ for step in stage] for stage in stages]
    assert kinds == [["Letterbox", "ToTensor"], ["LoadedSeq"], ["Pack", "Identity"]]


def test_a_model_that_is_used_twice_is_one_stage(tiny_models: Tiny) -> None:
    loaded = model(tiny_models)
    copied = loaded.copy()  # operators of its own, on the same device
    stages = stages_of(op.seq(op.to_tensor(), loaded, op.itemgetter(0), copied, op.identity()))
    kinds = [[type(step).__name__ for step in stage] for stage in stages]
    assert kinds == [["ToTensor"], ["LoadedSeq", "Itemgetter", "LoadedSeq"], ["Identity"]]


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


def test_a_batch_has_as_many_values_of_each_argument() -> None:
    assert op.seq(lambda a, b: a + b).batch([1, 2], [10, 20]) == [11, 22]
    assert op.seq(op.identity()).batch() == op.seq(op.identity()).batch([]) == []
    with pytest.raises(ValueError, match="the arguments have 2, 3 frames; want as many of each"):
        op.seq(lambda a, b: a + b).batch([1, 2], [1, 2, 3])


@pytest.mark.parametrize("given", [(3,), (pictures(1)[0], [1]), (np.float32(1),)])
def test_a_batch_of_what_is_no_list_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="batch wants the values of an argument for all frames"):
        op.seq(op.identity()).batch(*given)
