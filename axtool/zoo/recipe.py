"""An entry of the zoo  ->  the plain values that compiling and judging it need. Fetches what is not cached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axtool.errors import UsageError, nearest
from axtool.inputs.prepare import Preparation
from axtool.quant.recipe_file import is_file_name
from axtool.target_file import list_targets
from axtool.zoo.catalogue import Entry
from axtool.zoo.pictures import paths_of
from axtool.zoo.schema import Config, UserSource
from axtool.zoo.sources import model_file
from axtool.zoo.user_file import signature


@dataclass(frozen=True)
class Recipe:
    """What to compile and with what. `calibration` are paths as `--calib` takes them."""

    model: Path
    target: str
    calibration: tuple[str, ...]
    preparation: Preparation
    input_shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]
    outputs: tuple[str, ...]
    task: Mapping[str, Any]
    recipe: str | None = None
    method: str | None = None
    percentile: float | None = None
    optimize: int | None = None


def recipe_of(entry: Entry, target: str | None = None, given: Path | None = None) -> Recipe:
    """The recipe for a target, by default the config's first; `given` is the user's file, for an entry without one.

    Raises UsageError for an unknown target, and for a model file that is missing or wrong.
    """
    config, chosen = entry.config, check_target(entry, target)
    model = model_file(entry, given)
    return Recipe(
        model=model,
        target=chosen,
        calibration=paths_of(entry, config.calibration),
        preparation=config.preparation,
        input_shapes=input_shapes_of(config, model),
        dims=config.dims,
        outputs=tuple(config.outputs),
        task=config.task,
        recipe=_recipe(entry),
        method=config.quantization.method,
        percentile=config.quantization.percentile,
        optimize=config.quantization.optimize,
    )


def input_shapes_of(config: Config, model: Path) -> dict[str, tuple[int, ...]]:
    """By the names of the file, which in one of the user's are its own."""
    shapes = {name: tuple(shape) for name, shape in config.input_shapes.items()}
    return {**signature(config.source, model), **shapes} if isinstance(config.source, UserSource) else shapes


def check_target(entry: Entry, target: str | None) -> str:
    """The target, by default the config's first. Raises UsageError for one that there is none of."""
    chosen, known = target or entry.config.targets[0], list_targets()
    if chosen not in known and not chosen.endswith((".yaml", ".yml")):
        raise UsageError(f"there is no target '{chosen}'", hint=nearest(chosen, known), code="unknown-target")
    return chosen


def _recipe(entry: Entry) -> str | None:
    """A name of the package's recipes, or the file that the config names."""
    named = entry.config.quantization.recipe
    return str(entry.file(named)) if named is not None and is_file_name(named) else named


def validation_of(entry: Entry) -> tuple[str, ...]:
    """Paths of the pictures that the model is judged on. Raises UsageError when the config names none."""
    if not entry.config.validation:
        raise UsageError(
            "the config names no validation pictures",
            where=str(entry.path),
            hint="verify with your own: axtool verify MODEL.axm --against MODEL.onnx --data PATH",
            code="no-validation",
        )
    return paths_of(entry, entry.config.validation)
