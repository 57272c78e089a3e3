"""A board in a process of its own: it is gone when it should be, however this process or that one ends."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import EnvironmentFault, UnsupportedError
from axtool.runtime.devices import board_process, machine, wire
from axtool.runtime.devices.board_process import BoardGone, BoardProcess
from axtool.runtime.devices.boards import load_board
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.remote import RemoteDevice
from axtool.runtime.devices.seam import DeviceLost
from tests.conftest import Tiny
from tests.runtime.test_device_seam import NAME, expected, frame, in_threads, loaded, same

BOARD = load_board("metis-process")
SOON_S = 10.0  # for what takes milliseconds on a machine with nothing else to do
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def device() -> Iterator[RemoteDevice]:
    made = RemoteDevice(BOARD, NAME)
    yield made
    made.vanish()


@pytest.fixture(scope="module")
def model(tiny_models: Tiny) -> DeviceModel:
    return loaded(tiny_models / "two.axm")


@pytest.fixture(scope="module")
def slow(digits: Path) -> DeviceModel:
    """Some seconds a frame."""
    return replace(loaded(digits), engine="reference")


def is_gone(number: int) -> bool:
    """Whether a process is no more, or only its exit code is left."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def soon(condition: Any, what: str, within_s: float = SOON_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s:g} s"
        time.sleep(0.01)


