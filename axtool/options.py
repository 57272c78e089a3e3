"""What a compile may be asked for, by the command line or by an entry of the zoo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axtool.graph.front import Reading
from axtool.inputs.prepare import Preparation
from axtool.quant.calib_cache import CalibCache
from axtool.quant.widen import Budget
from axtool.zoo.recipe import Recipe


@dataclass(frozen=True)
class Options:
    """What the user may choose. Calibration comes from `calib` or, already measured, from `ranges`; a model that
    brings all its formats needs neither.
    """

    target: str = "qc-u-1d7-16mb"
    reading: Reading = field(default_factory=Reading)
    calib: tuple[str, ...] = ()
    ranges: Path | None = None
    recipe: str | None = None  # a name or a file
    budget: Budget = field(default_factory=Budget)
    method: str | None = None
    percentile: float | None = None
    limit: int | None = None
    calib_cache: CalibCache | None = None
    preparation: Preparation | None = None
    preprocess: str | None = None
    jobs: int = 1
    optimize: int | None = None  # as 1
    layer_check: bool = True
    directives: Path | None = None  # what the planner is told
    task: Mapping[str, Any] = field(default_factory=dict)


def options_of(recipe: Recipe, *, check: bool = False, jobs: int = 1) -> Options:
    """The options that a zoo recipe stands for."""
    return Options(
        target=recipe.target,
        reading=Reading(
            input_shapes=recipe.input_shapes,
            dims=recipe.dims,
            outputs=recipe.outputs,
            check=check,
        ),
        calib=recipe.calibration,
        recipe=recipe.recipe,
        method=recipe.method,
        percentile=recipe.percentile,
        optimize=recipe.optimize,
        preparation=recipe.preparation,
        jobs=jobs,
        task=recipe.task,
    )
