"""`Scheduler.exec_model`: buffers and descriptors of a model's file, run on a core of that scheduler."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.artefact import axm
from axtool.errors import UsageError
from axtool.runtime import scheduler
from axtool.runtime.device import DeviceSession, buffer_shape
from axtool.runtime.devices import machine
from axtool.runtime.op.device_part import DevicePart
from axtool.runtime.scheduler import Scheduler, SchedulerClosed
from axtool.runtime.scheduler.exec_model import cached
from tests.runtime.scheduler_boards import at_once


@pytest.fixture
def running() -> Iterator[Scheduler]:
    """A scheduler of one board."""
    scheduler.current().close()
    with machine.simulated(), scheduler.create() as made:
        yield made


class Case:
    """Buffers of a model: random inputs, outputs to fill, and what is to be in them."""

    def __init__(self, path: Path, seed: int = 0) -> None:
        plan = axm.read(path).device_stages[0].plan
        session = DeviceSession(plan)
        rng = np.random.default_rng(seed)
        self.inputs = [rng.integers(-128, 128, buffer_shape(plan, name), np.int8) for name in plan.program.inputs]
        made = session.run_buffers(dict(zip(plan.program.inputs, self.inputs, strict=True)))
        self.expected = [made[name].copy() for name in plan.program.outputs]
        self.outputs = [np.zeros_like(array) for array in self.expected]

    def check(self) -> None:
        for out, wanted in zip(self.outputs, self.expected, strict=True):
            np.testing.assert_array_equal(out, wanted)


def shared(array: np.ndarray[Any, Any]) -> int:
    """A descriptor of memory that holds the bytes of an array."""
    descriptor = os.memfd_create("buffer")
    os.write(descriptor, array.tobytes())
    return descriptor


def test_the_outputs_are_filled_by_a_core_of_the_scheduler(running: Scheduler, classifier: Path) -> None:
    case = Case(classifier)
    running.exec_model(str(classifier), case.inputs, case.outputs)
    case.check()
    assert running.stats().frames == 1


def test_it_runs_on_the_scheduler_it_is_called_on_not_the_current_one(classifier: Path) -> None:
    case = Case(classifier)
    with machine.simulated("metis-pcie*2"), scheduler.create("0") as outer:
        other = Scheduler("1")
        other.exec_model(str(classifier), case.inputs, case.outputs)
        assert (outer.is_connected, other.stats().frames) == (False, 1)
        other.close()
    case.check()


def test_descriptors_of_shared_memory_are_read_and_filled(running: Scheduler, classifier: Path) -> None:
    case = Case(classifier)
    given, wanted = [shared(array) for array in case.inputs], [shared(array) for array in case.outputs]
    running.exec_model(str(classifier), given, wanted)
    for descriptor, array in zip(wanted, case.expected, strict=True):
        assert os.pread(descriptor, 2 * array.nbytes, 0) == array.tobytes()
    for descriptor in (*given, *wanted):
        os.close(descriptor)


def test_threads_read_a_file_once_and_get_their_own_outputs(running: Scheduler, classifier: Path) -> None:
    cases = [Case(classifier, seed) for seed in range(12)]
    calls = [partial(running.exec_model, str(classifier), case.inputs, case.outputs) for case in cases]
    assert at_once(*calls) == [None] * len(cases)
    for case in cases:
        case.check()
    assert len({id(part) for part in at_once(*[partial(cached, classifier)] * 8)}) == 1


def test_a_file_that_was_replaced_is_read_again(running: Scheduler, classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.axm"
    shutil.copy(classifier, path)
    first = cached(path)
    assert cached(path) is first
    os.utime(path, ns=(1, 1))
    assert cached(path) is not first


def test_closing_a_scheduler_keeps_the_models_of_the_process(classifier: Path) -> None:
    before = cached(classifier)
    with machine.simulated(), scheduler.create() as made:
        case = Case(classifier)
        made.exec_model(str(classifier), case.inputs, case.outputs)
    assert cached(classifier) is before


@pytest.mark.parametrize(
    ("spoil", "error", "match"),
    [
        (lambda case: case.inputs.clear(), ValueError, r"has 1 input \(x\), got 0 buffers"),
        (lambda case: case.outputs.append(case.outputs[0]), ValueError, "has 1 output .*, got 2 buffers"),
        (
            lambda case: case.inputs.__setitem__(0, case.inputs[0][:, :-1]),
            ValueError,
            r"input 0 'x' is int8 .*got int8",
        ),
        (lambda case: case.inputs.__setitem__(0, case.inputs[0].view(np.uint8)), ValueError, "got uint8"),
        (lambda case: case.outputs[0].setflags(write=False), ValueError, "output 0 .* is a read-only array"),
        (lambda case: case.inputs.__setitem__(0, "x"), TypeError, "is a str, want an array or a file descriptor"),
        (lambda case: case.inputs.__setitem__(0, True), TypeError, "is a bool"),
        (lambda case: case.inputs.__setitem__(0, 9999), ValueError, "descriptor 9999 cannot be used"),
        (lambda case: case.inputs.__setitem__(0, 1 << 80), ValueError, "cannot be used"),
    ],
)
def test_a_buffer_that_the_model_does_not_have_is_named(
    running: Scheduler, classifier: Path, spoil: Any, error: type[Exception], match: str
) -> None:
    case = Case(classifier)
    spoil(case)
    with pytest.raises(error, match=match):
        running.exec_model(str(classifier), case.inputs, case.outputs)


def test_a_descriptor_of_too_few_bytes_is_refused(running: Scheduler, classifier: Path) -> None:
    case = Case(classifier)
    descriptor = shared(case.inputs[0][:, :1])
    with pytest.raises(ValueError, match=rf"input 0 'x' takes [\d,]+ bytes, descriptor {descriptor} has [\d,]+"):
        running.exec_model(str(classifier), [descriptor], case.outputs)
    os.close(descriptor)


def test_a_descriptor_that_cannot_be_written_is_refused_before_anything_runs(
    running: Scheduler, classifier: Path, tmp_path: Path
) -> None:
    case = Case(classifier)
    (tmp_path / "out").write_bytes(bytes(case.outputs[0].nbytes))
    for flags, reason in ((os.O_RDONLY, "Bad file descriptor"), (os.O_RDWR | os.O_APPEND, "opened to append")):
        descriptor = os.open(tmp_path / "out", flags)
        with pytest.raises(ValueError, match=f"output 0 .* cannot be filled: .*{reason}"):
            running.exec_model(classifier, case.inputs, [descriptor])
        os.close(descriptor)
    assert running.stats().frames == 0
    assert (tmp_path / "out").read_bytes() == bytes(case.outputs[0].nbytes)


def test_memory_that_shrinks_while_a_model_runs_does_not_kill_the_process(
    running: Scheduler, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(classifier)
    read, filled = shared(case.inputs[0]), shared(case.outputs[0])
    run = DevicePart.run

    def shrinking(part: DevicePart, given: Any) -> Any:
        os.ftruncate(read, 0)
        made = run(part, given)
        os.ftruncate(filled, 0)
        return made

    monkeypatch.setattr(DevicePart, "run", shrinking)
    running.exec_model(classifier, [read], [filled])
    assert os.pread(filled, 1 << 20, 0) == case.expected[0].tobytes()
    os.close(read)
    os.close(filled)


def test_a_disk_without_room_for_an_output_is_an_error_and_does_not_kill_the_process(
    running: Scheduler, classifier: Path, tmp_path: Path
) -> None:
    case = Case(classifier)
    with open(tmp_path / "out", "w+b") as file:
        file.truncate(case.outputs[0].nbytes)  # a hole: there is no page behind it yet
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(ValueError, match=r"output 0 .* cannot be filled: File too large"):
                running.exec_model(classifier, case.inputs, [file.fileno()])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("buffers", [None, 3, "x", np.zeros((1, 2))])
def test_what_is_no_list_of_buffers_is_told_as_that(running: Scheduler, classifier: Path, buffers: Any) -> None:
    with pytest.raises(TypeError, match="want a list of arrays and file descriptors"):
        running.exec_model(classifier, buffers, [])
    with pytest.raises(TypeError, match="want the path of an"):
        running.exec_model(7, [], [])  # type: ignore[arg-type]


def test_a_file_that_is_not_there_and_a_closed_scheduler_say_so(
    running: Scheduler, classifier: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"none\.axm: cannot be read: No such file"):
        running.exec_model(str(tmp_path / "none.axm"), [], [])
    (tmp_path / "bad.axm").write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"bad\.axm"):
        running.exec_model(str(tmp_path / "bad.axm"), [], [])
    running.close()
    with pytest.raises(SchedulerClosed):
        running.exec_model(str(classifier), [], [])
