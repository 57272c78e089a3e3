"""What every board keeps, whatever is behind `devices.seam`: the simulated one here, and the one in another process."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import AxError, FitError, UsageError
from axtool.runtime.device import DeviceSession, buffer_shape
from axtool.runtime.device_config import BoardConfig
from axtool.runtime.devices.boards import load_board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.remote import RemoteDevice
from axtool.runtime.devices.replay import Recording
from axtool.runtime.devices.seam import DeviceLost, DevicesInUse
from axtool.runtime.devices.simulated import SimulatedDevice
from tests.conftest import Tiny

BOARD = load_board("metis-pcie")
NAME = "metis-0:1:0"
KINDS = {"here": SimulatedDevice, "process": RemoteDevice}
SOON_S = 10.0  # for what takes milliseconds on a machine with nothing else to do
Make = Callable[..., Any]
Buffers = list[np.ndarray[Any, Any]]


@pytest.fixture(params=list(KINDS))
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes boards of one kind; they are gone behind the test."""
    made: list[Any] = []

    def new(board=BOARD, **options: Any) -> Any:
        made.append(KINDS[request.param](board, NAME, **options))
        return made[-1]

    yield new
    for device in made:
        device.vanish()


@pytest.fixture
def device(make: Make) -> Any:
    return make()


@pytest.fixture(scope="module")
def model(tiny_models: Tiny) -> DeviceModel:
    """Two device stages, with a host stage between them that no device sees."""
    return loaded(tiny_models / "two.axm")


@pytest.fixture(scope="module")
def other(tiny_models: Tiny) -> DeviceModel:
    return loaded(tiny_models / "cls.axm")


@pytest.fixture(scope="module")
def slow(digits: Path) -> DeviceModel:
    """As large as a model of the zoo, and slow: a frame is still running when something happens."""
    return replace(loaded(digits), engine="reference")


def loaded(path: Path) -> DeviceModel:
    artefact = axm.read(path)
    return DeviceModel(str(path), path.name, tuple(stage.plan for stage in artefact.device_stages), artefact.target)


def frame(model: DeviceModel, stage: int = 0, seed: int = 0) -> Buffers:
    plan, rng = model.plans[stage], np.random.default_rng(seed)
    return [rng.integers(-128, 128, buffer_shape(plan, name), np.int8) for name in plan.program.inputs]


