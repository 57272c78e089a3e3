"""What the vendor's page says of its scheduler, sentence by sentence, on simulated boards with a real model.

What other files here test already is not repeated; `scheduler_page.yaml` says where each sentence is held.
"""

from __future__ import annotations

import inspect
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.errors import AxError
from axtool.runtime import OperatorProfiler, op, scheduler
from axtool.runtime.device_config import BoardConfig, DeviceConfig
from axtool.runtime.devices import machine
from axtool.runtime.scheduler import Scheduler

TENSOR = np.zeros((1, 3, 16, 16), np.float32)
ROOT = Path(__file__).resolve().parents[2]
LIMITS = DeviceConfig({"110m": BoardConfig(mvm_limitation=50, clock=400)})


@pytest.fixture(autouse=True)
def _boards() -> Iterator[None]:
    """Two boards, metis-0:1:0 and metis-0:2:0, of four cores each; no default scheduler is left."""
    with machine.simulated("metis-pcie*2"):
        yield
        scheduler.current().close()


@pytest.fixture
def model(classifier: Path) -> op.LoadedSeq:
    loaded: op.LoadedSeq = op.load(classifier)
    return loaded


def free() -> list[int]:
    """How many cores of each board nobody has."""
    return [device.available() for device in machine.devices()]


def connect(model: op.Operator) -> Scheduler:
    """The current scheduler, after it ran a frame."""
    model(TENSOR)
    return scheduler.current()


