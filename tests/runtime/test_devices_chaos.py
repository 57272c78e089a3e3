"""Connections, loads, frames, breaks and closes from many threads at once: every frame has its bits or is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from axtool.artefact import axm
from axtool.runtime.devices import machine
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import DeviceLost, DevicesInUse
from tests.runtime.test_devices import expected, frames, same

SECONDS = 60  # after which a thread that has not ended hangs


@pytest.fixture(scope="module")
def model(classifier: Path) -> DeviceModel:
    artefact = axm.read(classifier)
    return DeviceModel("model", "model.axm", tuple(stage.plan for stage in artefact.device_stages), artefact.target)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_breaks_no_core_is_lost_to_those_that_come_later(model: DeviceModel, seed: int) -> None:
    given = frames(model, 4)
    wanted = [expected(model, inputs) for inputs in given]
    faults: list[Any] = []
    done: list[int] = []

    with machine.simulated("metis-pcie*2", realtime=bool(seed % 2)) as boards:
        shared: list[Any] = []

        def work(number: int) -> None:
            rng = random.Random(100 * seed + number)
            for _ in range(40):
                device = boards.devices[rng.randrange(2)]
                try:
                    connection = device.connect(rng.choice([1, 2, 3, [0], [3, 1]]))
                except DevicesInUse:
                    time.sleep(0.001)
                    continue
                except DeviceLost:
                    if seed % 3:
                        faults.append("a board is lost that nobody broke")
                    continue
                shared.append(connection)
                try:
                    for core in connection.cores:
                        instance = connection.load(core, model)
                        at = rng.randrange(4)
                        made, _ = instance.run(0, given[at])
                        done.append(at)
                        if not same(made, wanted[at]):
                            faults.append(f"frame {at} on core {core} has other bits")
                        if rng.random() < 0.2:
                            rng.choice(shared).close()  # of another thread, perhaps while it runs
                except DeviceLost:
                    pass
                finally:
                    connection.close()

        threads = [Thread(target=work, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        if seed % 3 == 0:
            boards["metis-0:1:0"].lose(after=5)
            boards["metis-0:2:0"].lose(2, after=3, mid_frame=False)
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
        assert faults == []
        assert done
        broken = sum(device.core(index).dead for device in boards.devices for index in range(4))
        assert sum(device.available() for device in boards.devices) == 8 - broken
        assert (broken > 0) == (seed % 3 == 0)
        assert all(not device.owners._held for device in boards.devices)