def expected(model: DeviceModel, stage: int, inputs: Buffers) -> Buffers:
    session = DeviceSession(model.plans[stage])
    made = session.run_buffers(dict(zip(session.program.inputs, inputs, strict=True)))
    return [made[name].copy() for name in session.program.outputs]


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """`work` with each number below `count`, in threads that end within SOON_S; the first error of one is raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]


# What it computes


def test_every_core_computes_the_bits_of_a_session_for_every_stage(device, model: DeviceModel):
    connection = device.connect()
    for core in connection.cores:
        instance = connection.load(core, model)
        for stage in range(len(model.plans)):
            inputs = frame(model, stage, seed=core)
            made, report = instance.run(stage, inputs)
            assert same(made, expected(model, stage, inputs))
            assert report.busy_s > 0


@pytest.mark.parametrize("options", [{"engine": "reference"}, {"threads": 2}, {"isa": "portable"}], ids=str)
def test_the_bits_do_not_depend_on_how_a_model_is_to_be_computed(device, model: DeviceModel, options: dict[str, Any]):
    inputs = frame(model)
    made, _ = device.connect(1).load(0, replace(model, **options)).run(0, inputs)
    assert same(made, expected(model, 0, inputs))


def test_outputs_have_the_type_and_shape_of_their_buffers(device, model: DeviceModel):
    inputs = frame(model)
    made, _ = device.connect(1).load(0, model).run(0, inputs)
    assert [(one.dtype, one.shape) for one in made] == [
        (one.dtype, one.shape) for one in expected(model, 0, inputs)
    ]  # fmt: skip


def test_outputs_are_the_caller_s_own_and_no_later_frame_changes_them(device, model: DeviceModel):
    first, second = frame(model, seed=1), frame(model, seed=2)
    instance = device.connect(1).load(0, model)
    made, _ = instance.run(0, first)
    kept = [array.copy() for array in made]
    for _ in range(8):
        instance.run(0, second)
    assert same(made, kept)
    made[0][...] = 0  # it is writeable, and that changes nothing of the board
    assert same(instance.run(0, first)[0], kept)


def test_outputs_outlive_the_board(device, model: DeviceModel):
    inputs = frame(model)
    connection = device.connect(1)
    made, _ = connection.load(0, model).run(0, inputs)
    connection.close()
    device.vanish()
    assert same(made, expected(model, 0, inputs))


def test_given_outputs_are_filled_and_returned(device, model: DeviceModel):
    inputs = frame(model)
    wanted = expected(model, 0, inputs)
    outputs = [np.zeros_like(array) for array in wanted]
    made, _ = device.connect(1).load(0, model).run(0, inputs, outputs)
    assert made is outputs
    assert same(outputs, wanted)


def test_inputs_may_be_read_only_and_views_of_anything(device, model: DeviceModel):
    (plain,) = frame(model)
    wide = np.zeros((*plain.shape[:-1], 2 * plain.shape[-1]), plain.dtype)
    view = wide[..., ::2]
    view[...] = plain
    view.flags.writeable = False
    made, _ = device.connect(1).load(0, model).run(0, [view])
    assert same(made, expected(model, 0, [plain]))


def test_inputs_are_not_changed(device, model: DeviceModel):
    inputs = frame(model)
    before = [array.copy() for array in inputs]
    device.connect(1).load(0, model).run(0, inputs)
    assert same(inputs, before)


@pytest.mark.parametrize("wrong", ["shape", "type", "more", "none"])
def test_inputs_of_another_kind_are_refused_and_the_next_frame_runs(device, model: DeviceModel, wrong: str):
    inputs = frame(model)
    given = {"shape": [inputs[0][:, :-1]], "type": [inputs[0].astype(np.int16)], "more": inputs * 2, "none": []}[wrong]
    instance = device.connect(1).load(0, model)
    with pytest.raises(ValueError, match="got"):
        instance.run(0, given)
    assert same(instance.run(0, inputs)[0], expected(model, 0, inputs))


@pytest.mark.parametrize("wrong", ["shape", "type", "more"])
def test_outputs_of_another_kind_are_refused_and_the_next_frame_runs(device, model: DeviceModel, wrong: str):
    inputs = frame(model)
    wanted = expected(model, 0, inputs)
    outputs = {"shape": [wanted[0][:, :-1]], "type": [wanted[0].astype(np.int16)], "more": wanted * 2}[wrong]
    instance = device.connect(1).load(0, model)
    with pytest.raises(ValueError, match="got"):
        instance.run(0, inputs, outputs)
    assert same(instance.run(0, inputs)[0], wanted)


def test_a_stage_that_a_model_does_not_have_is_an_index_error(device, model: DeviceModel):
    with pytest.raises(IndexError):
        device.connect(1).load(0, model).run(len(model.plans), frame(model))


@pytest.mark.parametrize("threads", [2, 5])
def test_frames_of_several_threads_on_one_core_have_their_own_bits(device, model: DeviceModel, threads: int):
    """Also more of them than the core takes at once: the others wait."""
    given = [frame(model, seed=seed) for seed in range(6)]
    wanted = [expected(model, 0, inputs) for inputs in given]
    instance = device.connect(1).load(0, model)

    def work(number: int) -> None:
        for turn in range(20):
            at = (number + turn) % len(given)
            assert same(instance.run(0, given[at])[0], wanted[at])

    in_threads(threads, work)


def test_all_cores_at_once_with_different_models_have_their_own_bits(device, model: DeviceModel, other: DeviceModel):
    connection = device.connect()
    models = [model, other, model, other]
    instances = [connection.load(core, one) for core, one in zip(connection.cores, models, strict=True)]

    def work(number: int) -> None:
        for seed in range(10):
            inputs = frame(models[number], seed=seed)
            assert same(instances[number].run(0, inputs)[0], expected(models[number], 0, inputs))

    in_threads(4, work)


# Who owns it


def test_a_new_board_has_all_its_cores_free(device):
    assert device.available() == device.info.cores == 4


def test_a_board_says_what_its_file_says(device):
    info = device.info
    assert (info.name, info.board, info.board_model, info.board_type) == (NAME, "metis-pcie", "110m", "pcie")
    assert (info.cores, info.clock_hz, info.memory_bytes, info.queue) == (4, 800e6, 2**32, 2)
    assert info.link_bytes_per_s == BOARD.link.bytes_per_s
    assert info.provenance.startswith("simulated")


def test_cores_have_one_owner(device):
    first = device.connect(3)
    assert first.cores == (0, 1, 2)
    assert device.available() == 1
    with pytest.raises(DevicesInUse, match=r"num_sub_devices > available \(4 > 1\)"):
        device.connect()
    with pytest.raises(DevicesInUse, match=r"num_sub_devices > available \(2 > 1\)"):
        device.connect([2, 3])
    second = device.connect([3])
    assert second.cores == (3,)
    first.close()
    assert device.available() == 3
    second.close()
    assert device.connect().cores == (0, 1, 2, 3)


@pytest.mark.parametrize("cores", [0, -1, [7], [-1], [0, 0], []], ids=str)
def test_cores_that_a_board_does_not_have_are_refused_and_none_is_taken(device, cores):
    with pytest.raises(UsageError, match=NAME):
        device.connect(cores)
    assert device.available() == 4


def test_a_connection_loads_its_own_cores_alone(device, model: DeviceModel):
    device.connect([0])
    with pytest.raises(UsageError, match=r"core 0 of metis-0:1:0 is not of this connection, which has \[1, 2\]"):
        device.connect([1, 2]).load(0, model)


def test_of_many_that_connect_at_once_each_core_has_one_owner(device):
    got: list[tuple[int, ...]] = []

    def work(number: int) -> None:
        try:
            got.append(device.connect(1).cores)
        except DevicesInUse:
            got.append(())

    in_threads(8, work)
    assert sorted(got) == [(), (), (), (), (0,), (1,), (2,), (3,)]


def test_two_connections_work_side_by_side_and_closing_one_leaves_the_other(device, model: DeviceModel):
    first, second = device.connect(2), device.connect(2)
    one, two = first.load(first.cores[0], model), second.load(second.cores[0], model)
    inputs = frame(model)
    one.run(0, inputs)
    first.close()
    assert same(two.run(0, inputs)[0], expected(model, 0, inputs))


# Loading


def test_another_model_takes_the_place_of_the_one_before(device, model: DeviceModel, other: DeviceModel):
    connection = device.connect(1)
    before = connection.load(0, model)
    after = connection.load(0, other)
    inputs = frame(other)
    assert same(after.run(0, inputs)[0], expected(other, 0, inputs))
    with pytest.raises(DeviceLost):
        before.run(0, frame(model))
    before.close()  # which takes nothing from the model that is there
    assert same(after.run(0, inputs)[0], expected(other, 0, inputs))


def test_a_model_that_is_closed_runs_no_more_and_closing_twice_is_nothing(device, model: DeviceModel):
    instance = device.connect(1).load(0, model)
    instance.close()
    instance.close()
    with pytest.raises(DeviceLost):
        instance.run(0, frame(model))


def test_what_is_closed_loads_and_runs_no_more_and_closing_twice_is_nothing(device, model: DeviceModel):
    connection = device.connect(1)
    instance = connection.load(0, model)
    connection.close()
    connection.close()
    with pytest.raises(DeviceLost):
        instance.run(0, frame(model))
    with pytest.raises(DeviceLost):
        connection.load(0, model)


def test_a_core_can_be_connected_loaded_and_closed_again_and_again(device, model: DeviceModel):
    inputs = frame(model)
    wanted = expected(model, 0, inputs)
    for _ in range(3):
        connection = device.connect(1)
        for _ in range(2):
            assert same(connection.load(0, model).run(0, inputs)[0], wanted)
        connection.close()


def test_a_plan_that_breaks_its_own_rules_is_a_value_error_and_the_core_takes_the_next(device, model: DeviceModel):
    plan = model.plans[0]
    small = replace(plan, sizes={**plan.sizes, "ocm": 1, "ext": plan.sizes["ext"]})
    connection = device.connect(1)
    with pytest.raises(ValueError, match="command"):
        connection.load(0, replace(model, key="broken", plans=(small,)))
    inputs = frame(model)
    assert same(connection.load(0, model).run(0, inputs)[0], expected(model, 0, inputs))


def test_a_model_that_has_no_room_is_refused_in_bytes_and_what_is_closed_makes_room(make: Make, model: DeviceModel):
    needed = sum(plan.sizes["ext"] for plan in model.plans)
    device = make(replace(BOARD, window_bytes=2 * needed))
    connection = device.connect()
    held = [connection.load(core, model) for core in (0, 1)]
    with pytest.raises(FitError, match=rf"{NAME}: 'two.axm' needs {needed:,} bytes .* beside {2 * needed:,} of other"):
        connection.load(2, model)
    held[0].close()
    assert connection.load(2, model)
    assert connection.load(0, model, BoardConfig(ddr_size=2**30))  # a larger window
    connection.close()
    assert device.connect(1).load(0, model)


@pytest.mark.parametrize("settings", [BoardConfig(clock=450), BoardConfig(ddr_size=2**40)], ids=str)
def test_settings_that_the_board_does_not_have_are_refused(device, model: DeviceModel, settings: BoardConfig):
    with pytest.raises(ValueError, match=NAME):
        device.connect(1).load(0, model, settings)


def test_settings_change_the_modelled_time_and_never_the_bits(device, model: DeviceModel):
    connection = device.connect(2)
    usual = connection.load(0, model)
    limited = connection.load(1, model, BoardConfig(clock=400, mvm_limitation=50))
    inputs = frame(model)
    assert 1.2 * usual.modelled_s(0) < limited.modelled_s(0) < 4 * usual.modelled_s(0)
    assert same(usual.run(0, inputs)[0], limited.run(0, inputs)[0])


def test_switching_to_a_model_is_modelled_by_the_bytes_of_it(device, model: DeviceModel, slow: DeviceModel):
    connection = device.connect(1)
    assert BOARD.switch_s < connection.switch_s(model) < connection.switch_s(slow)


# Pace and replay


def test_a_paced_core_takes_as_long_as_modelled_and_cores_beside_each_other_no_longer(make: Make, other: DeviceModel):
    board = replace(BOARD, switch_s=0.0, clock_hz=BOARD.clock_hz * 1000, clocks_mhz=())
    slowed = BoardConfig(clock=100)  # the 8,000th part: a frame of some milliseconds
    connection = make(board, realtime=True).connect()
    instances = [connection.load(core, other, slowed) for core in connection.cores]
    frame_s = instances[0].modelled_s(0)
    assert 2e-3 < frame_s < 0.1
    turns = max(3, round(0.2 / frame_s))
    inputs = frame(other)
    instances[0].run(0, inputs)

    def work(number: int) -> None:
        for _ in range(turns):
            _, report = instances[number].run(0, inputs)
            assert report.busy_s >= 0.999 * frame_s
            assert report.modelled_s == frame_s

    begun = time.perf_counter()
    in_threads(4, work)
    took = time.perf_counter() - begun
    assert turns * frame_s <= took < 3 * turns * frame_s


def test_a_paced_core_takes_as_long_as_a_switch_to_load(make: Make, other: DeviceModel):
    device = make(replace(BOARD, switch_s=0.1), realtime=True)
    connection = device.connect(1)
    begun = time.perf_counter()
    connection.load(0, other)
    assert time.perf_counter() - begun >= 0.1


def test_frames_begin_when_the_report_says_on_the_clock_of_this_process(device, model: DeviceModel):
    instance = device.connect(1).load(0, model)
    before = time.perf_counter()
    _, report = instance.run(0, frame(model))
    assert before <= report.start_s <= report.start_s + report.busy_s <= time.perf_counter()


def test_the_report_of_every_frame_has_the_modelled_time(device, model: DeviceModel):
    instance = device.connect(1).load(0, model)
    for stage in range(len(model.plans)):
        _, report = instance.run(stage, frame(model, stage))
        assert report.modelled_s == instance.modelled_s(stage) > 0


def test_a_model_of_no_known_chip_has_no_modelled_time_and_runs(device, model: DeviceModel):
    inputs = frame(model)
    made, report = device.connect(1).load(0, replace(model, key="chipless", target={})).run(0, inputs)
    assert report.modelled_s is None
    assert same(made, expected(model, 0, inputs))


def test_recorded_outputs_come_again_whatever_goes_in(make: Make, model: DeviceModel):
    device = make(recording=Recording(2))
    instance = device.connect(1).load(0, model)
    first, second = frame(model, seed=1), frame(model, seed=2)
    wanted = [expected(model, 0, first), expected(model, 0, second)]
    assert same(instance.run(0, first)[0], wanted[0])
    assert same(instance.run(0, second)[0], wanted[1])
    again = [instance.run(0, frame(model, seed=9))[0] for _ in range(4)]
    assert all(same(again[at], wanted[at % 2]) or same(again[at], wanted[1 - at % 2]) for at in range(4))


# When it breaks


@pytest.mark.parametrize("mid_frame", [True, False])
def test_a_board_that_breaks_answers_so_many_frames_and_none_behind_them(device, model: DeviceModel, mid_frame: bool):
    device.lose(after=2, mid_frame=mid_frame)
    connection = device.connect()
    instance = connection.load(0, model)
    inputs = frame(model)
    for _ in range(2):
        assert same(instance.run(0, inputs)[0], expected(model, 0, inputs))
    for _ in range(3):
        with pytest.raises(DeviceLost, match=rf"{NAME} does not answer any more"):
            instance.run(0, inputs)
    with pytest.raises(DeviceLost, match=NAME):
        connection.load(1, model)
    assert device.available() == 0
    connection.close()
    with pytest.raises(DeviceLost, match=NAME):
        device.connect(1)


@pytest.mark.parametrize("mid_frame", [True, False])
def test_a_core_that_breaks_leaves_the_others(device, model: DeviceModel, mid_frame: bool):
    connection = device.connect()
    instances = [connection.load(core, model) for core in connection.cores]
    inputs = frame(model)
    device.lose(1, after=0, mid_frame=mid_frame)
    with pytest.raises(DeviceLost, match="core 1 of metis-0:1:0 does not answer any more"):
        instances[1].run(0, inputs)
    for core in (0, 2, 3):
        assert same(instances[core].run(0, inputs)[0], expected(model, 0, inputs))
    connection.close()
    assert device.available() == 3
    with pytest.raises(DevicesInUse, match=r"4 > 3.* 1 broken"):
        device.connect(4)
    assert device.connect().cores == (0, 2, 3)


@pytest.mark.parametrize("how", ["vanish", "close", "close the instance"])
def test_what_ends_while_frames_run_ends_each_of_them_soon(device, other: DeviceModel, how: str):
    slow = replace(other, engine="reference")
    connection = device.connect(2)
    instances = [connection.load(core, slow) for core in connection.cores]
    inputs = frame(slow)
    wanted = expected(slow, 0, inputs)
    begun = threading.Barrier(5)

    def work(number: int) -> None:
        if number == 4:
            begun.wait()
            time.sleep(0.02)
            if how == "close the instance":
                instances[0].close()
                instances[1].close()
            else:
                (device.vanish if how == "vanish" else connection.close)()
            return
        begun.wait()
        while True:  # until it is lost; a frame that comes is whole
            try:
                made, _ = instances[number % 2].run(0, inputs)
            except DeviceLost:
                return
            assert same(made, wanted)

    in_threads(5, work)


def test_a_board_that_is_gone_can_still_be_closed(device, model: DeviceModel):
    connection = device.connect()
    instance = connection.load(0, model)
    device.vanish()
    instance.close()
    connection.close()
    device.vanish()
    assert device.available() == 0


# What is left


def test_nothing_is_left_when_the_last_connection_is_closed(make: Make, model: DeviceModel):
    make().connect(1).close()  # what is opened once and stays, as the engine
    before = left()
    device = make()
    for cores in (4, 2):
        connection = device.connect(cores)
        instances = [connection.load(core, model) for core in connection.cores]
        for instance in instances:
            instance.run(0, frame(model))
        connection.close()
        assert left() == before  # whoever still knows the connection and its instances
    assert device.available() == 4


def test_nothing_is_left_of_a_board_that_broke(make: Make, model: DeviceModel):
    make().connect(1).close()
    before = left()
    device = make()
    connection = device.connect()
    instance = connection.load(0, model)
    device.lose(mid_frame=True)
    with pytest.raises(DeviceLost):
        instance.run(0, frame(model))
    connection.close()
    del connection, instance
    assert left() == before


def left() -> tuple[int, list[str], list[str], list[str]]:
    """Threads, open files, mapped memory without a name, and children of this process."""
    gc.collect()
    files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    maps = Path("/proc/self/maps").read_text().splitlines()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return (
        threading.active_count(),
        sorted(name.split(":")[0] for name in files),
        [line.split()[-1] for line in maps if "memfd:axtool" in line],
        children,
    )


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


# The words


def test_both_kinds_refuse_the_same_with_the_same_words(model: DeviceModel):
    assert words(SimulatedDevice, model) == words(RemoteDevice, model)


def words(kind: Any, model: DeviceModel) -> list[tuple[type, str, str]]:
    """Type, text and hint of what a board of a kind raises for each way to use it wrongly."""
    device = kind(replace(BOARD, window_bytes=1000), NAME)
    (inputs,) = frame(model)
    found: list[tuple[type, str, str]] = []
    wide = BoardConfig(ddr_size=2**30)
    connection = device.connect(2)
    instance = connection.load(0, model, wide)

    def tried(action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            found.append((type(error), str(error), error.hint if isinstance(error, AxError) else ""))
        else:
            raise AssertionError(f"{len(found)} refusals, and the next is none")

    tried(lambda: device.connect())
    tried(lambda: device.connect([1]))
    tried(lambda: device.connect([9]))
    tried(lambda: device.connect(0))
    tried(lambda: connection.load(3, model))
    tried(lambda: connection.load(1, model))
    tried(lambda: connection.load(1, model, BoardConfig(clock=1)))
    tried(lambda: instance.run(0, []))
    tried(lambda: instance.run(0, [inputs[:, 1:]]))
    tried(lambda: instance.run(0, [inputs.astype(np.float32)]))
    tried(lambda: instance.run(0, [inputs], [inputs[:, 1:]]))
    plan = model.plans[0]
    broken = replace(model, plans=(replace(plan, sizes={**plan.sizes, "ocm": 1}),))
    tried(lambda: connection.load(1, broken, wide))
    instance.close()
    tried(lambda: instance.run(0, [inputs]))
    connection.close()
    tried(lambda: connection.load(0, model, wide))
    return found
