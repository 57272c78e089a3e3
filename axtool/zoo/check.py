"""Configs of the zoo  ->  every fault of each: the file, what it names on this machine, its kernel. Fetches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from axtool.errors import AxError, UsageError
from axtool.zoo.catalogue import Entry, config_paths, find
from axtool.zoo.kernels import kernel_file
from axtool.zoo.schema import FilePictures, FileSource
from axtool.zoo.sources import model_file


@dataclass(frozen=True)
class Checked:
    """One config with its faults, a line each; none where the config is whole."""

    name: str
    faults: tuple[str, ...]


def check_configs(names: Sequence[str], given: Path | None = None) -> tuple[Checked, ...]:
    """Check the named configs, or with no name all of the package. A fault of one does not hide those of the next.

    `given` is the user's file of the one named model.
    Raises UsageError only where there is no config: a name that the zoo does not have, no such file.
    """
    if given is not None and len(names) != 1:
        raise UsageError(f"--source is the file of one model, named are {len(names)}", code="bad-option")
    return tuple(Checked(name, _faults(name, given)) for name in names or _all_names())


def _all_names() -> list[str]:
    """Names by file, so that a config that cannot be read is listed too."""
    return sorted(path.stem for path in config_paths())


def _faults(name: str, given: Path | None) -> tuple[str, ...]:
    try:
        entry = find(name)
    except AxError as error:
        if error.code in ("unknown-model", "file-not-found"):  # not a config at all
            raise
        return error.details or (error.what,)
    return (*_source_faults(entry, given), *_picture_faults(entry), *_kernel_faults(entry))


def _source_faults(entry: Entry, given: Path | None) -> list[str]:
    """A model beside the config, or the user's: is it there, and the right one? One of a wheel is judged when it is
    fetched, and the user's when it is given.
    """
    if given is None and not isinstance(entry.config.source, FileSource):
        return []
    try:
        model_file(entry, given)
    except AxError as error:
        return [f"source: {error}", *(f"source: {fault}" for fault in error.details)]
    return []


def _picture_faults(entry: Entry) -> list[str]:
    faults = []
    for key, sets in (("calibration", entry.config.calibration), ("validation", entry.config.validation)):
        for index, item in enumerate(sets):
            if not isinstance(item, FilePictures):
                continue
            try:
                if not entry.file(item.path).exists():
                    faults.append(f"{key}.{index}: no such file or folder: {item.path}")
            except AxError as error:
                faults.append(f"{key}.{index}: {error.what}")
    return faults


def _kernel_faults(entry: Entry) -> list[str]:
    """A built-in kernel was looked up when the config was read; here the module of one's own is."""
    kernel = entry.config.kernel
    if kernel.is_empty or kernel_file(kernel, entry.path.parent) is not None:
        return []
    module = kernel.kernel_name.partition(":")[0]
    return [f"postamble: no module '{module}' beside the config or on the module path"]
