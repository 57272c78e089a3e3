"""Planned stages and how they came about  ->  the artefact that the .axm holds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from axtool import __version__
from axtool.artefact.axm import Artefact, DeviceStage, HostStage
from axtool.errors import UsageError
from axtool.graph.front import Front
from axtool.graph.regions import count_of
from axtool.inputs.prepare import Preparation
from axtool.inputs.samples import Samples
from axtool.inputs.spec import InputSpec
from axtool.options import Options
from axtool.plan.build_directives import Directive
from axtool.plan.directives_file import directives_to_dict
from axtool.quant.choice import Choice
from axtool.quant.follow import Followed
from axtool.quant.layer_report import LayerReport
from axtool.quant.ranges import Ranges
from axtool.runtime.export import task_of
from axtool.runtime.task import completed
from axtool.target import Target
from axtool.target_file import target_to_dict

log = logging.getLogger("axtool")


def assemble(
    front: Front,
    target: Target,
    stages: list[HostStage | DeviceStage],
    samples: Samples | None,
    choice: Choice,
    followed: Followed,
    options: Options,
    directives: Sequence[Directive],
    layers: LayerReport,
) -> Artefact:
    """Everything that the file holds. File names only, no folders and no clock: the same input gives the same bytes."""
    ranges = choice.ranges
    preparation = samples.preparation if samples is not None else chosen_preparation(front, ranges, options)
    loaded = front.loaded
    regions = count_of(front.parts.stages)
    return Artefact(
        target=target_to_dict(target),
        inputs=front.inputs,
        outputs=front.outputs,
        stages=tuple(stages),
        preparation=None if preparation is None else preparation.to_dict(),
        task=completed(options.task or task_of(loaded.export, front.outputs), front.inputs, front.outputs),
        export=loaded.export,
        quantization={
            "method": ranges.method or "given ranges",
            "samples": ranges.samples,
            "bias_corrected": bool(ranges.means),
            "trials": [trial.to_dict() for trial in choice.trials if trial.sqnr_db is not None],
            "recipe": followed.to_dict(choice.recipe, choice.widened),
            "layers": layers.to_dict(),
            "ranges": {name: list(ranges[name]) for name in sorted(ranges)},
            "factors": {name: list(ranges.factors[name]) for name in sorted(ranges.factors)},
        },
        support=tuple(verdict.to_dict() for verdict in front.parts.verdicts),
        provenance={
            "axtool": __version__,
            "model": loaded.path.name,
            "sha256": loaded.sha256,
            "producer": loaded.producer,
            "opset": loaded.opset,
            "calibration": [Path(name).name for name in options.calib],
            "samples": list(choice.samples),
            "preprocess": Path(options.preprocess.rsplit(":", 1)[0]).name if options.preprocess else "",
            "dims": dict(sorted((loaded.dims_fixed or {}).items())),
            **({"regions": regions} if regions else {}),
            "passes": {result.name: result.count for result in front.cleaned.log if result.count},
            "notes": [*loaded.notes, *front.cleaned.notes],
            **({"directives": directives_to_dict(directives)} if directives else {}),
        },
    )


def chosen_preparation(front: Front, ranges: Ranges, options: Options) -> Preparation | None:
    """The preparation of a model that no picture calibrates: the user's, or the one that the ranges come with."""
    chosen = options.preparation
    if chosen is None and ranges.preparation is not None:
        chosen = Preparation.from_dict(ranges.preparation)
    specs = [InputSpec(spec.name, spec.shape, spec.dtype) for spec in front.inputs]
    if chosen is None:
        if options.ranges is not None and len(specs) == 1 and len(specs[0].shape) == 4:
            log.warning("no preparation is stored: say --resize, --scale, --color where pictures are fed")
        return None
    try:
        return chosen.resolve(specs[0]) if len(specs) == 1 else chosen
    except UsageError:  # the input is no picture
        return chosen
