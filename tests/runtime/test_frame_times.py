"""Times of a pipeline: every operator of every frame, the device apart from the host."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from axtool.runtime import ColorFormat, Image, op
from axtool.runtime.frame_times import spread_ms, time_frames
from axtool.runtime.resources import peak_bytes, restart_peak
from tests.conftest import Tiny

PICTURE = Image(np.zeros((20, 30, 3), np.uint8), ColorFormat.RGB)


def pipeline(tiny_models: Tiny) -> op.Seq:
    return op.seq(op.letterbox(16, 16), op.to_tensor(), op.load(tiny_models / "cls.axm"))


def test_only_the_model_on_the_device_counts_as_the_device(tiny_models: Tiny) -> None:
    times = time_frames(pipeline(tiny_models), PICTURE, 4)
    assert [name for name, device in zip(times.operators, times.on_device, strict=True) if device] == ["AxRuntimeModel"]
    np.testing.assert_allclose(times.host_s + times.device_s, times.frame_s)


@pytest.mark.parametrize(("frames", "warmup"), [(1, 0), (1, 5), (7, 3)])
def test_warm_up_frames_run_and_are_not_measured(tiny_models: Tiny, frames: int, warmup: int) -> None:
    seen: list[int] = []

    def note(image: Image) -> Image:
        seen.append(image.width)
        return image

    counted: list[tuple[int, int]] = []
    times = time_frames(op.seq(note), PICTURE, frames, warmup, lambda done, total: counted.append((done, total)))
    assert len(seen) == frames + warmup
    assert times.seconds.shape == (frames, 1)
    assert counted == [(done, frames) for done in range(1, frames + 1)]


def test_time_is_put_down_to_the_operator_that_took_it() -> None:
    def slow(image: Image) -> Image:
        time.sleep(0.02)
        return image

    times = time_frames(op.seq(lambda image: image, slow), PICTURE, 3, 0)
    assert (times.seconds[:, 1] >= 0.02).all()
    assert times.cpu_s < 0.02 * 3, "sleeping is no work of the processor"


def test_the_figures_of_a_spread_are_milliseconds() -> None:
    spread = spread_ms(np.array([0.001, 0.002, 0.003]))
    assert (spread["min"], spread["p50"], spread["mean"], spread["max"]) == pytest.approx((1, 2, 2, 3))
    assert spread["stddev"] == pytest.approx(np.std([1, 2, 3]))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system cannot count anew")
def test_the_peak_of_memory_is_that_since_it_was_restarted() -> None:
    big = np.ones(1 << 27, np.uint8)
    before = peak_bytes()
    del big
    restart_peak()
    after = peak_bytes()
    assert before is not None
    assert after is not None
    assert after < before - (1 << 26)


def test_what_runs_side_by_side_is_named() -> None:
    times = time_frames(op.seq(op.par(op.letterbox(8, 8), op.identity())), PICTURE, 1)
    assert times.operators == ("Par(Letterbox, Identity)",)
