"""Configs of the zoo  ->  every fault of each: the file, what it names on this machine, its kernel. Fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from axtool.config import package_dir
from axtool.errors import AxError, UsageError
from axtool.graph.front import Reading
from axtool.inputs.spec import InputSpec
from axtool.plain_yaml import Place
from axtool.quant.recipe_file import is_file_name
from axtool.runtime.task import completed, interpret
from axtool.target_file import load_target
from axtool.zoo.catalogue import Entry, config_paths, find
from axtool.zoo.config_file import BadConfig, Fault, line_at
from axtool.zoo.heads import fault_of, heads_of
from axtool.zoo.kernels import kernel_file
from axtool.zoo.lines import lines_of
from axtool.zoo.pipeline import steps_of
from axtool.zoo.recipe import check_target, input_shapes_of
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
    found = [*_target_faults(entry), *_file_faults(entry), *_kernel_faults(entry), *_task_faults(entry)]
    notes: list[str] = []
    try:
        model = model_at_hand(entry, given)
        if model is None:
            notes.append("the model is not on this machine yet: its digest and its heads are not checked")
        elif not any(place[0] in ("targets", "postamble") for place, _ in found):
            found += _model_faults(entry, model, entry.config.targets[0])
    except AxError as error:
        found += [(("source",), f"source: {text}") for text in error.details or (str(error),)]
    lines = lines_of(entry.path)
    written = Path(name) if entry.root != package_dir("zoo") else entry.path  # as the user writes it
    return Checked(name, written, _by_line([Fault(text, line_at(lines, place)) for place, text in found]), (*notes,))


def _by_line(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """In the order of the file; those of no line come first."""
    return tuple(sorted(faults, key=lambda fault: fault.line or 0))


def _target_faults(entry: Entry) -> list[tuple[Place, str]]:
    faults: list[tuple[Place, str]] = []
    for index, name in enumerate(entry.config.targets):
        try:
            load_target(check_target(entry, name))
        except AxError as error:
            faults.append(
                (("targets", index), f"targets[{index}]: {'; '.join(filter(None, (str(error), error.hint)))}")
            )
    return faults


def _file_faults(entry: Entry) -> list[tuple[Place, str]]:
    """Whether what the config names by path is there: pictures, labels, a recipe."""
    config = entry.config
    named: list[tuple[Place, str]] = [
        ((key, index), item.path)
        for key, sets in (("calibration", config.calibration), ("validation", config.validation))
        for index, item in enumerate(sets)
        if isinstance(item, FilePictures)
    ]
    named += [((key,), path) for key in ("annotations", "demo") if (path := getattr(config, key))]
    recipe = config.quantization.recipe
    named += [(("quantization", "recipe"), recipe)] if recipe is not None and is_file_name(recipe) else []
    faults: list[tuple[Place, str]] = []
    for place, path in named:
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        try:
            if not entry.file(path).exists():
                faults.append((place, f"{key}: no such file or folder: {path}"))
        except AxError as error:
            faults.append((place, f"{key}: {error.what}"))
    return faults


def _kernel_faults(entry: Entry) -> list[tuple[Place, str]]:
    """A built-in kernel was looked up when the config was read; here the module of one's own is."""
    kernel = entry.config.kernel
    if kernel.is_empty or kernel_file(kernel, entry.path.parent) is not None:
        return []
    module = kernel.kernel_name.partition(":")[0]
    return [(("postamble",), f"postamble: no module '{module}' beside the config or on the module path")]


def _task_faults(entry: Entry) -> list[tuple[Place, str]]:
    """Whether the steps behind the model can be made of what the task says."""
    try:
        steps_of(entry.config).behind()
    except AxError as error:
        return [(("task",), error.what)]
    return []


def refuse_unfit(entry: Entry, model: Path, target: str) -> None:
    """Before any calibration: raise BadConfig where input, task or kernel of the config are not for this model."""
    found = [*_kernel_faults(entry), *_task_faults(entry)]
    found = found or _model_faults(entry, model, target)
    if found:
        lines = lines_of(entry.path)
        hint = "nothing was built; what is left out of the config is done without: no task, no postamble"
        raise BadConfig(entry.path, _by_line([Fault(text, line_at(lines, place)) for place, text in found]), hint=hint)


def _model_faults(entry: Entry, model: Path, target: str) -> list[tuple[Place, str]]:
    """Whether the model can be read with what the config says; pictures are for its input, the task for its outputs,
    the kernel for its heads.
    """
    config = entry.config
    reading = Reading(input_shapes=input_shapes_of(config, model), dims=config.dims, outputs=tuple(config.outputs))
    heads = heads_of(model, load_target(target), reading)
    faults: list[tuple[Place, str]] = []
    if config.input:
        try:
            spec = heads.inputs[0]
            config.preparation.resolve(InputSpec(spec.name, spec.shape, spec.dtype))
        except AxError as error:
            key = "preprocess" if config.preprocess else "input"
            faults.append(((key,), f"{key}: {error}"))
    if config.task:
        nothing = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in heads.outputs}
        try:
            with np.errstate(all="ignore"):
                interpret(completed(config.task, heads.inputs, heads.outputs), nothing)
        except AxError as error:
            faults.append((("task",), f"task: {error}"))
    fault = fault_of(config.kernel, heads)
    return [*faults, (("postamble",), f"postamble: {fault}")] if fault else faults
