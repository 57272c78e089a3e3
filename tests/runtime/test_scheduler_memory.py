"""A board with memory for a model on some of its cores runs it on those; without any it says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import FitError
from axtool.runtime import op, scheduler
from axtool.runtime.device_config import BoardConfig, DeviceConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.settings import resident_bytes
from axtool.runtime.op.load import LoadedSeq
from axtool.runtime.scheduler import Scheduler

FRAMES = 24


@pytest.fixture
def digits_model(digits: Path) -> LoadedSeq:
    loaded: LoadedSeq = op.load(digits)
    return loaded


def room(model: LoadedSeq, times: float, board_model: str = "110m") -> DeviceConfig:
    """Memory of a board for so many cores with the model."""
    size = resident_bytes(model.device.part.model.plans)
    return DeviceConfig({board_model: BoardConfig(ddr_size=int(times * size))})


def streamed(model: LoadedSeq) -> list[Any]:
    rng = np.random.default_rng(0)
    return [result for _, result in model.stream(rng.random((1, 3, 160, 160), np.float32) for _ in range(FRAMES))]


def users(owner: Scheduler) -> list[str]:
    """The cores that ran frames."""
    return [core.name for core in owner.stats().cores if core.frames]


def test_a_model_runs_on_as_many_cores_as_the_memory_is_for(
    digits_model: LoadedSeq, caplog: pytest.LogCaptureFixture
) -> None:
    with machine.simulated("metis-pcie"):
        with scheduler.create():
            wanted = streamed(digits_model)
        with (
            scheduler.create(device_config=room(digits_model, 2.5)) as owner,
            caplog.at_level(logging.WARNING, logger="axtool"),
        ):
            found = streamed(digits_model)
            assert len(users(owner)) == 2
    assert len(found) == FRAMES
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    (said,) = [record.getMessage() for record in caplog.records if "memory" in record.getMessage()]
    assert said.startswith("digits.axm runs on ")
    assert "there is no memory for it on more: metis-0:1:0: 'digits.axm' needs" in said


def test_a_board_without_memory_for_it_is_left_out_where_another_has_it(digits_model: LoadedSeq) -> None:
    with (
        machine.simulated("metis-pcie,qc-u"),
        scheduler.create(device_config=room(digits_model, 0.5, "qc-u")) as owner,
    ):
        assert len(streamed(digits_model)) == FRAMES
        assert users(owner)
        assert all(name.startswith("metis-0:1:0") for name in users(owner))


def test_a_model_that_no_core_has_memory_for_is_refused_in_every_frame(digits_model: LoadedSeq) -> None:
    picture = np.zeros((1, 3, 160, 160), np.float32)
    with machine.simulated("metis-pcie"), scheduler.create(device_config=room(digits_model, 0.5)) as owner:
        for _ in range(3):
            with pytest.raises(FitError, match="needs"):
                digits_model(picture)
        assert users(owner) == []


def test_memory_that_another_model_leaves_is_taken(digits_model: LoadedSeq, classifier: Path) -> None:
    other: LoadedSeq = op.load(classifier)
    picture, small = np.zeros((1, 3, 160, 160), np.float32), np.zeros(other.artefact.inputs[0].shape, np.float32)
    with machine.simulated("metis-1core"), scheduler.create(device_config=room(digits_model, 1.0)) as owner:
        for _ in range(3):
            digits_model(picture)
            other(small)
        assert owner.stats().switches == 6
