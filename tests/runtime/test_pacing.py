"""Boards at modelled speed: lanes, waits, links, the cost of another model, and outputs that come again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.inputs.arrays import Stored, open_arrays
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import Link, load_board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.pacing import Lane, Wait
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import DeviceLost
from axtool.runtime.devices.simulated import SimulatedDevice
from tests.runtime.test_devices import expected, frames, same

EARLY_S = 1e-4  # no wait ends before its moment but for the resolution of the clock


@pytest.fixture(scope="module")
def model(digits: Path) -> DeviceModel:
    artefact = axm.read(digits)
    return DeviceModel("digits", "digits.axm", tuple(stage.plan for stage in artefact.device_stages), artefact.target)


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paced(**changes: Any) -> SimulatedDevice:
    """One core at modelled speed that computes once."""
    board = replace(load_board("metis-1core"), switch_s=0.0, **changes)
    return SimulatedDevice(board, "metis-0:1:0", realtime=True, recording=Recording(1))


def test_a_lane_serves_one_thing_at_a_time() -> None:
    lane, now = Lane(), time.perf_counter()
    assert lane.reserve(now, 2.0) == (now, now + 2.0)
    assert lane.reserve(now + 1.0, 1.0) == (now + 2.0, now + 3.0)
    assert lane.reserve(now + 9.0, 1.0) == (now + 9.0, now + 10.0)


def test_a_gap_that_is_long_enough_is_taken_and_a_shorter_one_is_not() -> None:
    lane, now = Lane(), time.perf_counter()
    lane.reserve(now + 5.0, 1.0)
    assert lane.reserve(now, 6.0) == (now + 6.0, now + 12.0)
    assert lane.reserve(now, 5.0) == (now, now + 5.0)


def test_spans_of_a_lane_never_overlap() -> None:
    rng, lane, now = np.random.default_rng(0), Lane(), time.perf_counter()
    spans = sorted(lane.reserve(now + start, length) for start, length in rng.uniform(0, 3, (500, 2)))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_lane_forgets_what_is_long_over() -> None:
    lane = Lane()
    for _ in range(1000):
        lane.reserve(time.perf_counter() - 10.0, 1e-6)
    assert len(lane._starts) < 50


def test_a_wait_ends_at_its_moment_or_when_it_is_stopped() -> None:
    wait = Wait()
    assert timed(lambda: wait.until(time.perf_counter() + 0.02)) >= 0.02 - EARLY_S
    ended: list[bool] = []
    threads = [Thread(target=lambda: ended.append(wait.until(time.perf_counter() + 60))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait.stop()
    wait.stop()
    for thread in threads:
        thread.join(5)
    assert ended == [False] * 3


def test_a_paced_frame_takes_its_modelled_time_and_the_link(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    device = paced(link=Link(bytes_per_s=1e7, latency_s=0.002))
    instance = device.connect(1).load(0, model, BoardConfig(clock=100))
    instance.run(0, inputs)
    frame_s = instance.modelled_s(0)
    assert frame_s is not None
    made, report = instance.run(0, inputs)
    transfers = sum(0.002 + array.nbytes / 1e7 for array in [*inputs, *made][:1]) + 0.002
    took = min(timed(lambda: instance.run(0, inputs)) for _ in range(5))
    assert took >= frame_s + transfers - EARLY_S
    assert report.modelled_s == frame_s
    assert report.busy_s >= frame_s


def test_two_frames_at_once_keep_a_paced_core_busy(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    device = paced(link=Link(bytes_per_s=1e9, latency_s=0.002))
    instance = device.connect(1).load(0, model, BoardConfig(clock=100))
    instance.run(0, inputs)
    frame_s = instance.modelled_s(0) or 0.0
    count = 8

    def half() -> None:
        for _ in range(count // 2):
            instance.run(0, inputs)

    def both() -> None:
        threads = [Thread(target=half) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    alone = min(timed(lambda: [instance.run(0, inputs) for _ in range(count)]) for _ in range(2))
    together = min(timed(both) for _ in range(3))
    assert together >= count * frame_s - EARLY_S
    assert together < alone


def test_ends_of_paced_frames_do_not_add_up_late_wakes(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    instance = paced().connect(1).load(0, model)
    instance.run(0, inputs)
    starts: list[tuple[float, float]] = []

    def half() -> None:
        for _ in range(10):
            report = instance.run(0, inputs)[1]
            starts.append((report.start_s, report.busy_s))

    threads = [Thread(target=half) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = sorted(starts)
    assert all(a + busy <= b + 1e-9 for (a, busy), (b, _) in pairwise(spans))


def test_another_model_costs_its_bytes_over_the_link_and_the_start(model: DeviceModel) -> None:
    board = load_board("metis-1core")
    device = SimulatedDevice(replace(board, switch_s=0.05), "metis-0:1:0", realtime=True, recording=Recording(1))
    connection = device.connect(1)
    cost = connection.switch_s(model)
    constants = sum(array.nbytes for array in model.plans[0].program.constants.values())
    assert cost > 0.05 + board.link.latency_s + constants / board.link.bytes_per_s
    connection.load(0, model)
    assert timed(lambda: connection.load(0, model)) >= cost - EARLY_S


def test_without_pace_another_model_costs_nothing_but_its_making(model: DeviceModel) -> None:
    board = replace(load_board("metis-1core"), switch_s=60.0)
    connection = SimulatedDevice(board, "metis-0:1:0", recording=Recording(1)).connect(1)
    assert timed(lambda: connection.load(0, model)) < 30


def test_a_paced_frame_is_lost_at_once_when_its_board_goes(model: DeviceModel) -> None:
    (inputs,) = frames(model, 1)
    device = paced()
    instance = device.connect(1).load(0, model)
    device.core(0).lane.reserve(time.perf_counter(), 60.0)
    lost: list[BaseException] = []

    def work() -> None:
        try:
            instance.run(0, inputs)
        except DeviceLost as error:
            lost.append(error)

    thread = Thread(target=work)
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive()
    device.vanish()
    thread.join(10)
    assert not thread.is_alive()
    assert len(lost) == 1


def test_recorded_frames_come_again_in_turn_and_nothing_is_computed(model: DeviceModel) -> None:
    given = frames(model, 3)
    with machine.simulated("metis-pcie", replay=2):
        instance = machine.devices()[0].connect(1).load(0, model)
        made = [instance.run(0, inputs)[0] for inputs in (given[0], given[1], given[2], given[2], given[2])]
    wanted = [expected(model, inputs) for inputs in given[:2]]
    assert [same(one, wanted[at % 2]) for at, one in enumerate(made)] == [True] * 5
    assert made[2] is made[4]
    with pytest.raises(ValueError, match="read-only"):
        made[2][0][...] = 0


def test_all_cores_share_what_has_been_recorded(model: DeviceModel) -> None:
    first, second = frames(model, 2)
    with machine.simulated("metis-pcie*2", replay=1):
        a, b = (device.connect(1).load(0, model) for device in machine.devices())
        a.run(0, first)
        assert same(b.run(0, second)[0], expected(model, first))


def test_a_recording_that_is_saved_replays_the_same_bits(model: DeviceModel, tmp_path: Path) -> None:
    first, second = frames(model, 2)
    path = tmp_path / "outputs.npz"
    with machine.simulated("metis-pcie", replay=True) as boards:
        boards.devices[0].connect(1).load(0, model).run(0, first)
        assert boards.recording is not None
        boards.recording.save(path)
    with machine.simulated("metis-pcie", replay=path):
        made, _ = machine.devices()[0].connect(1).load(0, model).run(0, second)
    assert same(made, expected(model, first))


def test_a_recording_of_nothing_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing has been recorded"):
        Recording().save(tmp_path / "outputs.npz")
    assert not list(tmp_path.iterdir())


def stored(model: DeviceModel) -> dict[str, Any]:
    (inputs,) = frames(model, 1)
    return dict(zip(model.plans[0].program.outputs, expected(model, inputs), strict=True))


def test_outputs_named_by_the_model_stand_before_plain_names(model: DeviceModel, tmp_path: Path) -> None:
    arrays = stored(model)
    own = {f"digits/{name}": array + 1 for name, array in arrays.items()}
    Recording(1, {**arrays, **own}, "it").prepare(model)
    made = Recording(1, {**arrays, **own}, "it").outputs(model, 0, [])
    assert same(made, list(own.values()))


@pytest.mark.parametrize("wrong", ["missing", "shape", "type", "frames", "none"])
def test_outputs_of_another_kind_in_a_file_are_refused_when_the_model_is_loaded(model: DeviceModel, wrong: str) -> None:
    arrays = stored(model)
    name = next(iter(arrays))
    array = arrays.pop(name)
    if wrong != "missing":
        arrays[name] = {
            "shape": array[:, 1:], "type": array.astype(np.int32), "frames": np.concatenate([array] * 2),
            "none": array[:0],
        }[wrong]  # fmt: skip
    device = SimulatedDevice(load_board("metis-1core"), "metis-0:1:0", recording=Recording(1, arrays, "outputs.npz"))
    connection = device.connect(1)
    with pytest.raises(UsageError, match=r"outputs\.npz"):
        connection.load(0, model)


def test_of_a_file_only_the_outputs_of_the_model_are_read(model: DeviceModel, tmp_path: Path) -> None:
    """A member that unpacks to gigabytes is not unpacked: because of its name, or of what its header says."""
    arrays = stored(model)
    path = tmp_path / "outputs.npz"
    np.savez_compressed(path, **{name.replace("/", "|"): array for name, array in arrays.items()})
    names = {name.replace("/", "|"): name for name in arrays}
    loaded: list[str] = []

    class Watched(Stored):
        def load(self) -> Any:
            loaded.append(self.member)
            return super().load()

    given = {names[key]: Watched(**vars(one)) for key, one in open_arrays(path, "output").items()}
    first = next(iter(arrays))
    given["other"] = given[first]
    Recording(given=given).prepare(model)
    assert len(loaded) == len(arrays)
    loaded.clear()
    with pytest.raises(UsageError, match="of 1 to 10,000 frames"):
        Recording(given={**given, first: replace(given[first], shape=(10_001, *arrays[first].shape[1:]))}).prepare(
            model
        )
    assert loaded == []


@pytest.mark.parametrize("replay", [0, -1, 10_001, "no-such-file.npz", 2.5])
def test_a_replay_that_is_none_is_refused(replay: Any) -> None:
    with pytest.raises(UsageError):
        machine.make("metis-pcie", replay=replay)


def test_a_file_of_nonsense_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "outputs.npz"
    path.write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(UsageError, match=r"outputs\.npz"):
        machine.make("metis-pcie", replay=path)