def in_thread(work: Any) -> Any:
    """What `work` gives in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(30)
    return found[0]


# ---- schedulers


def test_a_scheduler_owns_connections_and_model_instances(model: op.LoadedSeq) -> None:
    with scheduler.create(devices="0") as made:
        model(TENSOR)
        assert free() == [0, 4]
        assert [core.model for core in made.stats().cores if core.frames] == [model.path.name]
    assert free() == [4, 4]


def test_the_default_is_closed_when_the_interpreter_exits(classifier: Path) -> None:
    script = (
        "import sys, numpy as np; from axtool.runtime import op, scheduler\n"
        "from axtool.runtime.scheduler.core import Scheduler\n"
        "close = Scheduler.close\n"
        "Scheduler.close = lambda self: (close(self), print('closed', self.is_connected))\n"
        f"op.load({str(classifier)!r})(np.zeros((1, 3, 16, 16), np.float32)); print('ran')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.splitlines() == ["ran", "closed False"]


def test_create_closes_its_scheduler_when_the_block_is_left(model: op.LoadedSeq) -> None:
    with scheduler.create() as made:
        model(TENSOR)
        assert free() == [0, 0]
    assert made.closed
    assert free() == [4, 4]


def test_create_closes_its_scheduler_when_the_block_fails(model: op.LoadedSeq) -> None:
    def fail() -> None:
        with scheduler.create():
            model(TENSOR)
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        fail()
    assert free() == [4, 4]


def test_a_constructed_scheduler_keeps_its_cores_until_it_is_closed(model: op.LoadedSeq) -> None:
    made = Scheduler("1")
    made.run_stage(model.device.part.model, 0, buffers(model))
    assert free() == [4, 0]
    made.close()
    assert free() == [4, 4]


def test_distinct_threads_run_under_schedulers_of_their_own(model: op.LoadedSeq) -> None:
    gate = threading.Barrier(2)

    def work(device: str) -> list[str]:
        with scheduler.create(devices=device) as made:
            gate.wait(20)
            model(TENSOR)
            gate.wait(20)
            assert scheduler.current() is made
            return [info.name for info in made.devices()]

    found: dict[str, Any] = {}
    threads = [threading.Thread(target=lambda d=d: found.update({d: work(d)}), daemon=True) for d in "01"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert found == {"0": ["metis-0:1:0"], "1": ["metis-0:2:0"]}


def test_schedulers_with_disjoint_devices_run_at_once(model: op.LoadedSeq) -> None:
    first, second = Scheduler(devices=["metis-0:1:0"]), Scheduler(devices=[1])  # type: ignore[arg-type]
    for one in (first, second):
        one.run_stage(model.device.part.model, 0, buffers(model))
    assert free() == [0, 0]
    first.close()
    second.close()


def test_num_workers_is_the_size_of_the_pool_for_streams_and_batches() -> None:
    inside = GathersFrames(3)
    with scheduler.create(num_workers=3):
        list(op.seq(inside).stream(range(12)))
        op.seq(inside).batch(list(range(12)))
    assert inside.most == 3


def test_there_are_two_workers_for_each_core_by_default() -> None:
    with scheduler.create(devices="0") as made:
        assert made.workers.limit == 2 * made.core_count == 8


@pytest.mark.parametrize("asked", [0, -3])
def test_num_workers_is_clamped_to_at_least_one(asked: int) -> None:
    with scheduler.create(num_workers=asked) as made:
        assert made.workers.limit == 1
        assert [result for _, result in op.seq(lambda x: x + 1).stream(range(3))] == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2, 40])
def test_num_workers_does_not_set_how_many_frames_are_in_flight(workers: int) -> None:
    pulled = 0

    def source() -> Iterator[int]:
        nonlocal pulled
        for number in range(200):
            pulled += 1
            yield number

    gate = threading.Event()

    def work(number: int) -> int:
        gate.wait(20)
        return number

    with scheduler.create(devices="0", num_workers=workers):
        stream = op.seq(work).stream(source())
        threading.Timer(0.3, gate.set).start()
        next(stream)
        assert pulled == 16  # four for each of four cores
        stream.close()


def test_settings_of_a_scheduler_reach_the_cores_that_it_runs_models_on(model: op.LoadedSeq) -> None:
    def modelled_s(config: DeviceConfig | None) -> float:
        with scheduler.create(devices="0", device_config=config) as made:
            model(TENSOR)
            return made.stats().cores[0].modelled_s

    assert modelled_s(LIMITS) > 1.5 * modelled_s(None)


def test_the_constructor_has_the_parameters_of_the_page() -> None:
    assert parameters(Scheduler)[:3] == [("devices", None), ("num_workers", None), ("device_config", None)]


def test_the_methods_have_the_parameters_of_the_page() -> None:
    none = inspect.Parameter.empty
    assert {name: parameters(getattr(Scheduler, name)) for name in METHODS} == {
        "close": [],
        "exec_model": [("model", none), ("inputs", none), ("outputs", none)],
        "batch": [("seq", none), ("inputs", none)],
        "stream": [
            ("source", none), ("pipeline", none), ("frame_callback", None), ("split_at", None), ("max_in_flight", None),
            ("queue_depths", None),
        ],
        "multistream": [("streams", none), ("order", "as_available"), ("on_frame", None)],
        "with_callback": [("streams", none), ("callback", none)],
        "round_robin": [("streams", none)],
        "as_available": [("streams", none)],
    }  # fmt: skip


METHODS = ("close", "exec_model", "batch", "stream", "multistream", "with_callback", "round_robin", "as_available")


def test_the_functions_have_the_parameters_of_the_page() -> None:
    assert parameters(scheduler.create) == [("devices", None), ("num_workers", None), ("device_config", None)]
    assert parameters(scheduler.current) == []


def test_there_is_no_opencl_context_and_that_is_said() -> None:
    with scheduler.create() as made, pytest.raises(AxError, match="not available on this device"):
        _ = made.opencl_context


def test_close_releases_everything(model: op.LoadedSeq) -> None:
    before = set(threading.enumerate())
    made = Scheduler()
    list(made.stream([TENSOR] * 4, model))
    assert free() == [0, 0]
    made.close()
    assert free() == [4, 4]
    assert set(threading.enumerate()) <= before


def test_close_ends_the_workers_before_the_connections_go(model: op.LoadedSeq) -> None:
    made = Scheduler("0")
    made.run_stage(model.device.part.model, 0, buffers(model))
    begun, seen = threading.Event(), list[int]()

    def work() -> None:
        begun.set()
        time.sleep(0.1)
        seen.append(machine.devices()[0].available())

    made.workers.submit(work)
    begun.wait(10)
    made.close()
    assert seen == [0]  # while a task ran, the cores were still its scheduler's
    assert free() == [4, 4]


def test_close_is_idempotent(model: op.LoadedSeq) -> None:
    made = Scheduler()
    made.run_stage(model.device.part.model, 0, buffers(model))
    for _ in range(3):
        made.close()
    assert free() == [4, 4]


# ---- streams


def test_a_stream_of_a_pipeline_goes_to_the_current_scheduler() -> None:
    with scheduler.create() as made:
        owners = {id(owner) for _, owner in op.seq(lambda _: scheduler.current()).stream(range(8))}
    assert owners == {id(made)}


def test_the_host_work_of_one_frame_overlaps_the_device_call_of_another(classifier: Path) -> None:
    before, behind = threading.Event(), threading.Event()

    def wait(tensor: np.ndarray) -> np.ndarray:
        if tensor.ravel()[0] == 1:  # the second frame is prepared until the first has left the device
            assert behind.wait(20)
        return tensor

    def note(scores: np.ndarray) -> np.ndarray:
        behind.set()
        return scores

    del before
    pipeline = op.seq(wait, op.load(classifier), note)
    frames = [np.full_like(TENSOR, number) for number in range(2)]
    assert len(list(pipeline.stream(frames, max_in_flight=2))) == 2


def test_a_slow_callback_throttles_the_pipeline() -> None:
    start = time.perf_counter()
    list(op.seq(op.identity()).stream(range(10), frame_callback=lambda _: time.sleep(0.01)))
    assert time.perf_counter() - start >= 0.1


def test_a_callback_that_hands_frames_on_does_not_hold_up_the_stream() -> None:
    handed: queue.SimpleQueue[int] = queue.SimpleQueue()
    results = [result for _, result in op.seq(op.identity()).stream(range(50), frame_callback=handed.put)]
    assert results == [handed.get_nowait() for _ in range(50)] == list(range(50))


@pytest.mark.parametrize("window", [1, 4])
def test_a_frame_that_the_callback_changes_is_changed_for_inference(window: int) -> None:
    def spoil(frame: np.ndarray) -> None:
        frame[...] = 7

    frames = [np.zeros((2, 2, 3), np.uint8)]
    ((_, result),) = op.seq(lambda frame: int(frame.max())).stream(frames, frame_callback=spoil, max_in_flight=window)
    assert result == 7


def test_a_copy_of_a_frame_is_the_callbacks_own() -> None:
    kept: list[np.ndarray] = []
    frame = np.empty((2, 2, 3), np.uint8)

    def recycling() -> Iterator[np.ndarray]:
        for number in range(3):
            frame[...] = number  # a decoder that uses its buffer again
            yield frame

    list(op.seq(lambda f: f).stream(recycling(), frame_callback=lambda f: kept.append(f.copy()), max_in_flight=1))
    assert [int(copy.max()) for copy in kept] == [0, 1, 2]


@pytest.mark.parametrize("window", [1, None])
def test_pulls_are_recorded_with_a_window_of_one_too(window: int | None) -> None:
    with OperatorProfiler() as profiler:
        list(op.seq(op.identity()).stream(range(5), max_in_flight=window))
    (pull,) = [row for row in profiler.rows("stage") if row.name == "source_pull"]
    assert pull.durations.count >= 5


def test_the_depth_of_a_queue_is_no_stage_of_a_profiler() -> None:
    class Deep:
        def __iter__(self) -> Iterator[int]:
            yield from range(4)

        def queue_depth(self) -> int:
            return 9

    depths: list[int] = []
    with OperatorProfiler() as profiler:
        list(op.seq(op.identity()).stream(Deep(), queue_depths=depths))
    assert depths == [9] * len(depths) != []
    assert [row.name for row in profiler.rows("stage")] == ["source_pull"]


# ---- several streams


def test_multistream_keeps_the_error_contract_of_what_it_stands_for() -> None:
    def pairs(count: int, fault: Exception | None = None) -> Iterator[tuple[int, int]]:
        yield from ((number, number) for number in range(count))
        if fault:
            raise fault

    current, fault, drained = scheduler.current(), OSError("the camera is gone"), list[Any]()
    with pytest.raises(OSError, match="the camera is gone"):
        drained.extend(current.multistream([pairs(1, fault), pairs(5)], order="round_robin"))
    assert (0, None, fault) in drained
    assert [item for item in drained if item[0] == 1] == [(1, n, n) for n in range(5)] + [(1, None, None)]
    with pytest.raises(OSError, match="the camera is gone"):
        list(current.multistream([pairs(1, fault), pairs(5)], order="as_available"))
    with pytest.raises(OSError, match="the camera is gone"):
        current.multistream([pairs(1, fault), pairs(5)], on_frame=lambda *_: None)


def test_copies_of_a_pipeline_remember_apart() -> None:
    class CountsFrames(op.Operator):
        def __init__(self) -> None:
            self.seen = 0
            super().__init__()

        def __call__(self, frame: int) -> int:
            self.seen += 1
            return self.seen

    pipeline = op.seq(CountsFrames())
    streams = [pipeline.copy().stream(range(3)) for _ in range(2)]
    found = [(index, result) for index, frame, result in scheduler.current().as_available(streams) if frame is not None]
    assert sorted(found) == [(index, number) for index in range(2) for number in (1, 2, 3)]


def test_as_available_funnels_every_frame_through_the_consumer() -> None:
    here = {threading.get_ident() for _ in scheduler.current().as_available([pairs_of(3), pairs_of(3)])}
    assert here == {threading.get_ident()}


def test_with_callback_blocks_while_a_source_gives_no_further_frame() -> None:
    go_on, returned = threading.Event(), threading.Event()

    def wedged() -> Iterator[tuple[int, int]]:
        yield 0, 0
        go_on.wait(30)

    def run() -> None:
        scheduler.current().with_callback([wedged(), pairs_of(2)], lambda *_: None)
        returned.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert not returned.wait(0.2)
    go_on.set()
    assert returned.wait(20)


def test_a_callback_that_raises_on_a_flag_is_a_way_out() -> None:
    calls = 0

    def endless() -> Iterator[tuple[int, int]]:
        while True:
            yield 0, 0

    def stop(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 20:
            raise StopAsyncIteration("enough")

    with pytest.raises(StopAsyncIteration, match="enough"):
        scheduler.current().with_callback([endless(), endless()], stop)


def test_an_error_of_the_final_call_is_raised() -> None:
    def at_the_end(index: int, frame: Any, result: Any) -> None:
        if frame is None:
            raise LookupError("of the last call")

    with pytest.raises(LookupError, match="of the last call"):
        scheduler.current().with_callback([pairs_of(2)], at_the_end)


def test_the_final_call_of_a_failed_stream_has_its_error() -> None:
    fault, seen = OSError("gone"), list[tuple[int, Any, Any]]()

    def failing() -> Iterator[tuple[int, int]]:
        yield 1, 1
        raise fault

    with pytest.raises(OSError, match="gone"):
        scheduler.current().with_callback([failing()], lambda *item: seen.append(item))
    assert seen == [(0, 1, 1), (0, None, fault)]


def test_work_that_releases_the_lock_of_python_overlaps_across_streams() -> None:
    together = threading.Barrier(3)
    pipeline = op.seq(lambda x: together.wait(20) and x)
    streams = [pipeline.copy().stream([1], max_in_flight=1) for _ in range(3)]
    assert len(list(scheduler.current().as_available(streams))) == 6


def test_a_stream_that_waits_lets_the_others_go_on() -> None:
    seen: list[int] = []

    def late() -> Iterator[tuple[int, int]]:
        while len(seen) < 5:
            time.sleep(0.001)
        yield 9, 9

    for index, frame, _ in scheduler.current().as_available([late(), pairs_of(5)]):
        if frame is not None:
            seen.append(index)
    assert seen == [1] * 5 + [0]


# ---- create, current


def test_create_binds_the_calling_context_alone() -> None:
    with scheduler.create(devices="0") as made:
        elsewhere = in_thread(scheduler.current)
        assert scheduler.current() is made
        assert elsewhere is not made


def test_current_is_first_the_block_then_the_worker_then_the_default() -> None:
    def in_a_block(_: int) -> bool:
        with scheduler.create(devices="1") as inner:
            return scheduler.current() is inner

    with scheduler.create(devices="0") as made:
        assert [result for _, result in op.seq(in_a_block).stream([0], max_in_flight=2)] == [True]
        assert [result is made for _, result in op.seq(lambda _: scheduler.current()).stream([0])] == [True]
    assert scheduler.current() is scheduler.current()
    assert not scheduler.current().closed


# ---- what the tests above use


class GathersFrames(op.Operator):
    """Counts how many frames are in it at once, up to `wait_for`; it gathers so many, if there are."""

    stateful = False

    def __init__(self, wait_for: int) -> None:
        self.most = self.now = 0
        self._wait_for, self._lock = wait_for, threading.Lock()
        super().__init__()

    def __call__(self, frame: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        end = time.monotonic() + 0.2
        while self.most < self._wait_for and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(0.005)
        with self._lock:
            self.now -= 1
        return frame


def pairs_of(count: int) -> Iterator[tuple[int, int]]:
    """A stream of numbers."""
    return ((number, number) for number in range(1, count + 1))


def buffers(model: op.LoadedSeq) -> list[np.ndarray]:
    """Inputs of the device part: zero points."""
    return [np.full(lane.info.shape, lane.info.zero_point, lane.info.dtype) for lane in model.device.part.inputs]


def parameters(function: Any) -> list[tuple[str, Any]]:
    """The parameters without self, with their defaults."""
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.default) for one in found if one.name != "self"]
