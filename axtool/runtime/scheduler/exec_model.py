"""`Scheduler.exec_model`: a file and buffers in, buffers filled. Files are read once for the whole process."""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from collections.abc import Sequence
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

Given = NDArray[Any] | int  # an array, or the descriptor of a file that can be mapped, such as a dmabuf

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
    given = _buffers(inputs, [lane.info for lane in part.inputs], "input")
    wanted = _buffers(outputs, [lane.info for lane in part.outputs], "output")
    for out, array in zip(wanted, scheduler.context().run(part.run, given), strict=True):
        np.copyto(out, array)


def _buffers(given: Sequence[Given], infos: Sequence[TensorInfo], kind: str) -> list[NDArray[Any]]:
    """The arrays of inputs or outputs (`kind`): descriptors are mapped. Raises ValueError or TypeError naming the one
    that is not what the model has.
    """
    if len(given) != len(infos):
        names = ", ".join(info.name for info in infos)
        raise ValueError(f"the model has {plural(len(infos), kind)} ({names}), got {plural(len(given), 'buffer')}")
    return [
        _buffer(value, info, f"{kind} {at}", kind == "output")
        for at, (value, info) in enumerate(zip(given, infos, strict=True))
    ]


def _buffer(value: Given, info: TensorInfo, which: str, writes: bool) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        if value.shape != info.shape or value.dtype != info.dtype:
            raise ValueError(
                f"{which} '{info.name}' is {info.dtype} {info.shape} with its padding, got {value.dtype} {value.shape}"
            )
        if writes and not value.flags.writeable:
            raise ValueError(f"{which} '{info.name}' is a read-only array, which cannot be filled")
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{which} '{info.name}' is a {type(value).__name__}, want an array or a file descriptor")
    try:
        has = os.fstat(value).st_size
        if has < info.size:
            raise ValueError(f"{which} '{info.name}' takes {info.size:,} bytes, descriptor {value} has {has:,}")
        mapped = mmap.mmap(value, info.size, access=mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ)
    except (OSError, OverflowError) as error:
        raise ValueError(f"{which} '{info.name}': descriptor {value} cannot be mapped: {error}") from error
    return np.frombuffer(mapped, info.dtype).reshape(info.shape)


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