def stop(number: int) -> None:
    """Stop a process, and wait until its threads have stopped."""
    os.kill(number, signal.SIGSTOP)
    tasks = Path(f"/proc/{number}/task")
    soon(lambda: all((t / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T" for t in tasks.iterdir()), "the stop")


def script(text: str, tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """A program of a user, with everything at its top level."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "AXTOOL_BOARDS": "metis-process"}
    return subprocess.Popen(
        [sys.executable, str(path), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


# When there is a process


def test_the_board_file_says_that_a_board_is_a_process():
    with machine.simulated("metis-process") as boards:
        device = boards[NAME]
        assert isinstance(device, RemoteDevice)
        assert device.process_number is None
        assert device.info.provenance == "simulated in a process of its own"
        connection = device.connect(1)
        assert device.info.provenance == f"simulated in process {device.process_number}"
        connection.close()


def test_a_board_has_one_process_from_the_first_connection_to_the_last(device: RemoteDevice):
    first = device.connect(1)
    number = device.process_number
    second = device.connect(2)
    assert device.process_number == number
    first.close()
    assert not is_gone(number)
    second.close()
    assert is_gone(number)
    assert device.process_number is None
    assert device.connect(1)
    assert device.process_number not in (None, number)


def test_several_boards_are_several_processes(model: DeviceModel):
    with machine.simulated("metis-process*3") as boards:
        inputs = frame(model)
        for board in boards.devices:
            assert same(board.connect(1).load(0, model).run(0, inputs)[0], expected(model, 0, inputs))
        assert len({board.process_number for board in boards.devices} | {os.getpid()}) == 4


def test_leaving_the_machine_ends_what_is_still_connected(model: DeviceModel):
    with machine.simulated("metis-process") as boards:
        instance = boards[NAME].connect(1).load(0, model)
        number = boards[NAME].process_number
    assert is_gone(number)
    with pytest.raises(DeviceLost):
        instance.run(0, frame(model))


def test_a_connection_that_nobody_holds_any_more_ends_its_process():
    device = RemoteDevice(BOARD, NAME)
    device.connect(1)
    number = device.process_number
    del device
    import gc

    gc.collect()
    assert is_gone(number)


# When the process ends


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda s: s.name)
def test_a_process_that_is_killed_is_a_lost_device_for_every_frame_at_once(
    device: RemoteDevice, slow: DeviceModel, number: signal.Signals
):
    connection = device.connect()
    instances = [connection.load(core, slow) for core in connection.cores]
    inputs = frame(slow)
    told: list[str] = []
    begun = time.monotonic()

    def work(at: int) -> None:
        if at == 8:
            # two frames on every core: one computes, one waits
            soon(lambda: all(slot.channel.lock.locked() for one in instances for slot in one._slots), "the frames")
            os.kill(device.process_number, number)
            return
        with pytest.raises(DeviceLost) as lost:
            instances[at % 4].run(0, inputs)
        told.append(str(lost.value))

    in_threads(9, work)
    assert time.monotonic() - begun < SOON_S
    assert len(told) == 8
    assert all("does not answer any more" in text for text in told)
    assert any(f"process {device.process_number} ended by signal {number}" in text for text in told)
    assert device.available() == 0
    connection.close()
    with pytest.raises(DeviceLost):
        device.connect(1)


def test_a_process_that_is_killed_between_frames_is_noticed_by_whoever_asks_next(
    device: RemoteDevice, model: DeviceModel
):
    connection = device.connect(2)
    instance = connection.load(0, model)
    os.kill(device.process_number, signal.SIGKILL)
    soon(lambda: device.available() == 0, "the board is seen to be lost")
    with pytest.raises(DeviceLost, match="ended by signal 9"):
        instance.run(0, frame(model))
    with pytest.raises(DeviceLost, match="ended by signal 9"):
        connection.load(1, model)


def test_an_error_that_somebody_keeps_does_not_keep_the_memory_of_the_model(device: RemoteDevice, model: DeviceModel):
    connection = device.connect(1)
    instance = connection.load(0, model)
    memory = [weakref.ref(slot) for slot in instance._slots]
    os.kill(device.process_number, signal.SIGKILL)
    with pytest.raises(DeviceLost) as kept:
        instance.run(0, frame(model))
    connection.close()
    gc.collect()
    assert [slot() for slot in memory] == [None] * len(memory), kept.value


def test_an_error_of_a_load_that_somebody_keeps_does_not_keep_its_memory(device: RemoteDevice, model: DeviceModel):
    def shared() -> int:
        gc.collect()
        return sum(os.path.realpath(f"/proc/self/fd/{fd}").startswith("/memfd:axtool board") for fd in range(256))

    connection = device.connect(1)
    before = shared()
    os.kill(device.process_number, signal.SIGKILL)
    with pytest.raises(DeviceLost) as kept:
        connection.load(0, model)
    connection.close()
    assert shared() <= before, kept.value


def test_a_load_that_ends_behind_its_connection_does_not_take_the_board_for_lost(
    device: RemoteDevice, model: DeviceModel
) -> None:
    connection = device.connect()
    instance = connection.load(0, model)
    connection._instances.clear()  # as while a load is under way
    connection.close()
    instance.close()
    assert device.available() == BOARD.cores


def test_a_process_that_is_killed_while_it_loads_is_a_lost_device(device: RemoteDevice, model: DeviceModel):
    connection = device.connect(1)
    stop(device.process_number)
    killer = threading.Timer(0.3, os.kill, (device.process_number, signal.SIGKILL))
    killer.start()
    with pytest.raises(DeviceLost, match="ended by signal 9"):
        connection.load(0, model)
    killer.join()


def test_a_process_that_stops_is_given_up_and_killed(
    device: RemoteDevice, model: DeviceModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(board_process, "SILENT_LOOKS", 2)
    connection = device.connect(2)
    instances = [connection.load(core, model) for core in (0, 1)]
    number = device.process_number
    stop(number)
    begun = time.monotonic()

    def work(at: int) -> None:
        with pytest.raises(DeviceLost, match=f"process {number} has not answered for 2 s"):
            instances[at].run(0, frame(model))

    in_threads(2, work)
    assert time.monotonic() - begun < SOON_S
    assert is_gone(number)


def test_a_process_that_pauses_for_less_loses_nothing(device: RemoteDevice, model: DeviceModel):
    instance = device.connect(1).load(0, model)
    number = device.process_number
    stop(number)
    waker = threading.Timer(2.5, os.kill, (number, signal.SIGCONT))
    waker.start()
    inputs = frame(model)
    assert same(instance.run(0, inputs)[0], expected(model, 0, inputs))
    waker.join()
    assert same(instance.run(0, inputs)[0], expected(model, 0, inputs))


def test_a_stopped_process_does_not_keep_the_connection_from_closing(device: RemoteDevice, model: DeviceModel):
    connection = device.connect(1)
    connection.load(0, model)
    number = device.process_number
    stop(number)
    begun = time.monotonic()
    connection.close()
    assert time.monotonic() - begun < SOON_S
    assert is_gone(number)


def test_a_python_that_cannot_start_is_said_and_leaves_the_cores_free(monkeypatch: pytest.MonkeyPatch):
    device = RemoteDevice(BOARD, NAME)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(EnvironmentFault, match="process of board metis-0:1:0 cannot be started: No such file"):
        device.connect()
    monkeypatch.undo()
    connection = device.connect()
    assert len(connection.cores) == 4
    connection.close()


def test_a_process_that_ends_before_it_is_ready_is_said_with_its_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_process, "_START", "import sys; sys.exit(3) # {path}")
    device = RemoteDevice(BOARD, NAME)
    with pytest.raises(EnvironmentFault, match="ended with code 3, before it was ready"):
        device.connect()
    assert device.available() == 4


def test_a_process_that_is_never_ready_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(board_process, "_START", "import time; time.sleep(60) # {path}")
    monkeypatch.setattr(board_process, "START_S", 0.5)
    monkeypatch.setattr(board_process, "END_S", 0.2)
    begun = time.monotonic()
    with pytest.raises(EnvironmentFault, match=r"did not answer within 0\.5 s, before it was ready"):
        RemoteDevice(BOARD, NAME).connect()
    assert time.monotonic() - begun < SOON_S


# When this process ends


HOLDS = """
    import sys, time
    from axtool.runtime import Context
    context = Context()
    connection = context.device_connect(0, 2)
    from axtool.runtime.devices import machine
    print(machine.devices()[0].process_number, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda s: s.name)
def test_the_process_ends_with_its_parent_however_that_ends(tmp_path: Path, number: signal.Signals):
    program = script(HOLDS, tmp_path)
    board = int(program.stdout.readline())
    assert not is_gone(board)
    os.killpg(program.pid, number)  # as a terminal does: everything that is started from it
    program.wait(SOON_S)
    soon(lambda: is_gone(board), "the end of the board's process")
    program.communicate()


def test_ctrl_c_does_not_end_the_board_of_a_program_that_goes_on(tmp_path: Path, tiny_models: Tiny):
    program = script(
        """
        import os, signal, sys
        import numpy as np
        from axtool.runtime import Context
        context = Context()
        connection = context.device_connect(0, 1)
        model = context.load_model(sys.argv[1])
        instance = connection.load_model_instance(model)
        inputs = [np.zeros(info.shape, info.dtype) for info in model.inputs()]
        outputs = [np.zeros(info.shape, info.dtype) for info in model.outputs()]
        for _ in range(20):
            try:
                os.killpg(0, signal.SIGINT)
                instance.run(inputs, outputs)
            except KeyboardInterrupt:
                pass
        instance.run(inputs, outputs)
        print("still there")
        """,
        tmp_path, str(tiny_models / "cls.axm"),
    )  # fmt: skip
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (0, "still there\n", "")


def test_a_program_needs_no_main_guard_and_leaves_no_process_and_no_words(tmp_path: Path, tiny_models: Tiny):
    program = script(
        """
        import sys
        import numpy as np
        from axtool.runtime import op
        from axtool.runtime.devices import machine
        print("begins")
        pipeline = op.load(sys.argv[1])
        made = pipeline(np.zeros((1, 3, 16, 16), np.float32))
        print(machine.devices()[0].process_number)
        """,
        tmp_path, str(tiny_models / "cls.axm"),
    )  # fmt: skip
    out, err = program.communicate(timeout=60)
    begins, number = out.split()
    assert (program.returncode, begins, err) == (0, "begins", "")
    assert is_gone(int(number))


def test_a_forked_child_that_ends_takes_nothing_from_its_parent(device: RemoteDevice, model: DeviceModel):
    connection = device.connect(1)
    instance = connection.load(0, model)
    inputs = frame(model)
    child = os.fork()
    if child == 0:
        try:
            instance.close()
            connection.close()
            device.vanish()
            del instance, connection, device
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert same(instance.run(0, inputs)[0], expected(model, 0, inputs))


def test_a_fork_that_outlives_its_parent_does_not_keep_the_board_alive(tmp_path: Path):
    program = script(
        """
        import os, time
        from axtool.runtime.devices import machine
        device = machine.devices()[0]
        connection = device.connect(1)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(device.process_number, child, flush=True)
        os._exit(0)
        """,
        tmp_path,
    )
    board, child = map(int, program.stdout.readline().split())
    try:
        soon(lambda: is_gone(board), "the end of the board's process")
    finally:
        os.kill(child, signal.SIGKILL)
        program.communicate()


# Interrupted frames


def test_a_frame_that_is_interrupted_leaves_the_next_its_own_bits(device: RemoteDevice, model: DeviceModel):
    """SIGALRM at every moment of a frame, many times: the main thread raises out of whatever it is in."""

    class Stop(BaseException):
        pass

    def raising(*_: Any) -> None:
        raise Stop

    instance = device.connect(1).load(0, model)
    given = [frame(model, seed=seed) for seed in range(4)]
    wanted = [expected(model, 0, inputs) for inputs in given]
    before = signal.signal(signal.SIGALRM, raising)
    stopped = 0
    try:
        for turn in range(400):
            at = turn % 4
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + 2e-6 * (turn % 100))
                made, _ = instance.run(0, given[at])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                stopped += 1
                continue
            assert same(made, wanted[at])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert stopped > 20
    for at in range(4):
        assert same(instance.run(0, given[at])[0], wanted[at])


# What is refused


def test_a_custom_op_is_refused_by_name(device: RemoteDevice, model: DeviceModel):
    plan = model.plans[0]
    layers = (replace(plan.program.layers[0], op="custom", name="MyOp"), *plan.program.layers[1:])
    custom = replace(model, plans=(replace(plan, program=replace(plan.program, layers=layers)),))
    with pytest.raises(UnsupportedError, match=r"metis-0:1:0: 'two.axm' has a custom op \(MyOp\)"):
        device.connect(1).load(0, custom)


def test_no_room_to_share_is_said_in_bytes(device: RemoteDevice, model: DeviceModel, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    connection = device.connect(1)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(EnvironmentFault, match=r"no room for [\d,]+ bytes .*: No space left"):
        connection.load(0, model)
    monkeypatch.undo()
    assert connection.load(0, model)


def test_no_more_files_is_said_and_leaves_the_cores_free(device: RemoteDevice, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    first = device.connect(1)
    monkeypatch.setattr(socket, "socketpair", full)
    with pytest.raises(EnvironmentFault, match=r"no room for a socket .*: Too many open files"):
        device.connect(2)
    monkeypatch.undo()
    assert device.available() == 3
    first.close()
    assert device.process_number is None


def test_another_system_is_told_to_run_boards_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(EnvironmentFault, match="need Linux") as failed:
        RemoteDevice(BOARD, NAME).connect()
    assert "runs: here" in failed.value.hint


# The wire


def test_messages_arrive_whole_and_long_texts_are_cut():
    ours, theirs = wire.pair()
    with ours, theirs:
        sent = wire.Message(wire.Kind.WRONG, 1, 2**63, 3, 4.5, 6.5, "é" * 10_000)
        wire.send(ours, sent)
        got = wire.receive(theirs)
        assert (got.kind, got.stage, got.number, got.model, got.start, got.seconds) == (9, 1, 2**63, 3, 4.5, 6.5)
        assert len(got.text) > 1000
        assert sent.text.startswith(got.text.rstrip("\ufffd"))


def test_the_end_of_the_other_side_is_the_end_of_the_messages():
    ours, theirs = wire.pair()
    with ours:
        theirs.close()
        with pytest.raises(EOFError):
            wire.receive(ours)
        with pytest.raises(BrokenPipeError):
            wire.send(ours, wire.Message(wire.Kind.PING))


def test_a_channel_of_a_board_that_has_ended_answers_nothing():
    board = BoardProcess("test")
    (channel,) = board.open_channels(0, 1)
    board.kill()
    with pytest.raises(BoardGone):
        channel.ask(wire.Message(wire.Kind.FRAME))
    assert "ended by signal 9" in str(board.gone())
    channel.close()
    channel.close()
    board.end()
    with pytest.raises(BoardGone):
        board.tell(wire.Message(wire.Kind.DROP))


def test_a_model_that_a_core_does_not_have_is_gone():
    board = BoardProcess("test")
    (channel,) = board.open_channels(3, 1)
    assert channel.ask(wire.Message(wire.Kind.FRAME, model=7)).kind == wire.Kind.GONE
    channel.close()
    board.end()


def test_shared_memory_is_zeros_that_nobody_can_find_by_name():
    memory, file = wire.new_memory("axtool test", 10_000)
    other = wire.open_memory(file)
    bytes_here = np.frombuffer(memory, np.uint8)
    assert not bytes_here.any()
    bytes_here[1] = 7
    assert other[1] == 7
    assert not [name for name in os.listdir("/dev/shm") if "axtool test" in name]
