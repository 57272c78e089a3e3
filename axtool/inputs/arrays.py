""".npz and .npy files  <->  named arrays, read one sample at a time so that a large file never has to fit in memory."""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from axtool.config import refuse_special, write_whole
from axtool.errors import UsageError

Role = Literal["input", "output"]

_MOST_BYTES = 2**62  # of one array: NumPy counts bytes in 64 bits, and Python in as many as a header claims

# What `numpy.savez` would put in a path, or some file system or our own indexed form would take for something else.
_NO_FILE_NAME = re.compile(r'[/\\:*?"<>|\x00-\x1f]|^\.|^\s*$|\.npy$|^(in|out)put_names$|^.{200}')
# RuntimeError: an encrypted member, or a compression that this Python lacks.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError, RuntimeError)


@dataclass(frozen=True)
class Stored:
    """One array in a file: its header, and ways to its numbers. `member` is '' for a .npy file."""

    path: Path
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    data_offset: int | None  # where the numbers begin in the file, None where they are compressed

    def load(self) -> NDArray[Any]:
        """The whole array: mapped from the file where it is stored plainly, else read."""
        if self.data_offset is not None and 0 not in self.shape and self.shape:
            order: Literal["F", "C"] = "F" if self.fortran else "C"
            try:
                return np.memmap(self.path, self.dtype, "r", self.data_offset, self.shape, order)
            except _UNREADABLE as error:
                raise _unreadable(self.path) from error
        with self._open() as stream:
            return _read_array(stream, self.path)

    def rows(self, indices: Iterable[int]) -> Iterator[NDArray[Any]]:
        """The entries of axis 0 at ascending indices; a compressed file is read once from front to back."""
        if self.data_offset is not None or self.fortran or not self.shape:
            array = self.load()
            for index in indices:
                yield np.array(array[index])
            return
        size = math.prod(self.shape[1:]) * self.dtype.itemsize
        at = 0
        with self._open() as stream:
            _read_header(stream, self.path)
            for index in indices:
                while at < index:
                    _take(stream, size, self.path)
                    at += 1
                data = _take(stream, size, self.path)
                at += 1
                yield np.frombuffer(data, self.dtype).reshape(self.shape[1:]).copy()

    def _open(self) -> IO[bytes]:
        if not self.member:
            return open(self.path, "rb")
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.open(self.member)
        except _UNREADABLE as error:
            raise _unreadable(self.path) from error


def open_arrays(path: Path, role: Role = "input") -> dict[str, Stored]:
    """The arrays of an .npz by name, or of an .npy under ''. Reads headers only.

    An .npz with `input_names` and `input_0`… (or `output_…` for that role) gives those names; the other role is taken
    where the asked one is missing. Raises UsageError for files that cannot be read and for pickled objects.
    """
    if path.suffix.lower() == ".npy":
        with _open_file(path) as stream:
            shape, fortran, dtype = _read_header(stream, path)
            stored = Stored(path, "", shape, dtype, fortran, stream.tell())
        size = stored.data_offset or 0
        if path.stat().st_size < size + math.prod(shape) * dtype.itemsize:
            raise UsageError("not a readable npy: the file is cut short", where=str(path), code="bad-npy")
        return {"": stored}
    members = _open_members(path)
    for prefix in (role, "output" if role == "input" else "input"):
        if f"{prefix}_names" in members:
            names = [str(name) for name in np.atleast_1d(members[f"{prefix}_names"].load())]
            wanted = {name: f"{prefix}_{index}" for index, name in enumerate(names)}
            if missing := [member for member in wanted.values() if member not in members]:
                raise UsageError(
                    f"{prefix}_names lists {len(names)} arrays, {', '.join(missing)} missing",
                    where=str(path),
                    code="bad-npz",
                )
            return {name: members[member] for name, member in wanted.items()}
    return members


def read_arrays(path: str | Path, role: Role = "input") -> dict[str, NDArray[Any]]:
    """All arrays of an .npz or .npy, in memory, by name ('' for an .npy). Raises UsageError as `open_arrays`."""
    stored = open_arrays(Path(path), role)
    return {name: np.array(array.load()) for name, array in stored.items()}


