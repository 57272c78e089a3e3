"""The door for outside data: the package's own files, YAML as plain values, results written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from axtool.errors import EnvironmentFault, UsageError

LONGEST_NAME = 255  # bytes of one name on Linux, macOS and Windows
SHOWN_NAME = 80  # characters of a longer one in its message


def package_dir(name: str) -> Path:
    """The folder `configs` or `zoo`: the copy inside an installed package, or the one at the top of a source tree."""
    here = Path(__file__).resolve().parent
    installed = here / "_data" / name
    return installed if installed.is_dir() else here.parent / name


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UsageError with the line when it is not one."""
    import yaml

    refuse_special(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"not valid YAML: {error}", where=str(path), code="bad-yaml") from error
    except ValueError as error:  # a NUL byte in the name
        raise UsageError(f"cannot read: {error}", where=repr(str(path)), code="file-not-found") from error
    try:
        value = yaml.safe_load(text)
    except RecursionError as error:
        raise UsageError("not valid YAML: nested too deep", where=str(path), code="bad-yaml") from error
    except Exception as error:  # `!!bool x` is a KeyError, 2026-13-01 a ValueError, `!!int ""` an IndexError
        told = " ".join(str(error).split()) if isinstance(error, yaml.YAMLError) else f"a value is wrong: {error}"
        raise UsageError(f"not valid YAML: {told}", where=str(path), code="bad-yaml") from error
    if not isinstance(value, dict):
        raise UsageError(f"want a mapping of keys, found {type(value).__name__}", where=str(path), code="bad-yaml")
    if _holds_itself(value, (), set()):
        raise UsageError("not valid YAML: an alias names what it is in", where=str(path), code="bad-yaml")
    return value


def _holds_itself(value: object, around: tuple[int, ...], seen: set[int]) -> bool:
    """Whether a mapping or list is inside itself: YAML can say so, and no reader of it would come to an end."""
    if not isinstance(value, (dict, list)) or id(value) in seen:
        return False
    if id(value) in around:
        return True
    inside = value.values() if isinstance(value, dict) else value
    if any(_holds_itself(one, (*around, id(value)), seen) for one in inside):
        return True
    seen.add(id(value))  # a thousand aliases of it need no second look
    return False


def refuse_special(path: Path) -> None:
    """Raise UsageError when to open or read `path` may never end, or when it is too long for a name.

    A regular file, a folder and nothing at all pass.
    """
    refuse_long_name(path)
    if is_special(path):
        raise UsageError(
            "is a pipe, a socket or a device, not a file", where=str(path), hint="save it to a file first",
            code="not-a-file",
        )  # fmt: skip


def is_special(path: Path) -> bool:
    """Whether `path` is a pipe, a socket or a device: to open one may never return, to read one may never end.

    So may a file that the kernel makes while it is read, as /proc/kmsg: those claim to be regular and have no size, on
    a file system without blocks.
    """
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            return status.st_size == 0 and os.statvfs(path).f_blocks == 0
    except (OSError, ValueError):  # who opens it says what is wrong
        return False
    return not stat.S_ISDIR(status.st_mode)


def refuse_long_name(path: Path) -> None:
    """Raise UsageError when the file system has no room for such a name."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise name_too_long(str(path)) from None
    except ValueError:  # a NUL byte; who opens it says so
        return


def name_too_long(path: str) -> UsageError:
    """The error for a path of which a part, or the whole, has more bytes than the file system takes."""
    longest = max((len(os.fsencode(part)) for part in path.split(os.sep)), default=0)
    what = f"a name of {longest:,} bytes" if longest > LONGEST_NAME else f"a path of {len(os.fsencode(path)):,} bytes"
    shown = path if len(path) <= SHOWN_NAME else f"{path[: SHOWN_NAME // 2]}…{path[-SHOWN_NAME // 2 :]}"
    return UsageError(
        f"{what} is too long for a file", where=shown, hint=f"names have at most {LONGEST_NAME} bytes",
        code="name-too-long",
    )  # fmt: skip


def refuse_overwrite(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise UsageError when `path` cannot become a new file: it exists (without `force`), its folder does not, or it
    is one of the `inputs` or no regular file, which not even `force` replaces.
    """
    refuse_long_name(path)
    real = real_path(path)
    if any(real == real_path(other) for other in inputs):
        raise UsageError(
            "is an input of this command", where=str(path), hint="choose another name", code="output-is-input"
        )
    if path.is_dir():
        raise UsageError("is a folder; want a file name", where=str(path), code="output-is-folder")
    if path.exists() and not path.is_file():
        raise UsageError(
            "is a pipe, a socket or a device; want a file name", where=str(path), hint="choose another name",
            code="output-is-special",
        )  # fmt: skip
    if path.exists() and not force:
        raise UsageError(
            "already exists",
            where=str(path),
            hint="pass --force, or in a program force=True, to replace it",
            code="output-exists",
        )
    folder = real.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise UsageError(
            f"folder {folder} does not exist", where=str(path), hint="make the folder first", code="no-such-folder"
        )


def write_whole(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write `data` under a temporary name beside `path`, then rename: a failure leaves the old file as it was.

    A symbolic link stays: the file that it names is replaced. Raises UsageError when the file exists and `force` is
    off, or is no regular file; EnvironmentFault when the disk refuses.
    """
    write_together({path: data}, force=force)


def write_together(files: Mapping[Path, bytes], *, force: bool = False) -> None:
    """As `write_whole`, for files of which all are written or none: none is renamed before all are on the disk."""
    import tempfile

    for path in files:
        refuse_overwrite(path, force=force)
    written: dict[Path, str] = {}
    path = Path()
    try:
        for path, data in files.items():
            handle, written[path] = tempfile.mkstemp(prefix=".axtool-", suffix=".tmp", dir=real_path(path).parent)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(written[path], permissions_of_a_new_file())
        for path in files:
            os.replace(written[path], real_path(path))
            del written[path]
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        for temporary in written.values():
            Path(temporary).unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> EnvironmentFault:
    """The error for a disk that refuses a file."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return EnvironmentFault(
        f"cannot write: {error.strerror}",
        where=str(path),
        hint="free some space and try again" if full else "check the permissions of the folder",
        code="disk-full" if full else "cannot-write",
    )


def real_path(path: Path) -> Path:
    """The path without symbolic links; a link to itself stays as it is."""
    return Path(os.path.realpath(path))


def permissions_of_a_new_file() -> int:
    """The mode that a file gets which is opened for writing; temporary files are made for their owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
