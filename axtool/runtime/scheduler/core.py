"""`Scheduler`: the boards of a program, their cores and a pool of worker threads."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray

from axtool.errors import UnsupportedError, UsageError
from axtool.runtime.device_config import BoardConfig, DeviceConfig, resolve
from axtool.runtime.devices import machine
from axtool.runtime.devices.context import Context as Boards
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, DeviceInfo
from axtool.runtime.devices.select import Selector, select_devices
from axtool.runtime.scheduler import exec_model, multi
from axtool.runtime.scheduler.amid import amid, elsewhere
from axtool.runtime.scheduler.cores import Cores, CoreStats
from axtool.runtime.scheduler.workers import Workers

if TYPE_CHECKING:
    from axtool.runtime.op.operator import Operator

OnFrame = Callable[[int, Any, Any], object]  # called with (stream_id, input, result)
log = logging.getLogger("axtool")

PATIENCE_S = 5.0  # how long `close` waits for what runs
WORKERS_PER_CORE = 2

CURRENT: ContextVar[Scheduler | None] = ContextVar("axtool_scheduler", default=None)
_LIVING: weakref.WeakSet[Scheduler] = weakref.WeakSet()  # those that a fork leaves to the parent


class SchedulerClosed(UsageError, RuntimeError):
    """Something is asked of a scheduler that is closed, or was closed while it worked on it."""

    code = "scheduler-closed"


@dataclass(frozen=True)
class SchedulerStats:
    """What a scheduler did since it connected; no cores before that."""

    cores: tuple[CoreStats, ...]
    workers: int  # threads that exist

    @property
    def frames(self) -> int:
        """Frames that began on a core, of all models."""
        return sum(core.frames for core in self.cores)

    @property
    def switches(self) -> int:
        """How often a core took another model, the first included."""
        return sum(core.switches for core in self.cores)


class Scheduler:
    """Owns the connections to boards and the models on their cores; pipelines run on it.

    `devices` selects boards by index or name: '0,1', 'metis-0:1:0', or a list of them; None or '' are all.
    `num_workers` is the size of the worker pool, two per core by default and at least one. `device_config` sets boards,
    in place of what a model was loaded with; the environment's AXTOOL_CONFIGURE_BOARD goes before both.

    It connects when the first model runs. It is not the current scheduler of anything: `scheduler.create` makes one
    that is, and closes it. Raises UnknownDevice, a ValueError, for boards that do not exist, TypeError for a
    value of another type.
    """

    def __init__(
        self,
        devices: Selector = None,
        num_workers: int | None = None,
        device_config: DeviceConfig | None = None,
    ) -> None:
        if device_config is not None and not isinstance(device_config, DeviceConfig):
            raise TypeError(
                f"device_config is a {type(device_config).__name__}, want a DeviceConfig: "
                "DeviceConfig({'110m': BoardConfig(mvm_limitation=90)})"
            )
        self._selector, self._device_config = devices, device_config
        self._num_workers = None if num_workers is None else max(1, _whole(num_workers))
        self._lock = threading.Lock()  # of what is made once: cores, workers
        self._boards: Boards | None = None
        self._cores: Cores | None = None
        self._workers: Workers | None = None
        self._closing: threading.Thread | None = None
        self._gone = threading.Event()
        self._why = "this scheduler is closed"
        self.closers: set[Callable[[], object]] = set()  # called by `close` before it waits for the workers
        self.devices()  # a selector that selects nothing is told where it is written
        _LIVING.add(self)

    # ---- what the page of the scheduler has

    @property
    def is_connected(self) -> bool:
        """Whether this scheduler holds cores of its boards: from the first run of a model until it is closed."""
        return self._cores is not None and not self._gone.is_set()

    @property
    def opencl_context(self) -> Any:
        """Raises UnsupportedError: none of the boards that axtool drives shares memory through OpenCL."""
        self.check_open()
        names = ", ".join(f"{device.name} ({device.provenance})" for device in self.devices())
        raise UnsupportedError(
            "there is no OpenCL context: it is not available on this device",
            where=names,
            hint="hand arrays to the pipeline; they are not copied more often than once",
            code="no-opencl",
        )

    def close(self) -> None:
        """Release everything: the workers end, then connections and the models on cores go. Idempotent.

        Frames that wait raise SchedulerClosed; it waits at most 5 s for those that run. Models that were loaded stay
        loaded. The process default makes room: `current()` makes a new one the next time.

        It may be called from anywhere. In a signal handler that has interrupted the scheduler itself it returns at
        once, and a thread closes it as soon as what was interrupted goes on.
        """
        if amid(_LOCKED) and elsewhere(self.close, "scheduler closing"):
            return
        first, here = False, threading.current_thread()
        try:
            with self._lock:
                if self._closing is None:
                    first, self._closing = True, here
            if first:
                self._stop()
            elif self._closing is not here and not (self._workers is not None and self._workers.inside()):
                self._gone.wait(2 * PATIENCE_S)
        finally:
            if first:
                if self._boards is not None:
                    self._boards.release()
                if self._cores is not None:
                    self._cores.close()
                self._gone.set()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a scheduler cannot be copied or pickled: it owns cores and threads; make another")

    def __del__(self) -> None:
        """The cores of one that nobody closed, and nobody can close any more, are free again."""
        boards = self.__dict__.get("_boards")
        if boards is not None and self._closing is None:
            names = ", ".join(device.name for device in boards.select(self._selector))
            warnings.warn(f"a scheduler on {names} was never closed", ResourceWarning, source=self, stacklevel=1)
            if not (amid(_LOCKED) and elsewhere(boards.release, "scheduler closing")):
                boards.release()

    def exec_model(
        self,
        model: str | os.PathLike[str],
        inputs: Sequence[NDArray[Any] | int],
        outputs: Sequence[NDArray[Any] | int],
    ) -> None:
        """Run the device part of a compiled model on a core that this scheduler selects, and fill `outputs`.

        `model` is the path of an .axm file, read once for the whole process while it does not change. Inputs and
        outputs are padded buffers as `AxRuntimeModel` takes and gives them, in its order, or descriptors of what holds
        them from its begin: shared memory, files, dmabufs. Raises ValueError or TypeError for a buffer that is not
        what the model has, UsageError for a file that is no model, and as `run_stage`.
        """
        self.check_open()
        exec_model.exec_model(self, model, inputs, outputs)

    def batch(self, seq: Operator, inputs: Sequence[Any]) -> list[Any]:
        """The results of frames that are all known, in their order, run in parallel on as many cores as is worthwhile.

        `inputs` has one entry for each argument of the pipeline: a list of its values, or one array of them along the
        first axis. Cores of other models are taken when the batch is large enough to pay for the switch there and back.
        A second batch of the same model at the same time gets no further cores; its results are the same.
        Raises ValueError where the entries have different lengths, TypeError for what is no list of frames, and
        RuntimeError naming the frame that failed.
        """
        from axtool.runtime.scheduler import batch  # it knows operators, of which running a model knows nothing

        return batch.batch(self, seq, inputs)

    def stream(
        self,
        source: Any,
        pipeline: Operator,
        *,
        frame_callback: Callable[[Any], object] | None = None,
        split_at: str | None = None,
        max_in_flight: int | None = None,
        queue_depths: list[int] | None = None,
    ) -> Generator[tuple[Any, Any], None, None]:
        """(frame, result) for each frame of a source, in its order, several frames at a time in the pool.

        `source` is a path (a picture, a folder of pictures, a video), a URL, or anything that gives frames one by one.
        At most `max_in_flight` frames, four per core by default, are begun and not yet handed out; with 1, operators
        are called in the calling thread. Stateful operators see the frames one at a time and in order.

        `split_at` names an operator: it and what comes before run in the thread that drives the stream, once a frame.
        `frame_callback(frame)` is called there behind it, or with the frame of the source if nothing is split: it must
        be quick, and copy the frame if it keeps it. The depth of the source's queue, where it has one, is appended to
        `queue_depths` after each pull. A profiler of the calling thread records the operators, and each pull as the
        stage 'source_pull'.

        Arguments that are wrong are refused at once: ValueError for a name that no operator has or a window below 1,
        TypeError, UsageError for a source that cannot be read. What an operator raises comes as RuntimeError that names
        the frame, what the source or the callback raises as it is, behind the results of the frames before. A stream
        that is left early drops the frames that wait, and waits at most 5 s for those that run.
        """
        from axtool.runtime.scheduler import stream  # it knows operators, of which running a model knows nothing

        return stream.stream(
            self, source, pipeline, frame_callback=frame_callback, split_at=split_at, max_in_flight=max_in_flight,
            queue_depths=queue_depths,
        )  # fmt: skip

    def multistream(
        self, streams: Iterable[Iterable[Any]], *, order: str = "as_available", on_frame: OnFrame | None = None
    ) -> Generator[tuple[int, Any, Any], None, None] | None:
        """Several streams together: `as_available` or `round_robin`; with `on_frame`, `with_callback` or the same in
        turn in the calling thread, which returns None when all streams are finished.

        Raises ValueError for another order, TypeError for an `on_frame` that cannot be called.
        """
        return multi.multistream(self, streams, order=order, on_frame=on_frame)

    def with_callback(self, streams: Iterable[Iterable[Any]], callback: OnFrame) -> None:
        """Run each stream in a thread of its own, which calls callback(stream_id, input, result) for each frame, and
        callback(stream_id, None, error or None) at its end. Returns when every stream is finished.

        The callback is entered by several threads at once. The first error that is recorded, of a stream or of the
        callback, stops the other streams behind their next frame and is raised when all have finished. A source that
        never gives another frame blocks the caller.
        """
        multi.with_callback(self, streams, callback)

    def round_robin(self, streams: Iterable[Iterable[Any]]) -> Generator[tuple[int, Any, Any], None, None]:
        """(stream_id, input, result), one frame of each stream in turn, pulled in the calling thread.

        A stream that ends gives (stream_id, None, None) and is left out; one that fails (stream_id, None, error), and
        the error is raised when every other stream has ended.
        """
        return multi.round_robin(self, streams)

    def as_available(self, streams: Iterable[Iterable[Any]]) -> Generator[tuple[int, Any, Any], None, None]:
        """(stream_id, input, result) as the frames come, each stream in a thread of its own.

        A stream that ends gives (stream_id, None, None). The error of one that fails is raised as soon as it comes to
        the front; frames of others that were not handed out are dropped. Leaving waits at most 5 s for the threads: one
        whose source hangs is a daemon, and ends with the program.
        """
        return multi.as_available(self, streams)

    # ---- what pipelines, streams and reports use

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing is not None

    def closed_error(self) -> SchedulerClosed:
        """What a frame raises that comes too late."""
        return SchedulerClosed(self._why, hint="make another with scheduler.create(...), around what runs in it")

    def check_open(self) -> None:
        """Raises SchedulerClosed once `close` was called."""
        if self._closing is not None:
            raise self.closed_error()

    def devices(self) -> list[DeviceInfo]:
        """The boards that it uses, or will connect to. Raises UnknownDevice for a selector that selects nothing."""
        if self._boards is not None:
            return self._boards.select(self._selector)
        return select_devices(self._selector, [device.info for device in machine.devices()])

    @property
    def core_count(self) -> int:
        """Cores of its boards; it need not be connected."""
        return sum(device.cores for device in self.devices())

    @property
    def workers(self) -> Workers:
        """The pool of threads in which `current()` is this scheduler. Raises SchedulerClosed."""
        return self._workers or self._worker_pool()

    def context(self) -> Context:
        """A copy of the caller's context in which `current()` is this scheduler."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context

    def run_stage(
        self, model: DeviceModel, stage: int, inputs: Sequence[Buffer], outputs: Sequence[Buffer] | None = None
    ) -> Sequence[Buffer]:
        """Run a device stage of a model on a core, connecting first if need be: see `Cores.run`.

        Raises SchedulerClosed, DevicesInUse when another scheduler has the cores, DeviceLost when none is left.
        """
        cores = self._cores
        if cores is None:
            cores = self.connected()
        return cores.run(model, stage, inputs, outputs)

    def stats(self) -> SchedulerStats:
        """A snapshot of its counters."""
        cores, workers = self._cores, self._workers
        return SchedulerStats(() if cores is None else cores.stats(), 0 if workers is None else workers.count)

    def connected(self) -> Cores:
        """Its cores, connecting to the boards where that has not happened. Raises as `run_stage`."""
        with self._lock:
            self.check_open()
            if self._cores is None:
                boards = Boards()
                try:
                    devices = boards.select(self._selector)
                    cores = Cores(
                        [boards.connect(device.name) for device in devices], partial(_settings, self._device_config)
                    )
                    self._boards, self._cores = boards, cores
                except BaseException:
                    boards.release()
                    raise
                _warn_of_unknown_boards(self._device_config, devices)
        return self._cores

    def _worker_pool(self) -> Workers:
        with self._lock:
            self.check_open()
            if self._workers is None:
                limit = self._num_workers or max(1, WORKERS_PER_CORE * self.core_count)
                self._workers = Workers(limit, "scheduler worker", lambda: CURRENT.set(self))
            return self._workers

    def _stop(self) -> None:
        """End what runs, as far as it ends in time."""
        if self._cores is not None:
            self._cores.stop(self.closed_error)
        for closer in tuple(self.closers):
            closer()
        if self._workers is not None:
            self._workers.close(PATIENCE_S)

    def _abandon(self) -> None:
        """In a forked child: threads and cores are the parent's."""
        if self._closing is None:
            self._why = f"this scheduler belongs to process {os.getppid()}, from which this one was forked"
        self._lock, self._closing, self._gone = threading.Lock(), threading.current_thread(), threading.Event()
        self._gone.set()
        if self._workers is not None:
            self._workers.abandon()
        if self._cores is not None:
            self._cores.abandon(self.closed_error)


_LOCKED = frozenset(
    function.__code__
    for function in (Scheduler.connected, Scheduler.close, Scheduler._worker_pool, Workers.submit, Workers.close)
)  # what holds the lock of a scheduler or its workers


def _whole(num_workers: object) -> int:
    if isinstance(num_workers, bool) or not hasattr(num_workers, "__index__"):
        raise TypeError(f"num_workers is a {type(num_workers).__name__}, want a whole number")
    return index(num_workers)


def _settings(scheduler: DeviceConfig | None, device: DeviceInfo, model: DeviceModel) -> BoardConfig:
    return resolve(device.board_model, scheduler=scheduler, model=model.device_config)


def _warn_of_unknown_boards(config: DeviceConfig | None, devices: Sequence[DeviceInfo]) -> None:
    known = dict.fromkeys(device.board_model for device in devices)
    unknown = () if config is None else config.unknown(known)
    if unknown:
        log.warning(
            "device_config names %s, and the boards of this scheduler are %s: it changes nothing there",
            ", ".join(unknown), ", ".join(known),
        )  # fmt: skip


def abandon_all() -> None:
    """In a forked child: every scheduler is the parent's."""
    for scheduler in tuple(_LIVING):
        scheduler._abandon()
    CURRENT.set(None)
