"""Simulated boards: what there is, who owns it, what it computes, and what happens when it breaks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import FitError, UsageError
from axtool.runtime.device import DeviceSession, buffer_shape
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import load_board
from axtool.runtime.devices.context import Context
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import DeviceLost, DevicesInUse
from axtool.runtime.devices.simulated import SimulatedDevice


@pytest.fixture(scope="module")
def model(digits: Path) -> DeviceModel:
    artefact = axm.read(digits)
    return DeviceModel("digits", "digits.axm", tuple(stage.plan for stage in artefact.device_stages), artefact.target)


def frames(model: DeviceModel, count: int) -> list[list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(1)
    plan = model.plans[0]
    return [
        [rng.integers(-128, 128, buffer_shape(plan, name), np.int8) for name in plan.program.inputs]
        for _ in range(count)
    ]


def expected(model: DeviceModel, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    session = DeviceSession(model.plans[0])
    made = session.run_buffers(dict(zip(session.program.inputs, inputs, strict=True)))
    return [made[name].copy() for name in session.program.outputs]


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def test_without_settings_there_is_one_board_of_four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AXTOOL_BOARDS", raising=False)
    with machine.simulated() as boards:
        info = boards.devices[0].info
    assert (info.name, info.board_model, info.subdevice_count) == ("metis-0:1:0", "110m", 4)


def test_boards_are_named_by_bus_in_order() -> None:
    with machine.simulated("metis-pcie*2, metis-m2,qc-u") as boards:
        assert [info.name for info in Context().list_devices()] == [
            "metis-0:1:0", "metis-0:2:0", "metis-0:3:0", "qcu-0:4:0",
        ]  # fmt: skip
        assert [device.info.cores for device in boards.devices] == [4, 4, 4, 1]


def test_every_core_computes_the_bits_of_a_session(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect()
        for core in connection.cores:
            made, report = connection.load(core, model).run(0, inputs)
            assert same(made, expected(model, inputs))
            assert report.busy_s > 0


def test_outputs_of_a_frame_are_not_changed_by_the_next(model: DeviceModel) -> None:
    first, second = frames(model, 2)
    with machine.simulated("metis-pcie"):
        instance = machine.devices()[0].connect(1).load(0, model)
        made, _ = instance.run(0, first)
        instance.run(0, second)
        assert same(made, expected(model, first))


def test_outputs_are_filled_where_buffers_are_given(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    wanted = expected(model, inputs)
    outputs = [np.zeros_like(array) for array in wanted]
    with machine.simulated("metis-pcie"):
        made, _ = machine.devices()[0].connect(1).load(0, model).run(0, inputs, outputs)
    assert made is outputs
    assert same(outputs, wanted)


def test_two_frames_at_once_on_one_core_have_their_own_bits(model: DeviceModel) -> None:
    given = frames(model, 8)
    results: dict[int, Any] = {}
    with machine.simulated("metis-pcie"):
        instance = machine.devices()[0].connect(1).load(0, model)

        def work(part: int) -> None:
            for at in range(part, len(given), 2):
                results[at] = instance.run(0, given[at])[0]

        threads = [Thread(target=work, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(same(results[at], expected(model, inputs)) for at, inputs in enumerate(given))


@pytest.mark.parametrize("wrong", ["shape", "type", "count"])
def test_buffers_of_another_kind_are_refused(model: DeviceModel, wrong: str) -> None:
    (inputs,) = frames(model, 1)
    given = {"shape": [inputs[0][:, :-1]], "type": [inputs[0].astype(np.int16)], "count": inputs * 2}[wrong]
    with machine.simulated("metis-pcie"):
        instance = machine.devices()[0].connect(1).load(0, model)
        with pytest.raises(ValueError, match="got"):
            instance.run(0, given)


def test_cores_have_one_owner() -> None:
    with machine.simulated("metis-pcie"):
        device = machine.devices()[0]
        first = device.connect(3)
        assert device.available() == 1
        with pytest.raises(DevicesInUse, match=r"num_sub_devices > available \(4 > 1\)"):
            device.connect()
        with pytest.raises(DevicesInUse):
            device.connect([first.cores[0]])
        first.close()
        first.close()
        assert device.connect(4).cores == (0, 1, 2, 3)


@pytest.mark.parametrize("cores", [0, -1, [7], [0, 0], []])
def test_cores_that_a_board_does_not_have_are_refused(cores: Any) -> None:
    with machine.simulated("metis-pcie"), pytest.raises(UsageError):
        machine.devices()[0].connect(cores)


def test_boards_do_not_change_while_cores_are_connected() -> None:
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect(2)
        with pytest.raises(DevicesInUse, match=r"metis-0:1:0 \(2 of 4 cores\)"), machine.simulated("qc-u"):
            pass
        connection.close()
        with machine.simulated("qc-u"):
            assert machine.devices()[0].info.name == "qcu-0:1:0"
        assert machine.devices()[0].info.name == "metis-0:1:0"


def test_a_machine_that_is_left_takes_its_boards_along(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    before = machine.generation()
    with machine.simulated("metis-pcie"):
        instance = machine.devices()[0].connect(1).load(0, model)
    with pytest.raises(DeviceLost):
        instance.run(0, inputs)
    assert machine.generation() > before


def test_a_board_that_breaks_mid_frame_loses_that_frame_and_every_later_one(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    with machine.simulated("metis-pcie") as boards:
        boards["metis-0:1:0"].lose(after=2)
        connection = machine.devices()[0].connect()
        instance = connection.load(0, model)
        assert same(instance.run(0, inputs)[0], instance.run(0, inputs)[0])
        for _ in range(2):
            with pytest.raises(DeviceLost, match="metis-0:1:0"):
                instance.run(0, inputs)
        with pytest.raises(DeviceLost):
            connection.load(1, model)


def test_a_core_that_breaks_leaves_the_others(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    with machine.simulated("metis-pcie") as boards:
        boards["metis-0:1:0"].lose(1, after=0, mid_frame=False)
        connection = machine.devices()[0].connect([0, 2, 3])
        assert connection.load(2, model).run(0, inputs)
        connection.close()
        with pytest.raises(DevicesInUse, match=r"4 > 3\).*1 broken"):
            machine.devices()[0].connect(4)
        assert machine.devices()[0].connect().cores == (0, 2, 3)


def test_a_closed_instance_runs_no_more_and_closing_twice_is_nothing(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect(1)
        instance = connection.load(0, model)
        instance.close()
        instance.close()
        with pytest.raises(DeviceLost):
            instance.run(0, inputs)
        connection.close()
        with pytest.raises(DeviceLost):
            connection.load(0, model)


def test_a_model_that_the_window_has_no_room_for_is_refused_in_bytes(model: DeviceModel) -> None:
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect(1)
        with pytest.raises(FitError, match=r"metis-0:1:0: .* it has 1,024, ddr_size opens"):
            connection.load(0, model, BoardConfig(ddr_size=1024))
        assert connection.load(0, model)


def test_the_window_of_the_board_file_is_the_room_unless_settings_open_more(model: DeviceModel) -> None:
    small = replace(load_board("metis-pcie"), window_bytes=1000)
    connection = SimulatedDevice(small, "metis-0:1:0").connect(1)
    with pytest.raises(FitError, match="it has 1,000"):
        connection.load(0, model)
    assert connection.load(0, model, BoardConfig(ddr_size=2**30))


def test_a_clock_that_the_board_does_not_have_is_refused_with_those_that_it_has(model: DeviceModel) -> None:
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect(1)
        with pytest.raises(ValueError, match="clock 450 MHz") as caught:
            connection.load(0, model, BoardConfig(clock=450))
        assert "100, 200, 400, 600, 700, 800 MHz" in str(getattr(caught.value, "hint", ""))


def test_half_the_clock_doubles_the_modelled_cycles_time(model: DeviceModel) -> None:
    with machine.simulated("metis-pcie"):
        connection = machine.devices()[0].connect(2)
        full = connection.load(0, model).modelled_s(0)
        half = connection.load(1, model, BoardConfig(clock=400)).modelled_s(0)
    assert full is not None
    assert half is not None
    assert full < half <= 2 * full


def test_a_forked_child_has_boards_that_nobody_holds() -> None:
    with machine.simulated("metis-pcie"):
        before = machine.generation()
        machine.devices()[0].connect()
        child = os.fork()
        if child == 0:
            fresh = machine.devices()[0].available() == 4 and machine.generation() > before
            os._exit(0 if fresh else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert machine.devices()[0].available() == 0


def test_outputs_that_nobody_holds_any_more_are_filled_again(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    with machine.simulated("metis-pcie"):
        instance = machine.devices()[0].connect(1).load(0, model)
        places = set()
        for _ in range(20):
            made, _ = instance.run(0, inputs)
            places.add(made[0].ctypes.data)
            del made
    assert len(places) <= 2