def save_arrays(
    path: str | Path, arrays: Mapping[str, NDArray[Any]], *, role: Role = "output", force: bool = False
) -> None:
    """Write an .npz (or an .npy where the name says so and there is one array); the same arrays give the same bytes.

    Members have the plain names, or `output_names`, `output_0`, … when one could not be a file name. The file is
    written beside its place and renamed. Raises UsageError when it exists and `force` is not given, EnvironmentFault
    when the disk refuses.
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        if len(arrays) != 1:
            raise UsageError(
                f"an .npy holds one array, there are {len(arrays)}",
                where=str(path),
                hint="write an .npz",
                code="bad-option",
            )
        data = _npy_bytes(next(iter(arrays.values())))
    else:
        data = _npz_bytes(arrays, role)
    write_whole(path, data, force=force)


def _npz_bytes(arrays: Mapping[str, NDArray[Any]], role: Role) -> bytes:
    members = {name: np.asarray(array) for name, array in arrays.items()}
    if any(_NO_FILE_NAME.search(name) for name in members):
        names = np.array(list(members), dtype=np.str_)
        indexed = {f"{role}_{index}": array for index, array in enumerate(members.values())}
        members = {f"{role}_names": names, **indexed}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in members.items():
            # A bare ZipInfo is dated 1980: the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy_bytes(array))
    return buffer.getvalue()


def _npy_bytes(array: NDArray[Any]) -> bytes:
    array = np.asanyarray(array)
    if array.dtype.hasobject:  # what onnxruntime gives for strings: only a pickle could hold it
        hint = "write other outputs, or choose them with --outputs"
        raise UsageError("an output of strings cannot be written to a file", hint=hint, code="string-output")
    buffer = io.BytesIO()
    npy.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _open_members(path: Path) -> dict[str, Stored]:
    """Every .npy member of a zip, by its name without the suffix."""
    members = {}
    try:
        with _open_file(path) as file, zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                with archive.open(info) as stream:
                    shape, fortran, dtype = _read_header(stream, path)
                    header_bytes = stream.tell()
                if info.file_size < header_bytes + math.prod(shape) * dtype.itemsize:
                    raise ValueError("member is cut short")
                offset = None
                if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                    offset = _data_start(file, info) + header_bytes
                members[info.filename.removesuffix(".npy")] = Stored(path, info.filename, shape, dtype, fortran, offset)
    except _UNREADABLE as error:
        raise _unreadable(path) from error
    return members


def _data_start(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Where a stored member begins: its local header has lengths of its own."""
    position = file.tell()
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    file.seek(position)
    return info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")


def _open_file(path: Path) -> IO[bytes]:
    refuse_special(path)
    try:
        return open(path, "rb")
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error


def _read_header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, fortran order, dtype). Raises UsageError for pickled objects and for what is no array."""
    try:
        version = npy.read_magic(stream)
        if version[0] not in (1, 2, 3):
            raise ValueError(f"version {version}")
        # Version 3 differs from 2 only in the encoding of field names, and arrays of numbers have none.
        header = npy.read_array_header_1_0(stream) if version == (1, 0) else npy.read_array_header_2_0(stream)
    except (*_UNREADABLE, SyntaxError, UnicodeError) as error:
        raise UsageError("not a readable npy: no array header", where=str(path), code="bad-npy") from error
    shape, fortran, dtype = header
    if min(shape, default=0) < 0 or max(math.prod(shape), *shape, 0) * max(1, dtype.itemsize) > _MOST_BYTES:
        what = f"not a readable npy: its header claims an array of shape {str(shape)[:80]}"
        raise UsageError(what, where=str(path), code="bad-npy")
    if dtype.hasobject:
        raise UsageError(
            "holds pickled Python objects, which are never loaded",
            where=str(path),
            hint="save arrays of numbers: numpy.save(path, array.astype(numpy.float32))",
            code="pickled-objects",
        )
    return shape, fortran, dtype


def _read_array(stream: IO[bytes], path: Path) -> NDArray[Any]:
    try:
        return npy.read_array(stream, allow_pickle=False)
    except _UNREADABLE as error:
        raise _unreadable(path) from error


def _take(stream: IO[bytes], count: int, path: Path) -> bytes:
    try:
        data = stream.read(count)
    except _UNREADABLE as error:
        raise _unreadable(path) from error
    if len(data) != count:
        raise _unreadable(path)
    return data


def _unreadable(path: Path) -> UsageError:
    kind = "npy" if path.suffix.lower() == ".npy" else "npz"
    return UsageError(f"not a readable {kind}: the file is damaged or cut short", where=str(path), code=f"bad-{kind}")
