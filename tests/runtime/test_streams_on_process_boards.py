"""Pipelines on boards in processes of their own: nothing above the seam knows the difference."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from axtool.runtime import op, scheduler
from axtool.runtime.device_config import BoardConfig, DeviceConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.remote import RemoteDevice
from tests.conftest import Tiny

FRAMES = 60


@pytest.fixture
def frames() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    return [rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32) for _ in range(FRAMES)]


def one_at_a_time(pipeline: op.Operator, frames: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """On the boards of this process."""
    with machine.simulated("metis-pcie"), scheduler.create():
        return [np.array(pipeline(frame)) for frame in frames]


def test_a_stream_has_the_bits_and_the_order_of_one_frame_at_a_time(tiny_models: Tiny, frames):
    pipeline = op.load(str(tiny_models / "cls.axm"))
    wanted = one_at_a_time(pipeline, frames)
    with machine.simulated("metis-process"), scheduler.create():
        got = [np.array(result) for _, result in pipeline.stream(frames)]
    assert len(got) == FRAMES
    assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_a_process_that_is_killed_in_a_stream_loses_no_frame_while_another_board_is_there(tiny_models: Tiny, frames):
    pipeline = op.load(str(tiny_models / "cls.axm"))
    wanted = one_at_a_time(pipeline, frames)
    with machine.simulated("metis-process*2") as boards, scheduler.create():
        first = boards.devices[0]
        assert isinstance(first, RemoteDevice)
        got = []
        for at, (_, result) in enumerate(pipeline.stream(frames)):
            got.append(np.array(result))
            if at == 5:
                os.kill(first.process_number or 0, signal.SIGKILL)
    assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert len(got) == FRAMES


def test_a_stream_whose_only_board_is_killed_ends_with_its_name(tiny_models: Tiny, frames):
    pipeline = op.load(str(tiny_models / "cls.axm"))
    with machine.simulated("metis-process") as boards, scheduler.create():
        stream = pipeline.stream(frames * 10)
        next(stream)
        os.kill(boards["metis-0:1:0"].process_number, signal.SIGKILL)
        killer = threading.Timer(60, os._exit, (1,))  # a stream that waits for ever is a failure, too
        killer.start()
        with pytest.raises(RuntimeError, match="metis-0:1:0"):
            list(stream)
        killer.cancel()


def test_settings_reach_the_board_by_their_precedence(tiny_models: Tiny, frames, monkeypatch: pytest.MonkeyPatch):
    slow, slower = (DeviceConfig({"110m": BoardConfig(clock=clock)}) for clock in (400, 200))

    def modelled_s(of_model: DeviceConfig | None, of_scheduler: DeviceConfig | None) -> float:
        pipeline = op.load(str(tiny_models / "cls.axm"), device_config=of_model)
        with machine.simulated("metis-process"), scheduler.create(device_config=of_scheduler) as current:
            pipeline(frames[0])
            return sum(core.modelled_s for core in current.stats().cores)

    usual, model, both = modelled_s(None, None), modelled_s(slow, None), modelled_s(slow, slower)
    assert usual < model < both
    assert modelled_s(DeviceConfig({"x": BoardConfig(clock=100)}), None) == usual
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "400")
    assert modelled_s(None, slower) == model
    monkeypatch.setenv("AXTOOL_CONFIGURE_BOARD", "0")
    assert modelled_s(slow, slower) == usual
