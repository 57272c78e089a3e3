"""The door for outside data: the package's own files, YAML as plain values, results written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from axtool.errors import EnvironmentFault, UsageError


def package_dir(name: str) -> Path:
    """The folder `configs` or `zoo`: the copy inside an installed package, or the one at the top of a source tree."""
    here = Path(__file__).resolve().parent
    installed = here / "_data" / name
    return installed if installed.is_dir() else here.parent / name


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises UsageError with the line when it is not one."""
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror}", where=str(path), code="file-not-found") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid YAML: {error}", where=str(path), code="bad-yaml") from error
    if not isinstance(value, dict):
        raise UsageError(f"want a mapping of keys, found {type(value).__name__}", where=str(path), code="bad-yaml")
    return value


def refuse_overwrite(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise UsageError when `path` cannot become a new file: it exists (without `force`), its folder does not, or it
    is one of the `inputs`, which not even `force` replaces.
    """
    if any(path.resolve() == other.resolve() for other in inputs):
        raise UsageError(
            "is an input of this command", where=str(path), hint="choose another name", code="output-is-input"
        )
    if path.is_dir():
        raise UsageError("is a folder; want a file name", where=str(path), code="output-is-folder")
    if path.exists() and not force:
        raise UsageError("already exists", where=str(path), hint="pass --force to replace it", code="output-exists")
    if not path.parent.is_dir():
        raise UsageError(
            f"folder {path.parent} does not exist", where=str(path), hint="make the folder first", code="no-such-folder"
        )


def write_whole(path: Path, data: bytes, *, force: bool = False) -> None:
    """Write `data` under a temporary name beside `path`, then rename: a failure leaves the old file as it was.

    Raises UsageError when the file exists and `force` is off, EnvironmentFault when the disk refuses.
    """
    import tempfile

    refuse_overwrite(path, force=force)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> EnvironmentFault:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return EnvironmentFault(
        f"cannot write: {error.strerror}",
        where=str(path),
        hint="free some space and try again" if full else "check the permissions of the folder",
        code="disk-full" if full else "cannot-write",
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
