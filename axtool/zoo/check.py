"""Configs of the zoo  ->  every fault of each: the file, what it names on this machine, its kernel. Fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from axtool.errors import AxError, UsageError, nearest
from axtool.graph.front import Reading
from axtool.plain_yaml import Place
from axtool.target_file import list_targets, load_target
from axtool.zoo.catalogue import Entry, config_paths, find
from axtool.zoo.config_file import BadConfig, Fault, line_at
from axtool.zoo.heads import fault_of, heads_of
from axtool.zoo.kernels import kernel_file
from axtool.zoo.lines import lines_of
from axtool.zoo.recipe import input_shapes_of
from axtool.zoo.schema import FilePictures
from axtool.zoo.sources import model_at_hand


@dataclass(frozen=True)
class Checked:
    """One config with its faults; none where it is whole. `notes` say what was not looked at."""

    name: str
    file: Path
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()


def check_configs(
    names: Sequence[str], given: Path | None = None, count: Callable[[int, int], None] = lambda done, total: None
) -> tuple[Checked, ...]:
    """Check the named configs, or with no name all of the package. A fault of one does not hide those of the next.

    `given` is the user's file of the one named model.
    Raises UsageError only where there is no config: a name that the zoo does not have, no such file.
    """
    if given is not None and len(names) != 1:
        raise UsageError(f"--source is the file of one model, named are {len(names)}", code="bad-option")
    asked, checked = names or _all_names(), []
    for done, name in enumerate(asked, 1):
        checked.append(_checked(name, given))
        count(done, len(asked))
    return tuple(checked)


def _all_names() -> list[str]:
    """Names by file, so that a config that cannot be read is listed too."""
    return sorted(path.stem for path in config_paths())


def _checked(name: str, given: Path | None) -> Checked:
    try:
        entry = find(name)
    except AxError as error:
        if error.code in ("unknown-model", "file-not-found"):  # not a config at all
            raise
        path = next((path for path in config_paths() if path.stem == name), Path(name))
        if isinstance(error, BadConfig):
            return Checked(name, path, _by_line(error.faults))
        return Checked(name, path, tuple(Fault(line) for line in error.details or [error.what]))
    found = [*_target_faults(entry), *_picture_faults(entry), *_kernel_faults(entry)]
    notes: list[str] = []
    try:
        model = model_at_hand(entry, given)
        if model is None:
            notes.append("the model is not on this machine yet: its digest and its heads are not checked")
        elif not any(place[0] in ("targets", "postamble") for place, _ in found):
            found += _head_faults(entry, model)
    except AxError as error:
        found += [(("source",), f"source: {text}") for text in (str(error), *error.details)]
    lines = lines_of(entry.path)
    return Checked(name, entry.path, _by_line([Fault(text, line_at(lines, place)) for place, text in found]), (*notes,))


def _by_line(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """In the order of the file; those of no line come first."""
    return tuple(sorted(faults, key=lambda fault: fault.line or 0))


def _target_faults(entry: Entry) -> list[tuple[Place, str]]:
    known = list_targets()
    return [
        (("targets", index), f"targets[{index}]: there is no target '{name}'; {nearest(name, known)}")
        for index, name in enumerate(entry.config.targets)
        if name not in known and not name.endswith((".yaml", ".yml"))
    ]


def _picture_faults(entry: Entry) -> list[tuple[Place, str]]:
    faults: list[tuple[Place, str]] = []
    for key, sets in (("calibration", entry.config.calibration), ("validation", entry.config.validation)):
        for index, item in enumerate(sets):
            if not isinstance(item, FilePictures):
                continue
            try:
                if not entry.file(item.path).exists():
                    faults.append(((key, index), f"{key}[{index}]: no such file or folder: {item.path}"))
            except AxError as error:
                faults.append(((key, index), f"{key}[{index}]: {error.what}"))
    return faults


def _kernel_faults(entry: Entry) -> list[tuple[Place, str]]:
    """A built-in kernel was looked up when the config was read; here the module of one's own is."""
    kernel = entry.config.kernel
    if kernel.is_empty or kernel_file(kernel, entry.path.parent) is not None:
        return []
    module = kernel.kernel_name.partition(":")[0]
    return [(("postamble",), f"postamble: no module '{module}' beside the config or on the module path")]


def _head_faults(entry: Entry, model: Path) -> list[tuple[Place, str]]:
    """Whether the model can be read with what the config says, and whether the kernel fits its heads."""
    config = entry.config
    if config.kernel.is_empty or ":" in config.kernel.kernel_name:
        return []
    reading = Reading(input_shapes=input_shapes_of(config, model), dims=config.dims, outputs=tuple(config.outputs))
    fault = fault_of(config.kernel, heads_of(model, load_target(config.targets[0]), reading))
    return [(("postamble",), f"postamble: {fault}")] if fault else []
