"""External data: where a tensor's bytes lie, checked before any file is opened, and read as memory-mapped arrays.

A location must stay in the model's folder: no absolute path, no "..", no link that leads out. What fails is refused by
the name of the file and of the tensors that need it.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np

from axtool.errors import UsageError

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """One data file of the model, relative to its folder."""

    name: str
    size_bytes: int
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one tensor in one file."""

    tensor: str
    path: Path
    offset: int
    length: int


def locate(tensors: Iterable[tuple[onnx.TensorProto, int]], folder: Path, file: str) -> tuple[Extent, ...]:
    """Extents of the external tensors, each given with the bytes it needs. Raises UsageError listing all faults.

    Nothing outside `folder` is looked at, not even whether it exists.
    """
    extents, faults = [], _Faults(file)
    for tensor, needed in tensors:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        reason = _refusal(location, folder)
        if reason:
            faults.outside[location].append(f"{tensor.name}: {reason}")
            continue
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or needed)
        except ValueError:
            faults.wrong.append(f"{tensor.name}: offset or length of its external data is not a number")
            continue
        path = folder / location
        try:
            status = path.stat()
        except (OSError, ValueError):
            faults.missing[location].append(tensor.name)
            continue
        if not stat.S_ISREG(status.st_mode):
            faults.missing[location].append(tensor.name)
        elif offset < 0 or length != needed:
            faults.wrong.append(f"{tensor.name}: {location} gives {length} bytes at {offset}, its shape needs {needed}")
        elif offset + needed > status.st_size:
            faults.short.append((location, tensor.name, needed, offset, status.st_size))
        else:
            extents.append(Extent(tensor.name, path, offset, needed))
    faults.throw()
    return tuple(extents)


def files_of(extents: Iterable[Extent], folder: Path) -> tuple[ExternalFile, ...]:
    """The data files behind the extents, by name."""
    users: dict[Path, list[str]] = defaultdict(list)
    for extent in extents:
        users[extent.path].append(extent.tensor)
    return tuple(
        ExternalFile(path.relative_to(folder).as_posix(), path.stat().st_size, tuple(names))
        for path, names in sorted(users.items())
    )


def map_bytes(extent: Extent) -> NDArray[np.uint8]:
    """The bytes of the extent, mapped: pages come in when they are used."""
    if extent.length == 0:
        return np.zeros(0, np.uint8)
    array: np.memmap[Any, Any] = np.memmap(extent.path, np.uint8, "r", extent.offset, (extent.length,))
    return array


def _refusal(location: str, folder: Path) -> str:
    """Why the location may not be used, or "". Windows paths count on every system: the model may come from there."""
    if not isinstance(location, str) or not location or "\x00" in location:
        return "its external data has no usable location"
    if PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive or location.startswith("\\"):
        return "an absolute path"
    if ".." in PurePosixPath(location.replace("\\", "/")).parts:
        return "a path with '..'"
    real_folder = os.path.realpath(folder)
    if os.path.commonpath([real_folder, os.path.realpath(folder / location)]) != real_folder:
        return "a link that leads out of the folder"
    return ""


class _Faults:
    """Every fault of the external data of one model, by kind."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.outside: dict[str, list[str]] = defaultdict(list)
        self.missing: dict[str, list[str]] = defaultdict(list)
        self.short: list[tuple[str, str, int, int, int]] = []
        self.wrong: list[str] = []

    def throw(self) -> None:
        """Raise the gravest kind, with all of its kind in the details."""
        if self.outside:
            lines = [f"'{location}': {text}" for location, texts in self.outside.items() for text in texts]
            raise UsageError(
                f"external data must stay in the model's folder; refused {'; '.join(lines[:4])}",
                where=self.file,
                hint="put the data file beside the model and save it with a relative location",
                code="external-data-outside",
                details=lines,
            )
        if self.missing:
            lines = [f"{location}: needed by {', '.join(names)}" for location, names in self.missing.items()]
            raise UsageError(
                f"external data file is missing: {'; '.join(lines[:4])}",
                where=self.file,
                hint="copy it into the model's folder",
                code="external-data-missing",
                details=lines,
            )
        if self.short:
            lines = [
                f"{location}: need {needed} bytes at {offset}, file has {size} (tensor {tensor})"
                for location, tensor, needed, offset, size in self.short
            ]
            raise UsageError(
                lines[0],
                where=self.file,
                hint="the data file is cut short or belongs to another model: copy it again",
                code="external-data-short",
                details=lines,
            )
        if self.wrong:
            raise UsageError(
                self.wrong[0],
                where=self.file,
                hint="save the model again with its external data",
                code="external-data-wrong",
                details=self.wrong,
            )
