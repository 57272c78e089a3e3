"""`Scheduler.exec_model`: a file and buffers in, buffers filled. Files are read once for the whole process."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from axtool.errors import UsageError, plural
from axtool.runtime.tensor_info import TensorInfo

if TYPE_CHECKING:
    from axtool.runtime.op.device_part import DevicePart
    from axtool.runtime.scheduler.core import Scheduler

Given = NDArray[Any] | int  # an array, or the descriptor of a file, shared memory or a dmabuf
Fill = Callable[[NDArray[Any]], object]  # puts an output where it is wanted

MOST_MODELS = 64  # that are kept; the one that was used longest ago goes first

_lock = Lock()
_models: OrderedDict[tuple[int, ...], _Entry] = OrderedDict()


class _Entry:
    """A model of the cache, read by the first thread that asks for it while the others wait."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.part: DevicePart | None = None


def cached(model: str | os.PathLike[str]) -> DevicePart:
    """The device part of a compiled model; a file that has not changed is read once. Raises UsageError, ValueError."""
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model is a {type(model).__name__}, want the path of an .axm file")
    try:
        status = os.stat(model)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(model), code="file-not-found") from error
    key = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    with _lock:
        entry = _models.get(key)
        if entry is None:
            entry = _models[key] = _Entry()
            while len(_models) > MOST_MODELS:
                _models.popitem(last=False)
        _models.move_to_end(key)
    part = entry.part
    if part is None:
        with entry.lock:
            part = entry.part = entry.part or _read(Path(model))
    return part


def exec_model(
    scheduler: Scheduler, model: str | os.PathLike[str], inputs: Sequence[Given], outputs: Sequence[Given]
) -> None:
    """See `Scheduler.exec_model`."""
    part = cached(model)
    sources = _named(inputs, [lane.info for lane in part.inputs], "input")
    sinks = _named(outputs, [lane.info for lane in part.outputs], "output")
    given = [_input(*source) for source in sources]
    wanted = [_output(*sink) for sink in sinks]
    for fill, array in zip(wanted, scheduler.context().run(part.run, given), strict=True):
        fill(array)


def _named(given: Sequence[Given], infos: Sequence[TensorInfo], kind: str) -> list[tuple[Given, TensorInfo, str]]:
    """Each of the inputs or outputs (`kind`), what the model has there, and its name in messages."""
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"the {kind}s are a {type(given).__name__}, want a list of arrays and file descriptors")
    if len(given) != len(infos):
        names = ", ".join(info.name for info in infos)
        raise ValueError(f"the model has {plural(len(infos), kind)} ({names}), got {plural(len(given), 'buffer')}")
    return [
        (value, info, f"{kind} {at} '{info.name}'") for at, (value, info) in enumerate(zip(given, infos, strict=True))
    ]


def _input(value: Given, info: TensorInfo, which: str) -> NDArray[Any]:
    """The numbers of an input. Raises ValueError or TypeError for what is none of the model's."""
    _check(value, info, which)
    if isinstance(value, np.ndarray):
        return value
    with _told(which, value, "read"):
        if not _may_shrink(value):
            return _mapped(value, info, mmap.ACCESS_READ)
        array = np.empty(info.shape, info.dtype)
        left = memoryview(array.reshape(-1).view(np.uint8).data)
        while left and (count := os.preadv(value, [left], info.size - len(left))):
            left = left[count:]
    if left:
        raise ValueError(f"{which}: descriptor {value} had {len(left):,} of {info.size:,} bytes less when it was read")
    return array


def _output(value: Given, info: TensorInfo, which: str) -> Fill:
    """What fills an output. Raises, before anything runs, ValueError or TypeError for what is none of the model's."""
    _check(value, info, which)
    if isinstance(value, np.ndarray):
        if not value.flags.writeable:
            raise ValueError(f"{which} is a read-only array, which cannot be filled")
        return partial(np.copyto, value)
    descriptor = value
    with _told(which, descriptor, "filled"):
        if not _may_shrink(descriptor):
            return partial(np.copyto, _mapped(descriptor, info, mmap.ACCESS_WRITE))
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            raise OSError("it was opened to append")
        os.pwrite(descriptor, b"", 0)  # says whether it was opened to be written

    def fill(array: NDArray[Any]) -> None:
        left = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        with _told(which, descriptor, "filled"):
            while left:
                left = left[os.pwrite(descriptor, left, info.size - len(left)) :]

    return fill


def _check(value: Given, info: TensorInfo, which: str) -> None:
    if isinstance(value, np.ndarray):
        if value.shape != info.shape or value.dtype != info.dtype:
            raise ValueError(f"{which} is {info.dtype} {info.shape} with its padding, got {value.dtype} {value.shape}")
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{which} is a {type(value).__name__}, want an array or a file descriptor")
    with _told(which, value, "used"):
        has = os.fstat(value).st_size
    if has < info.size:
        raise ValueError(f"{which} takes {info.size:,} bytes, descriptor {value} has {has:,}")


@contextmanager
def _told(which: str, descriptor: int, done: str) -> Iterator[None]:
    """What the system refuses is a ValueError that says of which buffer."""
    try:
        yield
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{which}: descriptor {descriptor} cannot be {done}: {reason}") from error


def _may_shrink(descriptor: int) -> bool:
    """Whether others can take memory away from it: a file, also one in memory. To touch a page of it that is gone, or
    for which the disk has no room, kills the process; to read or write the file does not. A dmabuf keeps its size.
    """
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _mapped(descriptor: int, info: TensorInfo, access: int) -> NDArray[Any]:
    return np.frombuffer(mmap.mmap(descriptor, info.size, access=access), info.dtype).reshape(info.shape)


def _in_child() -> None:
    """After a fork: a thread that read a file is not there any more."""
    global _lock
    _lock = Lock()
    _models.clear()


os.register_at_fork(after_in_child=_in_child)


def _read(path: Path) -> DevicePart:
    from axtool.artefact import axm
    from axtool.runtime.op.load import sequence_of  # operators run on schedulers

    return sequence_of(axm.read(path), path).device.part
